//! A long Syracuse sequence, followed by one actor that calls itself; all calls are tail calls.
use std::hint::black_box;
use std::marker::PhantomData;

use enact::{ActorError, Cx, Forward, actor};
use enact_workloads::kernels::{WrongKernel, collatz, syracuse, verify_number};

use super::Variant;
use super::probe::Probe;
use super::program::{Program, Stage, Version};

/// No number below 10^12 has a longer sequence.
const START: u64 = 989_345_275_647;

struct Walker<P>(PhantomData<P>);

#[actor]
impl<P: Probe> Walker<P> {
    async fn awaiting(cx: Cx<Self>, n: u64) -> Result<u64, ActorError> {
        P::called();
        if n == 1 {
            return Ok(1);
        }
        P::promised();
        cx.handle().awaiting(collatz(n)).await?
    }

    fn forwarding(&mut self, cx: &Cx<Self>, n: u64) -> Forward<u64> {
        P::called();
        if n == 1 { cx.reply(1) } else { cx.handle().forward(cx).forwarding(collatz(n)) }
    }

    fn synchronous(&mut self, n: u64) -> u64 {
        P::called();
        if n == 1 { 1 } else { self.synchronous(collatz(n)) }
    }
}

pub(super) struct Syracuse;

impl Program for Syracuse {
    type Found = u64;

    fn calls(&self) -> Option<u64> {
        Some(1_349)
    }

    fn versions<'a, P: Probe>(&'a self, stage: &'a Stage) -> Vec<Version<'a, u64>> {
        let walker = stage.system.spawn(Walker::<P>(PhantomData));
        let asked = |ask: fn(&WalkerRef<P>) -> Result<u64, ActorError>| {
            let walker = walker.clone();
            move || {
                P::promised();
                ask(&walker)
            }
        };
        vec![
            Version::new(Variant::Await, 50, asked(|walker| walker.awaiting(START).wait().flatten())),
            Version::new(Variant::Forward, 300, asked(|walker| walker.forwarding(START).wait())),
            Version::new(Variant::Sync, 10_000, asked(|walker| walker.synchronous(START).wait())),
            Version::new(Variant::Native, 100_000, || Ok(black_box(syracuse(black_box(START))))),
        ]
    }

    fn verify(&self, found: &u64) -> Result<(), WrongKernel> {
        verify_number(*found, 1)
    }
}
