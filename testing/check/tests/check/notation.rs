//! Histories in text.

use std::collections::BTreeMap;

use enact_check::{History, Recorder, Token, Variable};

/// Parses attempts such as `0 1-4 C rx0 wx1 wy0>2`, separated by semicolons. Variables are `x`, `y`, `z`, and before
/// them `w`, `v`, `u`; an end at `max` is one that has not come.
pub(crate) fn history(text: &str) -> History {
    let mut recorders: BTreeMap<u32, Recorder> = BTreeMap::new();
    for line in text.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("{line:?} ends early"));
        let (thread, span, fate) = (number(word()), word(), word());
        let (begin, end) = span.split_once('-').unwrap_or_else(|| panic!("{span:?} is no span"));
        let thread = u32::try_from(thread).expect("a small number");
        let recorder = recorders.entry(thread).or_insert_with(|| Recorder::new(thread));
        recorder.begin(number(begin));
        words.for_each(|op| record(recorder, op));
        match (fate, end) {
            ("A", "max") => {}
            ("A", end) => recorder.abort(number(end)),
            ("C", end) => recorder.commit(number(end)),
            _ => panic!("{fate:?} is no fate"),
        }
    }
    History::merge(recorders.into_values())
}

fn record(recorder: &mut Recorder, op: &str) {
    let (kind, rest) = op.split_at(1);
    let (name, tokens) = rest.split_at(1);
    let variable = Variable("xyzwvu".find(name).unwrap_or_else(|| panic!("{op:?} has no variable")) as u64);
    match (kind, tokens.split_once('>')) {
        ("r", None) => recorder.read(variable, Token(number(tokens))),
        ("w", None) => recorder.write(variable, Token(number(tokens))),
        ("w", Some((replaced, token))) => recorder.replace(variable, Token(number(replaced)), Token(number(token))),
        _ => panic!("{op:?} is no operation"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
