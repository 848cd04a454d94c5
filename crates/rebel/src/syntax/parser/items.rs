//! Items of sections: effects, calls, and the lines that govern others.

use std::ops::Range;

use super::{Parsed, Parser, Reported, Separation};
use crate::diagnostic::{Code, Diagnostic};
use crate::syntax::breaks::{Block, Owner};
use crate::syntax::token::Token;
use crate::syntax::tree::{Call, Effect, EffectOperator, Statement, Way};

impl Parser<'_> {
    /// The items of a section that stands at `depth`: separated by commas, or each on a line that is indented deeper.
    pub(in crate::syntax) fn items<T>(
        &mut self,
        depth: usize,
        owner: Owner,
        item: fn(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let block = self.breaks.begin_block(Block::new(owner, self.position));
        self.section = self.position;
        let mut items = vec![item(self)?];
        loop {
            let goes_on = match self.separation {
                Separation::Lines => self.begins_line() && self.indentation() > depth && !self.peek().begins_part(),
                Separation::Words => owner == Owner::Calls && self.begins_statement(),
            };
            let before = self.position;
            if self.peek() == Token::Comma {
                let comma = self.advance();
                if self.peek().begins_part() {
                    let diagnostic = Diagnostic::new(Code::Layout, comma, "nothing follows this comma", "dangles");
                    return Err(self.fail(diagnostic.help("remove it")));
                }
            } else if !goes_on {
                self.breaks.end_block(block, self.position);
                return Ok(items);
            }
            self.breaks.add_item(block, before, self.position);
            items.push(self.further_item(item)?);
        }
    }

    fn begins_statement(&self) -> bool {
        match self.peek() {
            Token::If | Token::For | Token::Not => true,
            Token::Name => matches!(self.peek_after(1), Token::Dot | Token::LeftBracket),
            _ => false,
        }
    }

    /// An item behind another one. It does not begin with `-`: the two would be one without the comma between them.
    fn further_item<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.peek() == Token::Minus {
            let diagnostic =
                Diagnostic::new(Code::Layout, self.span(), "a further item cannot begin with `-`", "begins an item");
            return Err(self.fail(diagnostic.help("put it into parentheses, or exchange the sides")));
        }
        item(self)
    }

    pub(super) fn effect(&mut self) -> Parsed<Effect> {
        self.declare()?;
        if self.peek() == Token::Name {
            let diagnostic =
                Diagnostic::new(Code::Syntax, self.span(), "an effect begins with `this.`", "a bare field");
            return Err(self.fail(diagnostic.help("`this.field` is the new value, a bare `field` the old one")));
        }
        let start = self.expect(Token::This)?;
        self.expect(Token::Dot)?;
        let field = self.name()?;
        let mut path = Vec::new();
        loop {
            path.push(match self.peek() {
                Token::LeftBracket => {
                    let opener = self.advance();
                    let key = self.expression()?;
                    self.close(opener, Token::RightBracket)?;
                    Way::Entry(key)
                }
                Token::Dot => {
                    self.advance();
                    Way::Member(self.name()?)
                }
                _ => break,
            });
        }
        let operator = match self.peek() {
            Token::Equals | Token::Equal => EffectOperator::Becomes,
            Token::PlusEquals => EffectOperator::Increases,
            Token::MinusEquals => EffectOperator::Decreases,
            _ => return Err(self.unexpected("`=`, `+=` or `-=`")),
        };
        self.advance();
        let value = self.expression()?;
        let span = start.to(value.span);
        Ok(Effect { field, path, operator, value, span })
    }

    /// An effect, or a line that governs effects.
    pub(super) fn governed_effect(&mut self) -> Parsed<Statement<Effect>> {
        self.statement(Self::effect)
    }

    /// A call, or a line that governs calls.
    pub(super) fn governed_call(&mut self) -> Parsed<Statement<Call>> {
        self.statement(Self::sync_call)
    }

    fn statement<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Statement<T>> {
        self.enter()?;
        let statement = match self.peek() {
            Token::If => self.conditional_statement(item)?,
            Token::For => self.repeated_statement(item)?,
            Token::Else if self.separation == Separation::Lines => return Err(self.stray_else()),
            _ => Statement::Do(item(self)?),
        };
        self.leave();
        Ok(statement)
    }

    fn conditional_statement<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Statement<T>> {
        self.declare()?;
        let (at, depth, below) = (self.position, self.indentation(), self.depth_of_else());
        self.advance();
        let condition = self.expression()?;
        self.expect(Token::Colon)?;
        let (accepted, is_inline) = self.block(depth, Owner::Statement { of: at }, item)?;
        let mut otherwise = Vec::new();
        if self.begins_else(below, is_inline) {
            let word = self.position;
            if is_inline && (ends_with_choice(&accepted) || self.is_one_of_several(at)) {
                return Err(self.stray_else());
            }
            self.advance();
            self.expect(Token::Colon)?;
            (otherwise, _) = self.block(depth, Owner::Otherwise { of: at, word }, item)?;
        }
        self.ends_statement(depth)?;
        Ok(Statement::If(condition, accepted, otherwise))
    }

    fn repeated_statement<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Statement<T>> {
        self.declare()?;
        let (at, depth) = (self.position, self.indentation());
        self.advance();
        let name = self.name()?;
        self.expect(Token::In)?;
        let set = self.domain()?;
        self.expect(Token::Colon)?;
        let (statements, _) = self.block(depth, Owner::Statement { of: at }, item)?;
        self.ends_statement(depth)?;
        Ok(Statement::For(name, set, statements))
    }

    /// What a colon at the end of a line that is indented by `depth` governs: one statement behind it, or the statements on the lines
    /// below that are indented deeper, all alike. Never both. Says whether it stands behind the colon.
    fn block<T>(
        &mut self,
        depth: usize,
        owner: Owner,
        item: fn(&mut Self) -> Parsed<T>,
    ) -> Parsed<(Vec<Statement<T>>, bool)> {
        let block = self.breaks.begin_block(Block::new(owner, self.position));
        if self.separation == Separation::Words {
            let statement = self.statement(item)?;
            self.breaks.end_block(block, self.position);
            return Ok((vec![statement], true));
        }
        let is_below = self.begins_line();
        let inner = self.indentation();
        if is_below && inner <= depth {
            let diagnostic =
                Diagnostic::new(Code::Layout, self.span(), "nothing is indented below the colon", "expected deeper");
            return Err(self.fail(diagnostic.help("indent what it governs")));
        }
        let mut statements = vec![self.statement(item)?];
        while is_below && self.begins_line() && self.indentation() == inner && !self.peek().begins_part() {
            self.breaks.add_item(block, self.position, self.position);
            statements.push(self.statement(item)?);
        }
        self.breaks.end_block(block, self.position);
        Ok((statements, !is_below))
    }

    /// How deep an `else:` on a line of its own stands that belongs to the `if` that comes next: as deep as an `if` that begins its
    /// line, and deeper than the section whose first item it is. Nothing if the line begins with something else.
    fn depth_of_else(&self) -> Option<Range<usize>> {
        let indentation = self.indentation();
        match self.begins_line() {
            true => Some(indentation..indentation + 1),
            false if self.section == self.position => Some(indentation + 1..usize::MAX),
            false => None,
        }
    }

    /// Whether the `else:` comes next of an `if` that governs one statement on its line, if it `is_inline`, or lines below it.
    fn begins_else(&self, below: Option<Range<usize>>, is_inline: bool) -> bool {
        let stands_here = match self.begins_line() {
            true => below.is_some_and(|below| below.contains(&self.indentation())),
            false => is_inline,
        };
        self.peek() == Token::Else && self.separation == Separation::Lines && stands_here
    }

    /// Whether the `else` that comes next stands on the line of the `if` at `at`, and another `if` before that.
    fn is_one_of_several(&self, at: usize) -> bool {
        let before = (0..at).rev().take_while(|token| !self.layout.begins_line(token + 1));
        !self.begins_line() && before.into_iter().any(|token| self.tokens.tokens[token].0 == Token::If)
    }

    fn stray_else(&mut self) -> Reported {
        let message = "it is not clear which `if` this `else` belongs to";
        let diagnostic = Diagnostic::new(Code::Layout, self.span(), message, "whose?");
        let help = "let the `if` begin a line and write `else:` as deep, or both on one line without another `if`";
        self.fail(diagnostic.help(help))
    }

    /// Refuses what follows a statement on a line that is indented by `depth` and looks governed by it.
    fn ends_statement(&mut self, depth: usize) -> Parsed<()> {
        if self.separation == Separation::Words {
            return Ok(());
        }
        let is_deeper = self.begins_line() && self.indentation() > depth && !self.peek().begins_part();
        if is_deeper || self.peek() == Token::Comma {
            let message = "it is not clear whether this line governs what follows";
            let diagnostic = Diagnostic::new(Code::Layout, self.span(), message, "governed or not?");
            let help = "put what it governs on lines of their own below it, all indented alike, and what it does not \
                        govern as deep as itself";
            return Err(self.fail(diagnostic.help(help)));
        }
        Ok(())
    }

    fn sync_call(&mut self) -> Parsed<Call> {
        self.declare()?;
        let start = self.span();
        let negated = self.eat(Token::Not);
        let (target, event, arguments, end) = self.event_of_instance()?;
        Ok(Call { negated, target, event, arguments, span: start.to(end) })
    }
}

/// Whether the last of the statements on one line is an `if`, or governs one there.
fn ends_with_choice<T>(statements: &[Statement<T>]) -> bool {
    match statements.last() {
        Some(Statement::If(..)) => true,
        Some(Statement::For(_, _, inner)) => ends_with_choice(inner),
        _ => false,
    }
}
