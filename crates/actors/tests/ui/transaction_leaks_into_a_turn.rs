//! What is sent or becomes captures values, not the transaction that it is made in.
use enact_actors::{System, actor};
use enact_stm::{TCell, Tx, atomically};

struct Worker;

#[actor]
impl Worker {
    fn act(&mut self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

fn main() {
    let system = System::builder().build().unwrap();
    let (worker, hits) = (system.spawn(Worker), TCell::new(0));
    atomically(|tx| {
        let own: &mut Tx = tx;
        worker.tell().act(Box::new(move || drop(own.read(&hits))));
        Ok(())
    })
    .run();
}
