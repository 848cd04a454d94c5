//! What messages carry: of any size and alignment, and with any destructor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use enact_actors::{ExitReason, Promise, Resolver, System, actor};

/// As large and aligned as no place in a queue of messages.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(align(64))]
struct Page([u8; 2048]);

/// Sends to its actor when it is dropped, and may be the last to have a handle of it.
struct Telling(CarrierRef, Arc<AtomicUsize>);

impl Drop for Telling {
    fn drop(&mut self) {
        let accepted = self.0.tell().carry_nothing(()).accepted().is_ok();
        self.1.fetch_add(if accepted { 1 } else { 1000 }, Ordering::SeqCst);
    }
}

/// Takes arguments of any kind.
#[derive(Default)]
struct Carrier {
    carried: Vec<u64>,
}

#[actor]
impl Carrier {
    fn carry_nothing(&mut self, _nothing: ()) {
        self.carried.push(0);
    }
    fn carry_page(&mut self, page: Page) -> (Page, bool) {
        self.carried.push(u64::from(page.0[0]));
        (page, (&raw const page).is_aligned())
    }
    fn carry_wide(&mut self, wide: u128) -> u128 {
        self.carried.push(1);
        wide
    }
    fn carry_telling(&mut self, telling: Telling) {
        self.carried.push(2);
        drop(telling);
    }
    async fn wait_for(&mut self, opened: Promise<()>, begun: Resolver<()>) {
        begun.resolve(());
        opened.await.unwrap();
    }
    fn carried(&self) -> Vec<u64> {
        self.carried.clone()
    }
}

#[test]
fn arguments_of_any_size_and_alignment_arrive_whole_and_in_order() {
    let system = System::builder().workers(1).build().unwrap();
    let carrier = system.spawn(Carrier::default());
    let (opened, opens) = Promise::pair();
    let (begun, begins) = Promise::pair();
    carrier.tell().wait_for(opened, begins);
    begun.wait().unwrap();
    let page = Page(std::array::from_fn(|at| if at == 0 { 7 } else { u8::try_from(at % 251).unwrap() }));
    let pages = [(); 20].map(|()| {
        carrier.tell().carry_nothing(());
        (carrier.carry_page(page), carrier.carry_wide(u128::MAX - 5))
    });
    opens.resolve(());
    for (carried, wide) in pages {
        assert_eq!(carried.wait(), Ok((page, true)));
        assert_eq!(wide.wait(), Ok(u128::MAX - 5));
    }
    assert_eq!(carrier.carried().wait(), Ok([0, 7, 1].repeat(20)));
}

#[test]
fn arguments_that_send_to_their_own_actor_when_they_are_dropped_block_nobody() {
    let system = System::builder().workers(1).build().unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    for kills in [true, false] {
        let carrier = system.spawn(Carrier::default());
        let (opened, opens) = Promise::pair();
        let (begun, begins) = Promise::pair();
        carrier.tell().wait_for(opened, begins);
        begun.wait().unwrap();
        for _ in 0..3 {
            carrier.tell().carry_telling(Telling(carrier.clone(), Arc::clone(&told)));
        }
        let exit = carrier.watch();
        if kills {
            carrier.kill();
        }
        // The last handles are those in the mailbox.
        drop(carrier);
        opens.resolve(());
        let reason = if kills { ExitReason::Stopped } else { ExitReason::Released };
        assert_eq!(exit.wait().unwrap().reason, reason);
        // Refused by an actor that ends, and accepted by one that takes them up.
        assert_eq!(told.swap(0, Ordering::SeqCst), if kills { 3000 } else { 3 });
    }
}
