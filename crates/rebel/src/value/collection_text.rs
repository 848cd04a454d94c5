//! Text form of values that hold others: `{a, b}`, `[a, b]`, `{k: v}`, `Line(product: "p", quantity: 2)`.
//!
//! Texts inside are quoted, because they may hold commas and brackets, and so are identities that consist of texts or
//! of several values. Everything else is written as it stands alone; no such text holds a comma or a bracket, and one
//! that holds a colon (a time) is a key only before a colon and a blank.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use super::{Key, KeyType, RecordType, RecordValue, Type, Value, ValueError};
use crate::limits::{COLLECTION_MAX, DEPTH_MAX};

/// Writes the elements of a set in their canonical order.
pub(super) fn print_set(elements: &BTreeSet<Value>, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("{")?;
    print_items(elements, f, print)?;
    f.write_str("}")
}

pub(super) fn print_list(elements: &[Value], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("[")?;
    print_items(elements, f, print)?;
    f.write_str("]")
}

/// Writes the entries of a map in the canonical order of its keys.
pub(super) fn print_map(entries: &BTreeMap<Value, Value>, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("{")?;
    print_items(entries, f, |(key, value), f| {
        print(key, f)?;
        f.write_str(": ")?;
        print(value, f)
    })?;
    f.write_str("}")
}

pub(super) fn print_record(record: &RecordValue, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{}(", record.of)?;
    print_items(&record.fields, f, |(name, value), f| {
        write!(f, "{name}: ")?;
        print(value, f)
    })?;
    f.write_str(")")
}

fn print_items<T>(
    items: impl IntoIterator<Item = T>,
    f: &mut Formatter<'_>,
    print: impl Fn(T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        f.write_str(if index > 0 { ", " } else { "" })?;
        print(item, f)?;
    }
    Ok(())
}

/// Writes a value inside another.
fn print(value: &Value, f: &mut Formatter<'_>) -> fmt::Result {
    match value {
        Value::String(text) => quote(text, f),
        Value::Reference(reference) => match &reference.key {
            key @ (Key::Integer(_) | Key::Iban(_) | Key::Date(_) | Key::Currency(_) | Key::Id(_)) => key.fmt(f),
            key => quote(&key.to_string(), f),
        },
        value => value.fmt(f),
    }
}

fn quote(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// Reads what the functions above write for a value of a type that holds others.
pub(super) fn parse(ty: &Type, text: &str) -> Result<Value, ValueError> {
    let mut reader = Reader { rest: text };
    let value = reader.value(ty, 0)?;
    if reader.rest.trim_start().is_empty() { Ok(value) } else { Err(syntax(ty, text)) }
}

/// What a text that is none of `ty` should look like.
fn syntax(ty: &Type, text: &str) -> ValueError {
    match ty {
        Type::Set(_) => ValueError::syntax("Set", "{a, b}", text),
        Type::List(_) => ValueError::syntax("List", "[a, b]", text),
        Type::Map(_) => ValueError::syntax("Map", "{a: b, c: d}", text),
        Type::Record(record) => ValueError::Record {
            of: record.name.clone(),
            fields: record.fields.iter().map(|(name, _)| name.clone()).collect(),
            text: text.chars().take(64).collect(),
        },
        _ => ValueError::syntax("quoted text", "\"a\"", text),
    }
}

/// What is left of a text.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    /// Reads a value that is inside `depth` others.
    fn value(&mut self, ty: &Type, depth: usize) -> Result<Value, ValueError> {
        if depth > DEPTH_MAX {
            return Err(ValueError::TooDeep);
        }
        self.rest = self.rest.trim_start();
        let start = self.rest;
        match ty {
            Type::Set(element) => {
                let mut elements = BTreeSet::new();
                self.items(ty, ["{", "}"], |reader| {
                    elements.insert(reader.value(element, depth + 1)?);
                    Ok(())
                })?;
                Ok(Value::Set(Arc::new(elements)))
            }
            Type::List(element) => {
                let mut elements = Vec::new();
                self.items(ty, ["[", "]"], |reader| {
                    elements.push(reader.value(element, depth + 1)?);
                    Ok(())
                })?;
                Ok(Value::List(elements.into()))
            }
            Type::Map(types) => {
                let mut entries = BTreeMap::new();
                self.items(ty, ["{", "}"], |reader| {
                    let key = reader.value(&types.0, depth + 1)?;
                    if !reader.takes(":") {
                        return Err(syntax(ty, start));
                    }
                    let value = reader.value(&types.1, depth + 1)?;
                    match entries.insert(key.clone(), value) {
                        Some(_) => Err(ValueError::twice(&key)),
                        None => Ok(()),
                    }
                })?;
                Ok(Value::Map(Arc::new(entries)))
            }
            Type::Record(record) => self.record(record, depth)?.ok_or_else(|| syntax(ty, start)),
            Type::Optional(_) if self.takes_none() => Ok(Value::None),
            Type::Optional(_) => self.value(ty.present(), depth),
            ty if has_quotes(ty) => {
                let (content, rest) = unquote(start).ok_or_else(|| syntax(ty, self.scalar(ty).0))?;
                self.rest = rest;
                Value::parse(ty, &content)
            }
            ty => {
                let (text, rest) = self.scalar(ty);
                self.rest = rest;
                Value::parse(ty, text)
            }
        }
    }

    /// Reads items between two brackets, separated by commas.
    fn items(
        &mut self,
        ty: &Type,
        [open, close]: [&str; 2],
        mut item: impl FnMut(&mut Self) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        let start = self.rest;
        if !self.takes(open) {
            return Err(syntax(ty, start));
        }
        if self.takes(close) {
            return Ok(());
        }
        for _ in 0..COLLECTION_MAX {
            item(self)?;
            if self.takes(close) {
                return Ok(());
            }
            if !self.takes(",") || self.rest.trim_start().starts_with(close) {
                return Err(syntax(ty, start));
            }
        }
        Err(ValueError::TooManyElements)
    }

    /// Reads a record, whose fields with a default may be missing; nothing if the text has not its form.
    fn record(&mut self, ty: &RecordType, depth: usize) -> Result<Option<Value>, ValueError> {
        if !(self.takes(&ty.name) && self.takes("(")) {
            return Ok(None);
        }
        let mut fields = Vec::with_capacity(ty.fields.len());
        let mut is_first = true;
        for (index, (name, field_ty)) in ty.fields.iter().enumerate() {
            let before = self.rest;
            let is_separated = is_first || self.takes(",");
            let value = if is_separated && self.takes(name) && self.takes(":") {
                is_first = false;
                self.value(field_ty, depth + 1)?
            } else {
                self.rest = before;
                let Some(default) = ty.default(index) else { return Ok(None) };
                default.clone()
            };
            fields.push((name.clone(), value));
        }
        let record = RecordValue { of: ty.name.clone(), fields };
        Ok(self.takes(")").then(|| Value::Record(Arc::new(record))))
    }

    /// Whether `word` comes next, which is passed then.
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Whether the whole word `none` comes next, which is passed then.
    fn takes_none(&mut self) -> bool {
        let Some(rest) = self.rest.strip_prefix("none") else { return false };
        let is_whole =
            rest.is_empty() || rest.starts_with([',', ':', ']', '}', ')']) || rest.starts_with(char::is_whitespace);
        self.rest = if is_whole { rest } else { self.rest };
        is_whole
    }

    /// The text of a value of type `ty` that holds no others and is not quoted, and what follows it.
    fn scalar(&self, ty: &Type) -> (&'t str, &'t str) {
        let holds_colons = matches!(ty, Type::Time | Type::Timestamp);
        let before_blank = |index: usize| self.rest[index + 1..].chars().next().is_none_or(char::is_whitespace);
        let ends = |(index, c): (usize, char)| match c {
            ':' if holds_colons => before_blank(index),
            c => matches!(c, ',' | ':' | ']' | '}' | ')'),
        };
        let end = self.rest.char_indices().find(|at| ends(*at)).map_or(self.rest.len(), |(index, _)| index);
        (self.rest[..end].trim(), &self.rest[end..])
    }
}

fn has_quotes(element: &Type) -> bool {
    use KeyType::{Currency, Date, Iban, Id, Integer};
    let is_plain = |key: &KeyType| matches!(key, Integer | Iban | Date | Currency | Id);
    match element {
        Type::String => true,
        Type::Reference { key, .. } => !is_plain(key),
        _ => false,
    }
}

/// The content of the quoted text that `text` begins with, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut chars = text.strip_prefix('"')?.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Some((content, &text[index + 2..])),
            '\\' => content.push(chars.next()?.1),
            c => content.push(c),
        }
    }
    None
}
