//! Expressions, by precedence climbing.

use super::parser::{Parsed, Parser};
use super::token::Token;
use super::tree::{Aggregate, AggregateKind, Binary, Comparison, Expr, ExprKind, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::DEPTH_MAX;
use crate::source::Span;
use crate::value::{Currency, Decimal, Type, Value, ValueError};

/// The units of the calendar, which are of no fixed length.
const PERIODS: [&str; 4] = ["day", "week", "month", "year"];

/// The units of time of a fixed length.
const DURATIONS: [&str; 4] = ["millisecond", "second", "minute", "hour"];

/// The types whose literals are a text behind their name.
const WRITTEN: [(&str, Type); 5] = [
    ("Date", Type::Date),
    ("Iban", Type::Iban),
    ("Id", Type::Id),
    ("Time", Type::Time),
    ("Timestamp", Type::Timestamp),
];

fn is_unit(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    PERIODS.contains(&singular) || DURATIONS.contains(&singular)
}

/// How strongly an operator binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Or,
    And,
    Not,
    Comparison,
    Otherwise,
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
            Strength::Comparison => Strength::Otherwise,
            Strength::Otherwise => Strength::Sum,
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
        Token::Slash => Some((Binary::Divide, Strength::Product)),
        Token::Otherwise => Some((Binary::Otherwise, Strength::Otherwise)),
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
            Token::Name if self.is_next_word("is") || self.begins_role() => Strength::Comparison,
            Token::Name => self.division_word()?.1,
            token => binary(token)?.1,
        };
        (strength >= least).then_some(strength)
    }

    /// `div` and `mod`, which are words only between operands.
    fn division_word(&self) -> Option<(Binary, Strength)> {
        match self.slice(self.span()) {
            "div" => Some((Binary::Quotient, Strength::Product)),
            "mod" => Some((Binary::Remainder, Strength::Product)),
            _ => None,
        }
    }

    /// The operator that comes next, applied to `left` and what follows.
    fn operation(&mut self, left: Expr, strength: Strength) -> Parsed<Expr> {
        let operator = if self.peek() == Token::Name { self.division_word() } else { binary(self.peek()) };
        let Some((operator, _)) = operator else {
            return if self.begins_role() { self.has_role(&left) } else { self.in_state(left) };
        };
        self.advance();
        let right = match operator {
            Binary::In => self.domain(),
            // From right to left: what is absent is looked for further on.
            Binary::Otherwise => self.expression_from(Strength::Otherwise),
            _ => self.expression_from(strength.next()),
        }?;
        if strength == Strength::Comparison {
            self.refuse_chain()?;
        }
        let span = left.span.to(right.span);
        self.node(ExprKind::Binary(operator, left.into(), right.into()), span)
    }

    /// A set, or a range.
    pub(super) fn domain(&mut self) -> Parsed<Expr> {
        let low = self.expression_from(Strength::Otherwise)?;
        if matches!(self.peek(), Token::To | Token::Below) { self.range(low) } else { Ok(low) }
    }

    /// A range that begins with `low`.
    fn range(&mut self, low: Expr) -> Parsed<Expr> {
        let is_closed = self.peek() == Token::To;
        self.advance();
        let high = self.expression_from(Strength::Otherwise)?;
        let span = low.span.to(high.span);
        self.node(ExprKind::Range { low: low.into(), high: high.into(), is_closed }, span)
    }

    pub(super) fn refuse_chain(&mut self) -> Parsed<()> {
        if self.next_operator(Strength::Comparison) != Some(Strength::Comparison) {
            return Ok(());
        }
        let diagnostic = Diagnostic::new(Code::Syntax, self.span(), "comparisons do not chain", "a second comparison");
        Err(self.fail(diagnostic.help("write `a < b and b < c`")))
    }

    fn operand(&mut self) -> Parsed<Expr> {
        let read: fn(&mut Self) -> Parsed<Expr> = match self.peek() {
            Token::Not => |parser| parser.negation(Strength::Not, ExprKind::Not),
            Token::Minus => |parser| parser.negation(Strength::Negation, ExprKind::Negate),
            Token::If => Self::choice,
            Token::Bang => Self::bang,
            Token::Initialized => |parser| parser.life_cycle(ExprKind::Initialized),
            Token::Name if self.asks("finalized") => |parser| parser.life_cycle(ExprKind::Finalized),
            Token::Name if self.asks("can") => Self::can,
            _ => Self::members,
        };
        read(self)
    }

    fn bang(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let diagnostic = Diagnostic::new(Code::Syntax, span, "`!` is written `not`", "not part of the language");
        Err(self.fail(diagnostic.help("write `not`").edit(span, "not ")))
    }

    /// An operand with its members.
    pub(super) fn members(&mut self) -> Parsed<Expr> {
        let is_before_event = std::mem::take(&mut self.is_before_event);
        let read: fn(&mut Self) -> Parsed<Expr> = match self.peek() {
            Token::LeftParenthesis => Self::parenthesised,
            Token::LeftBrace => Self::set_or_map,
            Token::LeftBracket => Self::elements,
            Token::Name if is_before_event => Self::name_before_event,
            Token::Name if self.begins_caller() => Self::caller,
            Token::Name => Self::name_or_call,
            _ => Self::leaf,
        };
        let operand = read(self)?;
        self.behind(operand)
    }

    /// What stands behind an operand and belongs to it.
    fn behind(&mut self, mut operand: Expr) -> Parsed<Expr> {
        loop {
            let read: fn(&mut Self, Expr) -> Parsed<Expr> = match self.peek() {
                Token::Dot => Self::member,
                Token::LeftBracket if !self.separates_here() => Self::element,
                Token::Bang if !self.separates_here() => Self::present,
                Token::Name if self.is_next_word("with") && self.peek_after(1) == Token::LeftParenthesis => {
                    Self::changed
                }
                _ => return Ok(operand),
            };
            operand = read(self, operand)?;
        }
    }

    fn present(&mut self, operand: Expr) -> Parsed<Expr> {
        let span = operand.span.to(self.advance());
        self.node(ExprKind::Present(operand.into()), span)
    }

    fn member(&mut self, operand: Expr) -> Parsed<Expr> {
        self.advance();
        let member = self.name()?;
        let span = operand.span.to(member.span);
        if self.peek() != Token::LeftParenthesis || self.separates_here() {
            return self.node(ExprKind::Member(operand.into(), member), span);
        }
        let (arguments, end) = self.arguments()?;
        self.node(ExprKind::Method(operand.into(), member, arguments), span.to(end))
    }

    /// `[index]` behind what has elements.
    fn element(&mut self, of: Expr) -> Parsed<Expr> {
        let opener = self.advance();
        let index = self.expression()?;
        let span = of.span.to(self.close(opener, Token::RightBracket)?);
        self.node(ExprKind::Element(of.into(), index.into()), span)
    }

    /// `with (field: value, ..)` behind a record.
    fn changed(&mut self, record: Expr) -> Parsed<Expr> {
        self.advance();
        let opener = self.advance();
        let mut fields = Vec::new();
        loop {
            let name = self.name()?;
            self.expect(Token::Colon)?;
            fields.push((name, self.expression()?));
            if !self.eat(Token::Comma) {
                break;
            }
        }
        let span = record.span.to(self.close(opener, Token::RightParenthesis)?);
        self.node(ExprKind::With(record.into(), fields), span)
    }

    /// `[a, b]`.
    fn elements(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let (elements, end) = self.list(Token::LeftBracket, Token::RightBracket, Self::expression)?;
        self.node(ExprKind::List(elements), start.to(end))
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
        let (target, event, arguments, end) = self.event_of_instance()?;
        self.node(ExprKind::Can(target.into(), event, arguments), start.to(end))
    }

    /// An instance, one of its events with arguments, and where that ends: `x.Event(..)`.
    pub(super) fn event_of_instance(&mut self) -> Parsed<(Expr, Ident, Vec<Expr>, Span)> {
        self.is_before_event = true;
        let path = self.members()?;
        let end = path.span;
        match path.kind {
            ExprKind::Method(target, event, arguments) => Ok((*target, event, arguments, end)),
            ExprKind::Member(..) => Err(self.unexpected(Token::LeftParenthesis.shown())),
            _ => Err(self.unexpected("`.` and an event")),
        }
    }

    fn parenthesised(&mut self) -> Parsed<Expr> {
        let start = self.advance();
        let mut inner = self.expression()?;
        inner.span = start.to(self.close(start, Token::RightParenthesis)?);
        Ok(inner)
    }

    /// `{a, b}` or `{k: v}`.
    fn set_or_map(&mut self) -> Parsed<Expr> {
        let opener = self.advance();
        let (mut elements, mut entries) = (Vec::new(), Vec::new());
        while self.peek() != Token::RightBrace {
            let element = self.expression()?;
            if entries.is_empty() && (self.peek() != Token::Colon || !elements.is_empty()) {
                elements.push(element);
            } else {
                self.expect(Token::Colon)?;
                entries.push((element, self.expression()?));
            }
            if !self.eat(Token::Comma) {
                break;
            }
        }
        let span = opener.to(self.close(opener, Token::RightBrace)?);
        self.node(if entries.is_empty() { ExprKind::Set(elements) } else { ExprKind::Map(entries) }, span)
    }

    fn name_or_call(&mut self) -> Parsed<Expr> {
        let name = match self.name_of_module(false) {
            Some(name) => name,
            None => self.name()?,
        };
        self.called_or_indexed(name)
    }

    /// A name where the last of several is an event.
    fn name_before_event(&mut self) -> Parsed<Expr> {
        let name = match self.name_of_module(true) {
            Some(name) => name,
            None => self.name()?,
        };
        self.called_or_indexed(name)
    }

    fn called_or_indexed(&mut self, name: Ident) -> Parsed<Expr> {
        let is_aggregate = AggregateKind::named(&name.name).is_some()
            && self.peek() == Token::LeftParenthesis
            && self.peek_after(1) == Token::Name
            && self.peek_after(2) == Token::In;
        // A parenthesis that begins a line begins an item.
        let read: fn(&mut Self, Ident) -> Parsed<Expr> = match self.peek() {
            _ if is_aggregate => Self::aggregate,
            Token::Text if !self.separates_here() => Self::typed_literal,
            Token::LeftBracket if !self.separates_here() => Self::indexed,
            Token::LeftParenthesis if !self.separates_here() => Self::call,
            _ => |parser, name| {
                let kind = if &*name.name == "none" { ExprKind::None } else { ExprKind::Name(name.name) };
                parser.node(kind, name.span)
            },
        };
        read(self, name)
    }

    fn indexed(&mut self, name: Ident) -> Parsed<Expr> {
        let (fields, end) = self.list(Token::LeftBracket, Token::RightBracket, Self::expression)?;
        let span = name.span.to(end);
        self.node(ExprKind::Index(name, fields), span)
    }

    fn call(&mut self, name: Ident) -> Parsed<Expr> {
        let (arguments, end) = self.arguments()?;
        let span = name.span.to(end);
        self.node(ExprKind::Call(name, arguments), span)
    }

    fn aggregate(&mut self, name: Ident) -> Parsed<Expr> {
        let Ident { name, span: start } = name;
        let Some(kind) = AggregateKind::named(&name) else { return Err(self.unexpected("an aggregate")) };
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
        let value = if self.eat(Token::Arrow) { Some(self.boxed(Self::expression)?) } else { None };
        let from = if self.eat(Token::Comma) { Some(self.boxed(Self::expression)?) } else { None };
        let span = start.to(self.close(opener, Token::RightParenthesis)?);
        let aggregate = Aggregate { kind, variable, domain, filter, body, value, start: from };
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
            Token::Integer if self.names_unit() => return self.span_of_time(),
            Token::Integer => self.literal(&Type::Integer),
            Token::Decimal => self.decimal(),
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
        self.list(Token::LeftParenthesis, Token::RightParenthesis, Self::argument)
    }

    /// `value` or `name: value`.
    fn argument(&mut self) -> Parsed<Expr> {
        let is_named = self.peek() == Token::Name && self.peek_after(1) == Token::Colon;
        let read: fn(&mut Self) -> Parsed<Expr> = if is_named { Self::named_argument } else { Self::expression };
        read(self)
    }

    fn named_argument(&mut self) -> Parsed<Expr> {
        let name = self.name()?;
        self.advance();
        let value = self.expression()?;
        let span = name.span.to(value.span);
        self.node(ExprKind::Named(name, value.into()), span)
    }

    fn list(&mut self, open: Token, close: Token, item: fn(&mut Self) -> Parsed<Expr>) -> Parsed<(Vec<Expr>, Span)> {
        let opener = self.expect(open)?;
        let mut items = Vec::new();
        if self.peek() != close {
            items.push(item(self)?);
            while self.eat(Token::Comma) {
                items.push(item(self)?);
            }
        }
        Ok((items, self.close(opener, close)?))
    }

    /// Whether a unit of time stands behind the next token.
    fn names_unit(&self) -> bool {
        self.peek_after(1) == Token::Name && !self.separates_after(1) && is_unit(self.slice(self.span_after(1)))
    }

    /// `15 minutes`, `3 months`.
    fn span_of_time(&mut self) -> Parsed<Expr> {
        let (number, unit) = (self.advance(), self.advance());
        let (span, text) = (number.to(unit), format!("{} {}", self.slice(number), self.slice(unit)));
        let is_period = PERIODS.iter().any(|period| self.slice(unit).trim_end_matches('s') == *period);
        let kind = self.value(if is_period { &Type::Period } else { &Type::Duration }, &text, span);
        self.node(kind, span)
    }

    /// `Iban "..."`, `Time "18:30"`.
    fn typed_literal(&mut self, name: Ident) -> Parsed<Expr> {
        let Ident { name, span: start } = name;
        let span = start.to(self.span());
        let Some((_, ty)) = WRITTEN.iter().find(|(known, _)| *known == &*name) else {
            let message = format!("no literal begins with `{name}`");
            let diagnostic = Diagnostic::new(Code::Syntax, start, message, "before a text");
            let names: Vec<String> = WRITTEN.iter().map(|(name, _)| format!("`{name} \"..\"`")).collect();
            return Err(self.fail(diagnostic.help(format!("literals with a type are {}", names.join(", ")))));
        };
        let written = self.text_literal();
        let kind = self.value(ty, &written, span);
        self.node(kind, span)
    }

    fn decimal(&mut self) -> ExprKind {
        let (span, written) = (self.span(), self.slice(self.span()).to_owned());
        let decimals = written.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        match u8::try_from(decimals).ok().filter(|decimals| *decimals <= Decimal::DECIMALS_MAX) {
            Some(decimals) => self.value(&Type::Decimal(decimals), &written, span),
            None => {
                let message = format!("a Decimal has at most {} decimals, not {decimals}", Decimal::DECIMALS_MAX);
                self.report(Diagnostic::new(Code::Literal, span, message, "no such value"));
                ExprKind::Wrong
            }
        }
    }

    /// The literal that comes next.
    fn literal(&mut self, ty: &Type) -> ExprKind {
        let span = self.span();
        let written = self.slice(span).to_owned();
        let text = match written.strip_prefix('€') {
            Some(amount) => format!("EUR {}", amount.trim_start()),
            None => written.clone(),
        };
        self.value(ty, &text, span)
    }

    /// The literal of a type that is written as `text` at `span`.
    fn value(&mut self, ty: &Type, text: &str, span: Span) -> ExprKind {
        match Value::parse(ty, text) {
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

    pub(super) fn node(&mut self, kind: ExprKind, span: Span) -> Parsed<Expr> {
        let depth = 1 + match &kind {
            ExprKind::Member(a, _)
            | ExprKind::Present(a)
            | ExprKind::Named(_, a)
            | ExprKind::Negate(a)
            | ExprKind::Not(a)
            | ExprKind::Initialized(a)
            | ExprKind::Finalized(a)
            | ExprKind::InState(a, _) => a.depth,
            ExprKind::Can(a, _, items) | ExprKind::Method(a, _, items) => {
                items.iter().map(|item| item.depth).fold(a.depth, usize::max)
            }
            ExprKind::Binary(_, a, b) | ExprKind::Range { low: a, high: b, .. } | ExprKind::Element(a, b) => {
                a.depth.max(b.depth)
            }
            ExprKind::With(a, fields) => fields.iter().map(|(_, value)| value.depth).fold(a.depth, usize::max),
            ExprKind::Map(entries) => entries.iter().map(|(key, value)| key.depth.max(value.depth)).max().unwrap_or(0),
            ExprKind::Aggregate(aggregate) => aggregate.parts().map(|part| part.depth).max().unwrap_or(0),
            ExprKind::If(a, b, c) => a.depth.max(b.depth).max(c.depth),
            ExprKind::Call(_, items) | ExprKind::Set(items) | ExprKind::List(items) | ExprKind::Index(_, items) => {
                items.iter().map(|item| item.depth).max().unwrap_or(0)
            }
            _ => 0,
        };
        if depth > DEPTH_MAX { Err(self.too_deep(span)) } else { Ok(Expr { kind, span, depth }) }
    }
}
