//! Actors of a crate that reaches Enact through another one.
use enact::{System, TCell, atomically};

/// As a crate would be that passes others on.
mod my_facade {
    pub(crate) use enact as passed_on;
    pub(crate) use enact::actors;
}

struct Through {
    n: u64,
}

#[my_facade::passed_on::actor(crate = my_facade::passed_on)]
impl Through {
    fn add(&mut self, n: u64) -> u64 {
        self.n += n;
        self.n
    }
}

#[derive(Clone)]
struct Speculative;

#[my_facade::actors::actor(pub(self), speculative, crate = my_facade::actors)]
impl Speculative {
    #[priority(i32::from(*urgency))]
    #[when(*urgency > 0 || !self.is_busy())]
    async fn urgent(&mut self, urgency: u8) -> u8 {
        urgency
    }
}

impl Speculative {
    fn is_busy(&self) -> bool {
        false
    }
}

#[test]
fn an_actor_says_through_which_crate_it_reaches_the_runtime() {
    let system = System::builder().workers(1).build().unwrap();
    let (through, speculative) = (system.spawn(Through { n: 40 }), system.spawn(Speculative));
    let sent = TCell::new(0_u64);
    let asked = atomically(|tx| {
        tx.update(&sent, |n| n + 1)?;
        Ok((through.within(tx).add(2), speculative.within(tx).urgent(3)))
    })
    .run();
    assert_eq!((asked.0.promise().wait(), asked.1.promise().wait()), (Ok(42), Ok(3)));
}
