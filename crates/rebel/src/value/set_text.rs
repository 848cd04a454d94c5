//! Text form of sets: `{a, b}`, with texts quoted because they may hold commas and braces.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use super::{Key, KeyType, Type, Value, ValueError};

/// Writes the elements in their canonical order.
pub(super) fn print(elements: &BTreeSet<Value>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("{")?;
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        match element {
            Value::String(text) => quote(text, f)?,
            Value::Reference(reference) => match &reference.key {
                key @ (Key::Integer(_) | Key::Iban(_) | Key::Date(_) | Key::Currency(_) | Key::Id(_)) => key.fmt(f)?,
                key => quote(&key.to_string(), f)?,
            },
            element => element.fmt(f)?,
        }
    }
    f.write_str("}")
}

fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// Reads what [`print`] writes.
pub(super) fn parse(element: &Type, text: &str) -> Result<BTreeSet<Value>, ValueError> {
    let syntax = || ValueError::syntax("Set", "{a, b}", text);
    let inner = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(syntax)?;
    let mut elements = BTreeSet::new();
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let after;
        let value = if has_quotes(element) {
            let (content, tail) = unquote(rest).ok_or_else(syntax)?;
            after = tail.trim_start();
            Value::parse(element, &content)?
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            after = &rest[end..];
            Value::parse(element, rest[..end].trim())?
        };
        elements.insert(value);
        rest = match after.strip_prefix(',') {
            Some(more) if !more.trim().is_empty() => more.trim_start(),
            None if after.is_empty() => after,
            _ => return Err(syntax()),
        };
    }
    Ok(elements)
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
