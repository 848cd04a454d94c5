//! Expressions, by precedence climbing.

use super::parser::{Parsed, Parser, Reported};
use super::token::Token;
use super::tree::{Aggregate, AggregateKind, Binary, Comparison, Expr, ExprKind, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::DEPTH_MAX;
use crate::source::Span;
use crate::value::{Currency, Type, Value, ValueError};

/// How strongly an operator binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Product,
    Negation,
}

impl Strength {
    /// What the right operand of a left-associative operator must bind by at least.
    fn next(self) -> Self {
        match self {
            Strength::Or => Strength::And,
            Strength::And => Strength::Not,
            Strength::Not => Strength::Comparison,
            Strength::Comparison => Strength::Sum,
            Strength::Sum => Strength::Product,
            Strength::Product | Strength::Negation => Strength::Negation,
        }
    }
}

fn binary(token: Token) -> Option<(Binary, Strength)> {
    let compare = |comparison| Some((Binary::Compare(comparison), Strength::Comparison));
    match token {
        Token::Or => Some((Binary::Or, Strength::Or)),
        Token::And => Some((Binary::And, Strength::And)),
        Token::Equal => compare(Comparison::Equal),
        Token::Unequal => compare(Comparison::Unequal),
        Token::Less => compare(Comparison::Less),
        Token::LessOrEqual => compare(Comparison::LessOrEqual),
        Token::Greater => compare(Comparison::Greater),
        Token::GreaterOrEqual => compare(Comparison::GreaterOrEqual),
        Token::In => Some((Binary::In, Strength::Comparison)),
        Token::Plus => Some((Binary::Add, Strength::Sum)),
        Token::Minus => Some((Binary::Subtract, Strength::Sum)),
        Token::Times => Some((Binary::Multiply, Strength::Product)),
        _ => None,
    }
}

/// Nested expressions nest calls of these functions, so each does one thing and keeps its frame small.
impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.expression_from(Strength::Or)
    }

    fn expression_from(&mut self, least: Strength) -> Parsed<Expr> {
        self.enter()?;
        let mut expr = self.operand()?;
        while let Some(strength) = self.next_operator(least) {
            expr = self.operation(expr, strength)?;
        }
        self.leave();
        Ok(expr)
    }

    /// How strongly the next token binds, if it is an operator that binds at least that strongly.
    fn next_operator(&self, least: Strength) -> Option<Strength> {
        let strength = match self.peek() {
            Token::InState => Strength::Comparison,
            Token::Name if self.is_next_word("is") => Strength::Comparison,
            token => binary(token)?.1,
        };
        (strength >= least).then_some(strength)
    }

    /// The operator that comes next, applied to `left` and what follows.
    fn operation(&mut self, left: Expr, strength: Strength) -> Parsed<Expr> {
        let Some((operator, _)) = binary(self.peek()) else { return self.in_state(left) };
        self.advance();
        let right = if operator == Binary::In { self.domain() } else { self.expression_from(strength.next()) }?;
        if strength == Strength::Comparison {
            self.refuse_chain()?;
        }
        let span = left.span.to(right.span);
        self.node(ExprKind::Binary(operator, left.into(), right.into()), span)
    }

    /// A set, or a range.
    pub(super) fn domain(&mut self) -> Parsed<Expr> {
        let low = self.expression_from(Strength::Sum)?;
        if matches!(self.peek(), Token::To | Token::Below) { self.range(low) } else { Ok(low) }
    }

    /// A range that begins with `low`.
    fn range(&mut self, low: Expr) -> Parsed<Expr> {
        let is_closed = self.peek() == Token::To;
        self.advance();
        let high = self.expression_from(Strength::Sum)?;
        let span = low.span.to(high.span);
        self.node(ExprKind::Range { low: low.into(), high: high.into(), is_closed }, span)
    }

    fn refuse_chain(&mut self) -> Parsed<()> {
        if self.next_operator(Strength::Comparison) != Some(Strength::Comparison) {
            return Ok(());
        }
        let diagnostic = Diagnostic::new(Code::Syntax, self.span(), "comparisons do not chain", "a second comparison");
        Err(self.fail(diagnostic.help("write `a < b and b < c`")))
    }

    fn operand(&mut self) -> Parsed<Expr> {
        match self.peek() {
            Token::Not => self.negation(Strength::Not, ExprKind::Not),
            Token::Minus => self.negation(Strength::Negation, ExprKind::Negate),
            Token::If => self.choice(),
            Token::Initialized => self.life_cycle(ExprKind::Initialized),
            Token::Name if self.asks("finalized") => self.life_cycle(ExprKind::Finalized),
            Token::Name if self.asks("can") => self.can(),
            _ => self.members(),
        }
    }

    /// An operand with its members.
    pub(super) fn members(&mut self) -> Parsed<Expr> {
        let mut operand = match self.peek() {
            Token::LeftParenthesis => self.parenthesised(),
            Token::LeftBrace => self.set(),
            Token::Name => self.name_or_call(),
            _ => self.leaf(),
        }?;
        while self.eat(Token::Dot) {
            operand = self.member(operand)?;
        }
        Ok(operand)
    }

    fn member(&mut self, operand: Expr) -> Parsed<Expr> {
        if matches!(operand.kind, ExprKind::Literal(Value::Integer(_))) && self.peek() == Token::Integer {
            return Err(self.decimals(operand.span));
        }
        let member = self.name()?;
        let span = operand.span.to(member.span);
        self.node(ExprKind::Member(operand.into(), member), span)
    }

    /// Reports a number with decimals, of which `whole` is the part before the point.
    fn decimals(&mut self, whole: Span) -> Reported {
        let fraction = self.span();
        let span = whole.to(fraction);
        let diagnostic = Diagnostic::new(Code::Syntax, span, "a number has no decimals", "not a number");
        let digits = format!("{:0<2}", self.slice(fraction));
        let percent = format!("{}{}", self.slice(whole), &digits[..2]);
        let percent = percent.trim_start_matches('0');
        let rest = match &digits[2..] {
            "" => String::new(),
            rest => format!(".{rest}"),
        };
        let written = format!("{}{rest}%", if percent.is_empty() { "0" } else { percent });
        self.fail(diagnostic.help(format!("a share is a percentage, here `{written}`")).edit(span, written))
    }

    fn negation(&mut self, strength: Strength, kind: fn(Box<Expr>) -> ExprKind) -> Parsed<Expr> {
        let start = self.advance();
        let operand = self.expression_from(strength)?;
        let span = start.to(operand.span);
        self.node(kind(operand.into()), span)
    }

    /// Whether `word`, which is one only before an instance, comes next.
    fn asks(&self, word: &str) -> bool {
        let is_instance = match self.peek_after(1) {
            Token::Name => self.slice(self.span_after(1)) != "is",
            token => token == Token::This,
        };
        self.is_next_word(word) && is_instance && !self.separates_after(1)
    }

    fn life_cycle(&mut self, kind: fn(Box<Expr>) -> ExprKind) -> Parsed<Expr> {
        let start = self.advance();
        let instance = self.members()?;
        let span = start.to(instance.span);
        self.node(kind(instance.into()), span)
    }

    /// `can x.Event(..)`.
    fn can(&mut self) -> Parsed<Expr> {
        let start = self.advance();
        let (target, event) = self.event_of_instance()?;
        let (arguments, end) = self.arguments()?;
        self.node(ExprKind::Can(target.into(), event, arguments), start.to(end))
    }

    /// An instance and one of its events: `x.Event`.
    pub(super) fn event_of_instance(&mut self) -> Parsed<(Expr, Ident)> {
        let path = self.members()?;
        match path.kind {
            ExprKind::Member(target, event) => Ok((*target, event)),
            _ => Err(self.unexpected("`.` and an event")),
        }
    }

    fn parenthesised(&mut self) -> Parsed<Expr> {
        let start = self.advance();
        let mut inner = self.expression()?;
        inner.span = start.to(self.close(start, Token::RightParenthesis)?);
        Ok(inner)
    }

    fn set(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let (elements, end) = self.list(Token::LeftBrace, Token::RightBrace)?;
        self.node(ExprKind::Set(elements), start.to(end))
    }

    fn name_or_call(&mut self) -> Parsed<Expr> {
        let name = self.name()?;
        let start = name.span;
        if let Some(kind) = AggregateKind::named(&name.name)
            && self.peek() == Token::LeftParenthesis
            && self.peek_after(1) == Token::Name
            && self.peek_after(2) == Token::In
        {
            return self.aggregate(kind, start);
        }
        if self.peek() == Token::LeftBracket && !self.separates_here() {
            let (fields, end) = self.list(Token::LeftBracket, Token::RightBracket)?;
            return self.node(ExprKind::Index(name, fields), start.to(end));
        }
        // A parenthesis that begins a line begins an item.
        if self.peek() != Token::LeftParenthesis || self.separates_here() {
            return self.node(ExprKind::Name(name.name), start);
        }
        let (arguments, end) = self.arguments()?;
        self.node(ExprKind::Call(name, arguments), start.to(end))
    }

    fn aggregate(&mut self, kind: AggregateKind, start: Span) -> Parsed<Expr> {
        let opener = self.expect(Token::LeftParenthesis)?;
        let variable = self.name()?;
        self.expect(Token::In)?;
        let domain = self.boxed(Self::domain)?;
        let has_filter = self.is_next_word("where");
        if has_filter {
            self.advance();
        }
        let filter = if has_filter { Some(self.boxed(Self::expression)?) } else { None };
        let body = if self.eat(Token::Colon) { Some(self.boxed(Self::expression)?) } else { None };
        let from = if self.eat(Token::Comma) { Some(self.boxed(Self::expression)?) } else { None };
        let span = start.to(self.close(opener, Token::RightParenthesis)?);
        let aggregate = Aggregate { kind, variable, domain, filter, body, start: from };
        self.node(ExprKind::Aggregate(aggregate.into()), span)
    }

    /// An expression that takes no room in the frame of what it is a part of.
    fn boxed(&mut self, part: fn(&mut Self) -> Parsed<Expr>) -> Parsed<Box<Expr>> {
        part(self).map(Box::new)
    }

    fn leaf(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let kind = match self.peek() {
            Token::This => ExprKind::This,
            Token::Now => ExprKind::Now,
            Token::Today => ExprKind::Today,
            Token::True => ExprKind::Literal(Value::Boolean(true)),
            Token::False => ExprKind::Literal(Value::Boolean(false)),
            Token::Integer => self.literal(&Type::Integer),
            Token::Percentage => self.literal(&Type::Percentage),
            Token::Date => self.literal(&Type::Date),
            Token::Money => self.literal(&Type::Money),
            Token::Text => {
                let text = self.text_literal();
                return self.node(ExprKind::Literal(Value::String(text.into())), span);
            }
            _ => return Err(self.unexpected("an expression")),
        };
        self.advance();
        self.node(kind, span)
    }

    fn choice(&mut self) -> Parsed<Expr> {
        let start = self.expect(Token::If)?;
        let condition = self.expression()?;
        self.expect(Token::Then)?;
        let accepted = self.expression()?;
        self.expect(Token::Else)?;
        let otherwise = self.expression()?;
        let span = start.to(otherwise.span);
        self.node(ExprKind::If(Box::new(condition), Box::new(accepted), Box::new(otherwise)), span)
    }

    fn in_state(&mut self, instance: Expr) -> Parsed<Expr> {
        self.advance();
        let start = instance.span;
        let (kind, end) = if self.peek() == Token::Initialized {
            (ExprKind::Initialized(instance.into()), self.advance())
        } else {
            let (states, end) = self.states()?;
            (ExprKind::InState(instance.into(), states), end)
        };
        self.refuse_chain()?;
        self.node(kind, start.to(end))
    }

    fn states(&mut self) -> Parsed<(Vec<Ident>, Span)> {
        let opener = self.span();
        if !self.eat(Token::LeftBrace) {
            let state = self.name()?;
            let span = state.span;
            return Ok((vec![state], span));
        }
        let mut states = vec![self.name()?];
        while self.eat(Token::Comma) {
            states.push(self.name()?);
        }
        Ok((states, self.close(opener, Token::RightBrace)?))
    }

    pub(super) fn arguments(&mut self) -> Parsed<(Vec<Expr>, Span)> {
        self.list(Token::LeftParenthesis, Token::RightParenthesis)
    }

    fn list(&mut self, open: Token, close: Token) -> Parsed<(Vec<Expr>, Span)> {
        let opener = self.expect(open)?;
        let mut items = Vec::new();
        if self.peek() != close {
            items.push(self.expression()?);
            while self.eat(Token::Comma) {
                items.push(self.expression()?);
            }
        }
        Ok((items, self.close(opener, close)?))
    }

    /// The literal that comes next.
    fn literal(&mut self, ty: &Type) -> ExprKind {
        let span = self.span();
        let written = self.slice(span).to_owned();
        let text = match written.strip_prefix('€') {
            Some(amount) => format!("EUR {}", amount.trim_start()),
            None => written.clone(),
        };
        match Value::parse(ty, &text) {
            Ok(value) => ExprKind::Literal(value),
            Err(error) => {
                let diagnostic = Diagnostic::new(Code::Literal, span, error.to_string(), "no such value");
                self.report(match error {
                    ValueError::UnknownCurrency { code } => diagnostic.did_you_mean(&code, Currency::codes()),
                    _ => diagnostic,
                });
                ExprKind::Wrong
            }
        }
    }

    /// The content of a text literal; `\"`, `\\`, `\n` and `\t` are its escapes.
    pub(super) fn text_literal(&mut self) -> String {
        let span = self.advance();
        let written = self.slice(span).to_owned();
        let mut text = String::new();
        let mut chars = written[1..written.len() - 1].chars();
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some('n')) => text.push('\n'),
                ('\\', Some('t')) => text.push('\t'),
                ('\\', Some(c @ ('"' | '\\'))) => text.push(c),
                ('\\', _) => {
                    let diagnostic = Diagnostic::new(Code::Literal, span, "unknown escape in a text", "here");
                    self.report(diagnostic.help(r#"the escapes are `\"`, `\\`, `\n` and `\t`"#));
                    return text;
                }
                (c, _) => text.push(c),
            }
        }
        text
    }

    fn node(&mut self, kind: ExprKind, span: Span) -> Parsed<Expr> {
        let depth = 1 + match &kind {
            ExprKind::Member(a, _)
            | ExprKind::Negate(a)
            | ExprKind::Not(a)
            | ExprKind::Initialized(a)
            | ExprKind::Finalized(a)
            | ExprKind::InState(a, _) => a.depth,
            ExprKind::Can(a, _, items) => items.iter().map(|item| item.depth).fold(a.depth, usize::max),
            ExprKind::Binary(_, a, b) | ExprKind::Range { low: a, high: b, .. } => a.depth.max(b.depth),
            ExprKind::Aggregate(aggregate) => aggregate.parts().map(|part| part.depth).max().unwrap_or(0),
            ExprKind::If(a, b, c) => a.depth.max(b.depth).max(c.depth),
            ExprKind::Call(_, items) | ExprKind::Set(items) | ExprKind::Index(_, items) => {
                items.iter().map(|item| item.depth).max().unwrap_or(0)
            }
            _ => 0,
        };
        if depth > DEPTH_MAX { Err(self.too_deep(span)) } else { Ok(Expr { kind, span, depth }) }
    }
}
