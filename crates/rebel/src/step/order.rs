//! The order of the calls of one step.

use std::mem;

/// Takes up calls in the order in which a step does them: in the order of the text, depth first, each complete with
/// what it calls before the next begins.
///
/// `take` is given a call and its depth (1 for the first ones) and returns what that calls.
///
/// # Errors
/// The first error of `take`, which ends the step.
///
/// ```
/// let calls = |name| match name {
///     "pay" => vec!["withdraw", "deposit"],
///     "withdraw" => vec!["log"],
///     _ => vec![],
/// };
/// let mut order = Vec::new();
/// enact_rebel::in_order(vec!["pay", "close"], |name, depth| {
///     order.push((name, depth));
///     Ok::<_, ()>(calls(name))
/// })
/// .unwrap();
/// assert_eq!(order, [("pay", 1), ("withdraw", 2), ("log", 3), ("deposit", 2), ("close", 1)]);
/// ```
pub fn in_order<C, E>(calls: Vec<C>, mut take: impl FnMut(C, usize) -> Result<Vec<C>, E>) -> Result<(), E> {
    let mut calls = calls.into_iter();
    let mut open = Vec::new();
    loop {
        match calls.next() {
            Some(call) => {
                let next = take(call, open.len() + 1)?;
                if !next.is_empty() {
                    open.push(mem::replace(&mut calls, next.into_iter()));
                }
            }
            None => match open.pop() {
                Some(outer) => calls = outer,
                None => return Ok(()),
            },
        }
    }
}
