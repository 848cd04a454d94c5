//! Where a printed source breaks its lines: what the parser has seen, by the indices of tokens.

/// The lines and blocks of one source.
#[derive(Debug, Default)]
pub(crate) struct Breaks {
    /// Tokens that begin a declaration, a member, an event or a section, with the level that they stand at.
    pub(crate) lines: Vec<(usize, usize)>,
    /// In the order in which they begin; those inside of another come after it.
    pub(crate) blocks: Vec<Block>,
    /// Tokens that stand apart from the one before where they would not otherwise.
    pub(crate) apart: Vec<usize>,
}

/// What a block of items belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// `pre:`, or `post:` without a line that governs others.
    Conditions,
    /// `sync:`, or `post:` with such a line.
    Calls,
    /// An `if` or `for`, which is the token.
    Statement { of: usize },
    /// An `else`, which is the token `word`, of an `if`.
    Otherwise { of: usize, word: usize },
}

/// The items that stand behind one colon.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) owner: Owner,
    pub(crate) items: Vec<Item>,
    /// The token behind the last item.
    pub(crate) end: usize,
}

/// One item of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// The comma before it, if there is one; else the same as `first`.
    pub(crate) separator: usize,
    pub(crate) first: usize,
}

impl Block {
    /// A block whose first item begins at `first`.
    pub(super) fn new(owner: Owner, first: usize) -> Self {
        Self { owner, items: vec![Item { separator: first, first }], end: first }
    }
}

impl Breaks {
    pub(super) fn begin_line(&mut self, token: usize, level: usize) {
        // A member that turns out to be a declaration is a line of the outer level, which is noted later.
        if self.lines.last().is_some_and(|(last, _)| *last == token) {
            self.lines.pop();
        }
        self.lines.push((token, level));
    }

    pub(super) fn begin_block(&mut self, block: Block) -> usize {
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    pub(super) fn add_item(&mut self, block: usize, separator: usize, first: usize) {
        self.blocks[block].items.push(Item { separator, first });
    }

    pub(super) fn end_block(&mut self, block: usize, end: usize) {
        self.blocks[block].end = end;
    }
}
