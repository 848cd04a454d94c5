//! The programs of *Safe concurrent abstractions for multicore OCaml* (M. Andrieux), section by section.

use enact_actors::{ActorError, Cx, Forward, Promise, System, actor};

/// The actor `a` of 2.2.2 and 2.2.3: `bar` needs `foo` of the same actor, in each way that the paper has.
struct Promiser {
    foo: i64,
}

#[actor]
impl Promiser {
    fn foo(&self) -> i64 {
        self.foo
    }

    fn set_foo(&mut self, value: i64) {
        self.foo = value;
    }

    async fn bar_with_get(&mut self, cx: &Cx<Self>) -> Result<i64, ActorError> {
        cx.handle().foo().await
    }

    async fn bar_with_await(cx: Cx<Self>) -> Result<i64, ActorError> {
        cx.handle().foo().await
    }

    fn bar_with_forward(&mut self, cx: &Cx<Self>) -> Forward<i64> {
        cx.handle().forward(cx).foo()
    }

    fn bar_with_forwarded_promise(&mut self, cx: &Cx<Self>) -> Forward<i64> {
        cx.forward(cx.handle().foo())
    }

    fn bar_with_self_call(&mut self) -> i64 {
        self.foo() + self.foo()
    }

    async fn bar_with_wait_for(cx: Cx<Self>) -> i64 {
        cx.wait_for(|promiser| promiser.foo > 100).await;
        cx.with(|promiser| promiser.foo)
    }
}

fn with_promiser<T: Send + 'static>(ask: impl Fn(&PromiserRef) -> Promise<T>) -> (PromiserRef, Result<T, ActorError>) {
    let system = System::builder().workers(2).build().unwrap();
    let promiser = system.spawn(Promiser { foo: 42 });
    let answer = ask(&promiser).wait();
    (promiser, answer)
}

#[test]
fn self_promise_with_get_is_a_deadlock_that_names_the_actor() {
    let (promiser, answer) = with_promiser(PromiserRef::bar_with_get);
    let Ok(Err(ActorError::Deadlock { cycle })) = answer else { panic!("{answer:?}") };
    assert_eq!(cycle.actors(), [promiser.identity()]);
}

#[test]
fn self_promise_with_await_works() {
    assert_eq!(with_promiser(PromiserRef::bar_with_await).1, Ok(Ok(42)));
}

#[test]
fn forward_to_oneself_works() {
    assert_eq!(with_promiser(PromiserRef::bar_with_forward).1, Ok(42));
}

#[test]
fn forward_of_a_promise_to_oneself_works() {
    assert_eq!(with_promiser(PromiserRef::bar_with_forwarded_promise).1, Ok(42));
}

#[test]
fn a_synchronous_call_on_oneself_is_a_method_call() {
    assert_eq!(with_promiser(PromiserRef::bar_with_self_call).1, Ok(84));
}

#[test]
fn wait_for_returns_when_another_message_has_made_the_condition_true() {
    let (_, answer) = with_promiser(|promiser| {
        let answer = promiser.bar_with_wait_for();
        promiser.tell().set_foo(100);
        promiser.tell().set_foo(101);
        answer
    });
    assert_eq!(answer, Ok(101));
}
