//! Ackermann's function, computed by one actor that calls itself; the inner one of two nested calls is no tail call.
use std::hint::black_box;
use std::marker::PhantomData;

use enact::{ActorError, Cx, Forward, actor};
use enact_workloads::kernels::{WrongKernel, ackermann, verify_number};

use super::Variant;
use super::probe::Probe;
use super::program::{Program, Stage, Version};

const M: u64 = 3;
const N: u64 = 4;
/// A(3, n) = 2^(n + 3) - 3.
const EXPECTED: u64 = 125;

struct Computer<P>(PhantomData<P>);

#[actor]
impl<P: Probe> Computer<P> {
    async fn awaiting(cx: Cx<Self>, m: u64, n: u64) -> Result<u64, ActorError> {
        P::called();
        let ask = |m, n| {
            P::promised();
            cx.handle().awaiting(m, n)
        };
        match (m, n) {
            (0, n) => Ok(n + 1),
            (m, 0) => ask(m - 1, 1).await?,
            (m, n) => {
                let inner = ask(m, n - 1).await??;
                ask(m - 1, inner).await?
            }
        }
    }

    async fn forwarding(cx: Cx<Self>, m: u64, n: u64) -> Forward<Result<u64, ActorError>> {
        P::called();
        let (m, n) = match (m, n) {
            (0, n) => return cx.reply(Ok(n + 1)),
            (m, 0) => (m - 1, 1),
            (m, n) => {
                P::promised();
                match cx.handle().forwarding(m, n - 1).await.flatten() {
                    Ok(inner) => (m - 1, inner),
                    broken => return cx.reply(broken),
                }
            }
        };
        cx.handle().forward(&cx).forwarding(m, n)
    }

    fn synchronous(&mut self, m: u64, n: u64) -> u64 {
        P::called();
        match (m, n) {
            (0, n) => n + 1,
            (m, 0) => self.synchronous(m - 1, 1),
            (m, n) => {
                let inner = self.synchronous(m, n - 1);
                self.synchronous(m - 1, inner)
            }
        }
    }
}

pub(super) struct Ackermann;

impl Program for Ackermann {
    type Found = u64;

    fn calls(&self) -> Option<u64> {
        Some(10_307)
    }

    fn versions<'a, P: Probe>(&'a self, stage: &'a Stage) -> Vec<Version<'a, u64>> {
        let computer = stage.system.spawn(Computer::<P>(PhantomData));
        let asked = |ask: fn(&ComputerRef<P>) -> Result<u64, ActorError>| {
            let computer = computer.clone();
            move || {
                P::promised();
                ask(&computer)
            }
        };
        vec![
            Version::new(Variant::Await, 20, asked(|computer| computer.awaiting(M, N).wait().flatten())),
            Version::new(Variant::Forward, 20, asked(|computer| computer.forwarding(M, N).wait().flatten())),
            Version::new(Variant::Sync, 5_000, asked(|computer| computer.synchronous(M, N).wait())),
            Version::new(Variant::Native, 10_000, || Ok(black_box(ackermann(black_box(M), black_box(N))))),
        ]
    }

    fn verify(&self, found: &u64) -> Result<(), WrongKernel> {
        verify_number(*found, EXPECTED)
    }
}
