//! Items of sections: effects, calls, and the lines that govern others.

use super::{Parsed, Parser, Separation};
use crate::diagnostic::{Code, Diagnostic};
use crate::syntax::breaks::{Block, Owner};
use crate::syntax::token::Token;
use crate::syntax::tree::{Effect, EffectOperator, Statement, Way};

impl Parser<'_> {
    /// The items of a section that stands at `depth`: separated by commas, or each on a line that is indented deeper.
    pub(in crate::syntax) fn items<T>(
        &mut self,
        depth: usize,
        owner: Owner,
        item: fn(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let block = self.breaks.begin_block(Block::new(owner, self.position));
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

    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        self.declare()?;
        self.enter()?;
        let statement = match self.peek() {
            Token::If => self.conditional_statement(),
            Token::For => self.repeated_statement(),
            _ => self.sync_call(),
        }?;
        self.leave();
        Ok(statement)
    }

    fn conditional_statement(&mut self) -> Parsed<Statement> {
        let depth = self.indentation();
        self.advance();
        let condition = self.expression()?;
        self.expect(Token::Colon)?;
        Ok(Statement::If(condition, self.block(depth)?))
    }

    fn repeated_statement(&mut self) -> Parsed<Statement> {
        let depth = self.indentation();
        self.advance();
        let name = self.name()?;
        self.expect(Token::In)?;
        let set = self.domain()?;
        self.expect(Token::Colon)?;
        Ok(Statement::For(name, set, self.block(depth)?))
    }

    /// What a colon at the end of a line that is indented by `depth` governs: one statement behind it, or the statements on the lines
    /// below that are indented deeper, all alike. Never both.
    fn block(&mut self, depth: usize) -> Parsed<Vec<Statement>> {
        let block = self.breaks.begin_block(Block::new(Owner::Statement, self.position));
        if self.separation == Separation::Words {
            let statement = self.statement()?;
            self.breaks.end_block(block, self.position);
            return Ok(vec![statement]);
        }
        let is_below = self.begins_line();
        let inner = self.indentation();
        if is_below && inner <= depth {
            let diagnostic =
                Diagnostic::new(Code::Layout, self.span(), "nothing is indented below the colon", "expected deeper");
            return Err(self.fail(diagnostic.help("indent what it governs")));
        }
        let mut statements = vec![self.statement()?];
        while is_below && self.begins_line() && self.indentation() == inner && !self.peek().begins_part() {
            self.breaks.add_item(block, self.position, self.position);
            statements.push(self.statement()?);
        }
        self.breaks.end_block(block, self.position);
        let is_deeper = self.begins_line() && self.indentation() > depth && !self.peek().begins_part();
        if is_deeper || self.peek() == Token::Comma {
            let message = "it is not clear whether this line governs what follows";
            let diagnostic = Diagnostic::new(Code::Layout, self.span(), message, "governed or not?");
            let help = "put what it governs on lines of their own below it, all indented alike, and what it does not \
                        govern as deep as itself";
            return Err(self.fail(diagnostic.help(help)));
        }
        Ok(statements)
    }

    fn sync_call(&mut self) -> Parsed<Statement> {
        let start = self.span();
        let negated = self.eat(Token::Not);
        let (target, event, arguments, end) = self.event_of_instance()?;
        Ok(Statement::Call { negated, target, event, arguments, span: start.to(end) })
    }
}
