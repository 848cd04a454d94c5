//! What one attempt has done to one variable, all its operations taken together.

use crate::history::{Op, Token, Variable};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) variable: Variable,
    /// What it has read before it wrote.
    pub(crate) read: Option<Token>,
    pub(crate) write: Option<Write>,
    /// What it should have read after an earlier operation of its own, and what it has read.
    pub(crate) contradiction: Option<(Token, Token)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// What others may see of it.
    pub(crate) last: Token,
    /// What it has written over itself.
    pub(crate) intermediate: Vec<Token>,
    pub(crate) replaced: Option<Token>,
}

/// The accesses of an attempt, by variable. `order` is space to work in.
pub(crate) fn accesses<'a>(
    ops: &'a [Op],
    order: &'a mut Vec<(Variable, usize)>,
) -> impl Iterator<Item = Access> + use<'a> {
    order.clear();
    order.extend(ops.iter().enumerate().map(|(at, op)| (op.variable(), at)));
    order.sort_unstable();
    order.chunk_by(|(one, _), (other, _)| one == other).map(|group| access(group, ops))
}

fn access(group: &[(Variable, usize)], ops: &[Op]) -> Access {
    let mut access = Access { variable: group[0].0, read: None, write: None, contradiction: None };
    let mut current = None;
    for &(_, at) in group {
        match ops[at] {
            Op::Read(_, token) => match current {
                None => access.read = Some(token),
                Some(current) if current != token => {
                    access.contradiction.get_or_insert((current, token));
                }
                Some(_) => {}
            },
            Op::Write(_, token, replaced) => match &mut access.write {
                Some(write) => write.intermediate.push(std::mem::replace(&mut write.last, token)),
                None => access.write = Some(Write { last: token, intermediate: Vec::new(), replaced }),
            },
        }
        let (Op::Read(_, token) | Op::Write(_, token, _)) = ops[at];
        current = Some(token);
    }
    access
}
