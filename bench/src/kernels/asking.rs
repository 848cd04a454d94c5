//! A long Syracuse sequence again, whose numbers one actor asks of another in a loop: no call is a tail call, and only one
//! caller waits at a time.
use std::hint::black_box;
use std::marker::PhantomData;

use enact::{ActorError, Cx, actor};
use enact_workloads::kernels::{WrongKernel, collatz, verify_number};

use super::Variant;
use super::probe::Probe;
use super::program::{Program, Stage, Version};

/// No number below 10^12 has a longer sequence.
const START: u64 = 989_345_275_647;
const STEPS: u64 = 1_348;

struct Stepper<P>(PhantomData<P>);

#[actor]
impl<P: Probe> Stepper<P> {
    fn next(&self, n: u64) -> u64 {
        P::called();
        collatz(n)
    }
}

struct Asker<P: Probe>(StepperRef<P>);

#[actor]
impl<P: Probe> Asker<P> {
    /// Lets the actor take other messages while it waits.
    async fn awaiting(cx: Cx<Self>, mut n: u64) -> Result<u64, ActorError> {
        P::called();
        let stepper = cx.with(|asker| asker.0.clone());
        let mut steps = 0;
        while n != 1 {
            P::promised();
            n = stepper.next(n).await?;
            steps += 1;
        }
        Ok(steps)
    }

    /// Holds the actor while it waits.
    async fn holding(&mut self, mut n: u64) -> Result<u64, ActorError> {
        P::called();
        let mut steps = 0;
        while n != 1 {
            P::promised();
            n = self.0.next(n).await?;
            steps += 1;
        }
        Ok(steps)
    }

    fn synchronous(&mut self, cx: &Cx<Self>, mut n: u64) -> Result<u64, ActorError> {
        P::called();
        let mut steps = 0;
        while n != 1 {
            n = self.0.call(cx).next(n)?;
            steps += 1;
        }
        Ok(steps)
    }
}

fn native(mut n: u64) -> u64 {
    let mut steps = 0;
    while n != 1 {
        n = collatz(n);
        steps += 1;
    }
    steps
}

pub(super) struct Asking;

impl Program for Asking {
    type Found = u64;

    fn calls(&self) -> Option<u64> {
        Some(STEPS + 1)
    }

    fn versions<'a, P: Probe>(&'a self, stage: &'a Stage) -> Vec<Version<'a, u64>> {
        let asker = stage.system.spawn(Asker(stage.system.spawn(Stepper::<P>(PhantomData))));
        let asked = |ask: fn(&AskerRef<P>) -> Result<u64, ActorError>| {
            let asker = asker.clone();
            move || {
                P::promised();
                ask(&asker)
            }
        };
        vec![
            Version::new(Variant::Await, 200, asked(|asker| asker.awaiting(START).wait().flatten())),
            Version::new(Variant::Held, 200, asked(|asker| asker.holding(START).wait().flatten())),
            Version::new(Variant::Sync, 500, asked(|asker| asker.synchronous(START).wait().flatten())),
            Version::new(Variant::Native, 50_000, || Ok(native(black_box(START)))),
        ]
    }

    fn verify(&self, found: &u64) -> Result<(), WrongKernel> {
        verify_number(*found, STEPS)
    }
}
