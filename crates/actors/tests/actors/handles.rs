//! What #[actor] generates: handles of generic actors, visibility, attributes, and what a signature may hold.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use enact_actors::{ActorError, Cx, Forward, Handle, Promise, System, actor};

/// A generic actor with bounds in both places, and a constant parameter.
struct Stack<T, const MAX: usize>
where
    T: Display,
{
    items: Vec<T>,
}

#[actor]
impl<T: Send + Clone + 'static, const MAX: usize> Stack<T, MAX>
where
    T: Display,
{
    /// No message: it has no receiver.
    fn with(items: Vec<T>) -> Self {
        Self { items }
    }

    fn push(&mut self, item: T) -> Result<usize, T> {
        if self.items.len() == MAX {
            return Err(item);
        }
        self.items.push(item);
        Ok(self.items.len())
    }

    fn merge(&mut self, other: Self) -> Option<T> {
        self.items.extend(other.items);
        self.items.last().cloned()
    }

    async fn pop_when_filled(cx: Cx<Self>) -> T {
        cx.wait_for(|stack| !stack.items.is_empty()).await;
        cx.with(|stack| stack.items.pop()).expect("it was filled")
    }

    async fn show(&mut self, separator: &'static str) -> String {
        self.items.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
    }

    fn pass_on(&mut self, cx: &Cx<Self>, to: StackRef<T, MAX>) -> Forward<Result<usize, T>> {
        match self.items.pop() {
            Some(item) => to.forward(cx).push(item),
            None => cx.reply(Ok(0)),
        }
    }
}

#[test]
fn generic_actors_have_generic_handles() {
    let system = System::builder().workers(2).build().unwrap();
    let stack: StackRef<String, 2> = system.spawn(Stack::with(vec![]));
    let popped = stack.pop_when_filled();
    assert_eq!(stack.push("a".into()).wait(), Ok(Ok(1)));
    assert_eq!(popped.wait(), Ok("a".into()));
    assert_eq!(stack.merge(Stack::with(vec!["b".into(), "c".into()])).wait(), Ok(Some("c".into())));
    assert_eq!(stack.push("d".into()).wait(), Ok(Err("d".into())));
    assert_eq!(stack.show("-").wait(), Ok("b-c".into()));
    let other = system.spawn(Stack::<String, 2>::with(vec![]));
    assert_eq!(stack.pass_on(other.clone()).wait(), Ok(Ok(1)));
    assert_eq!(other.show("-").wait(), Ok("c".into()));
}

mod inner {
    use enact_actors::actor;

    /// An actor of which only some messages may be sent from outside.
    pub(crate) struct Guarded {
        pub(crate) secret: u8,
    }

    #[actor]
    impl Guarded {
        pub(crate) fn double(&mut self) -> u8 {
            self.secret *= 2;
            self.secret
        }

        fn secret(&self) -> u8 {
            self.secret
        }

        #[cfg(not(test))]
        fn left_out(&self, nothing: DoesNotExist) {}
    }

    pub(crate) fn peek(guarded: &GuardedRef) -> enact_actors::Promise<u8> {
        guarded.secret()
    }

    #[derive(Default)]
    pub(super) struct Local;

    #[actor(pub(super))]
    impl Local {
        #[deprecated(note = "use `new_way`")]
        pub(super) fn old_way(&self) -> u8 {
            1
        }

        pub(super) fn new_way(&self) -> u8 {
            2
        }
    }
}

#[test]
fn a_handles_methods_are_as_visible_as_the_handlers() {
    let system = System::builder().workers(1).build().unwrap();
    let guarded: inner::GuardedRef = system.spawn(inner::Guarded { secret: 2 });
    assert_eq!(guarded.double().wait(), Ok(4));
    assert_eq!(inner::peek(&guarded).wait(), Ok(4));
    let local = system.spawn(inner::Local);
    #[expect(deprecated, reason = "the attribute carries over")]
    let old = local.old_way();
    assert_eq!(old.join(local.new_way()).wait(), Ok((1, 2)));
}

/// Messages and arguments with names that generated code uses, too.
struct Awkward;

type Alias<T> = Result<T, String>;

#[actor]
impl Awkward {
    fn state(&self, state: i64, mut cx: i64, handle: i64) -> i64 {
        cx += 1;
        state * 100 + cx * 10 + handle
    }

    fn r#match(&self, r#type: i64) -> i64 {
        r#type
    }

    fn stop(&self) -> &'static str {
        "a message, not the end"
    }

    fn id(&self, f: fn(&str) -> usize, boxed: Box<dyn Fn(&str) -> usize + Send>) -> usize {
        f("abc") + boxed("de")
    }

    fn alias(&self, fail: bool) -> Alias<()> {
        if fail { Err("so told".into()) } else { Ok(()) }
    }

    fn promise(&self, cx: &Cx<Self>) -> Promise<i64> {
        cx.handle().state(1, 1, 3)
    }

    fn nothing(&self) {}
}

#[test]
fn messages_may_be_named_like_anything_but_a_view() {
    let system = System::builder().workers(1).build().unwrap();
    let awkward = system.spawn(Awkward);
    assert_eq!(awkward.state(1, 1, 3).wait(), Ok(123));
    assert_eq!(awkward.r#match(5).wait(), Ok(5));
    assert_eq!(awkward.stop().wait(), Ok("a message, not the end"));
    assert_eq!(awkward.id(str::len, Box::new(str::len)).wait(), Ok(5));
    assert_eq!(awkward.alias(true).wait(), Ok(Err("so told".into())));
    assert_eq!(awkward.promise().and_then(|inner| inner).wait(), Ok(123));
    // What a message hides is still there.
    Handle::stop(&awkward);
    assert_eq!(awkward.nothing().wait(), Err(ActorError::Stopped { actor: awkward.identity() }));
}

#[test]
fn handles_are_equal_and_hash_alike_if_they_address_the_same_actor() {
    let system = System::builder().workers(1).build().unwrap();
    let (one, other) = (system.spawn(Awkward), system.spawn(Awkward));
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
    #[expect(clippy::mutable_key_type, reason = "a handle is hashed by the actor's identity, which never changes")]
    let set: HashSet<AwkwardRef> = [one.clone(), other.clone(), one.clone()].into();
    assert_eq!(set.len(), 2);
    let by_id: BTreeMap<_, _> = [(Handle::id(&one), one), (Handle::id(&other), other)].into();
    assert_eq!(by_id.len(), 2);
}

#[test]
fn a_handle_is_one_pointer_and_can_be_shared() {
    fn shareable<T: Clone + Send + Sync + 'static>() {}
    shareable::<AwkwardRef>();
    shareable::<StackRef<String, 2>>();
    assert_eq!(size_of::<AwkwardRef>(), size_of::<usize>());
}

/// Does not compile if `Forward` can be sent, and so be put in a message or an actor, or be cloned.
#[test]
fn a_forward_can_be_neither_sent_nor_cloned() {
    trait Unambiguous<Marker> {
        fn holds() {}
    }
    struct IsSend;
    struct IsClone;
    impl<T> Unambiguous<()> for T {}
    impl<T: Send> Unambiguous<IsSend> for T {}
    impl<T: Clone> Unambiguous<IsClone> for T {}
    <Forward<i64> as Unambiguous<_>>::holds();
}

macro_rules! chain {
    ($($name:ident($next:ty)),* $(,)?) => {
        $(
            struct $name($next);
            #[actor]
            impl $name {
                fn next(&self) -> $next {
                    self.0.clone()
                }
            }
        )*
    };
}

#[derive(Clone)]
struct Sink;

chain! {
    L0(L1Ref), L1(L2Ref), L2(L3Ref), L3(L4Ref), L4(L5Ref), L5(L6Ref),
    L6(L7Ref), L7(L8Ref), L8(L9Ref), L9(L10Ref), L10(L11Ref), L11(L12Ref),
    L12(L13Ref), L13(L14Ref), L14(L15Ref), L15(L16Ref), L16(L17Ref), L17(L18Ref),
    L18(L19Ref), L19(L20Ref), L20(L21Ref), L21(L22Ref), L22(L23Ref), L23(L24Ref),
    L24(L25Ref), L25(L26Ref), L26(L27Ref), L27(L28Ref), L28(L29Ref), L29(L30Ref),
    L30(L31Ref), L31(L32Ref), L32(L33Ref), L33(L34Ref), L34(L35Ref), L35(L36Ref),
    L36(L37Ref), L37(L38Ref), L38(L39Ref), L39(L40Ref), L40(L41Ref), L41(L42Ref),
    L42(L43Ref), L43(L44Ref), L44(L45Ref), L45(L46Ref), L46(L47Ref), L47(Sink),
}

#[test]
fn a_handle_is_send_without_a_look_at_the_handles_in_the_state_however_long_their_chain() {
    fn is_send<T: Send + Sync>() {}
    is_send::<L0Ref>();
}
