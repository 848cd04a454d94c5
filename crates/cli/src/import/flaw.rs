//! Where a text is no JSON, in the words of its author: the column, what is expected there, and what stands there.

use serde_json::error::Category;

/// The parser's words for what it has not found, and those for the author of the text. The parser has no other way to tell one from another.
const EXPECTED: [(&str, &str); 13] = [
    ("EOF while parsing a string", "the rest of the string"),
    ("EOF while parsing a list", "the rest of the list"),
    ("EOF while parsing an object", "the rest of the object"),
    ("EOF while parsing a value", "a value"),
    ("expected value", "a value"),
    ("expected ident", "a value"),
    ("expected `:`", "`:`"),
    ("expected `,` or `]`", "`,` or `]`"),
    ("expected `,` or `}`", "`,` or `}`"),
    ("key must be a string", "a name in double quotes"),
    ("invalid number", "a number such as `0.5`"),
    ("number out of range", "a smaller number"),
    ("recursion limit exceeded", "fewer lists and objects in each other"),
];

/// What the parser says of a text of JSON in which it goes on to read a string.
const IN_STRING: [(&str, &str); 5] = [
    ("control character", "an escape such as `\\t` or `\\n`, as a string has no control characters"),
    ("invalid escape", "an escape such as `\\n`, `\\\\` or `\\u00e9`"),
    ("lone leading surrogate", "the second half of a pair such as `\\ud83d\\ude00`"),
    ("unexpected end of hex escape", "the second half of a pair such as `\\ud83d\\ude00`"),
    ("invalid unicode code point", "UTF-8"),
];

/// The most letters of a word that are shown.
const WORD_MAX: usize = 20;

/// What is wrong with `text`, for which the parser gave `error`.
pub(super) fn flaw(text: &str, error: &serde_json::Error) -> String {
    let said = error.to_string();
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    // The parser counts bytes, up to the one at which it has stopped.
    let mut column = line.char_indices().take_while(|(at, _)| *at < error.column()).count().max(1);
    if said.starts_with("expected ident") {
        let ahead: Vec<char> = line.chars().take(column - 1).collect();
        column -= ahead.iter().rev().take_while(|letter| letter.is_alphanumeric()).count();
    }
    let is_over = error.classify() == Category::Eof;
    let found: String = line.chars().skip(column - 1).take(WORD_MAX).collect();
    if is_over && !line.is_empty() {
        column += 1;
    }
    let place = if error.line() > 1 { format!("line {}, ", error.line()) } else { String::new() };
    let place = format!("{place}column {column}");
    if error.classify() == Category::Data {
        let twice = said.split('`').nth(1).unwrap_or_default();
        return format!("{place}: `{twice}` stands twice");
    }
    let expected = match &*said {
        said if said.starts_with("trailing comma") && found.starts_with('}') => {
            "a name in double quotes behind the comma"
        }
        said if said.starts_with("trailing comma") => "a value behind the comma",
        said if said.starts_with("trailing characters") => "nothing behind the end",
        said => {
            let known = EXPECTED.iter().chain(&IN_STRING).find(|(words, _)| said.starts_with(words));
            known.map_or("JSON", |(_, expected)| expected)
        }
    };
    let found = if is_over { "the end".to_owned() } else { shown(&found) };
    format!("{place}: expected {expected}, found {found}")
}

/// The first word, or else the first character.
pub(super) fn shown(text: &str) -> String {
    let first = text.chars().next().unwrap_or_default();
    if first.is_control() {
        return format!("U+{:04X}", u32::from(first));
    }
    let word: String = text.chars().take_while(|letter| letter.is_alphanumeric()).collect();
    format!("`{}`", if word.is_empty() { first.to_string() } else { word })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_told_by_its_column_and_what_is_expected_there() {
        for (text, said) in [
            (r#"{"a": 1"#, "column 8: expected the rest of the object, found the end"),
            (r#"{"a": [1"#, "column 9: expected the rest of the list, found the end"),
            (r#"{"a": "x"#, "column 9: expected the rest of the string, found the end"),
            (r#"{"a":"#, "column 6: expected a value, found the end"),
            (r#"{"a" 1}"#, "column 6: expected `:`, found `1`"),
            (r#"{"a": }"#, "column 7: expected a value, found `}`"),
            (r#"{"é": x}"#, "column 7: expected a value, found `x`"),
            (r#"{"a": 1 "b": 2}"#, "column 9: expected `,` or `}`, found `\"`"),
            (r#"{"a": [1 2]}"#, "column 10: expected `,` or `]`, found `2`"),
            (r#"{'a': 1}"#, "column 2: expected a name in double quotes, found `'`"),
            (r#"{"a": 1,}"#, "column 9: expected a name in double quotes behind the comma, found `}`"),
            (r#"{"a": [1,]}"#, "column 10: expected a value behind the comma, found `]`"),
            (r#"{"a": nil}"#, "column 7: expected a value, found `nil`"),
            (r#"{"a": 01}"#, "column 8: expected a number such as `0.5`, found `1`"),
            (r#"{"a": 1.}"#, "column 9: expected a number such as `0.5`, found `}`"),
            (r#"{"a": 1e999}"#, "column 11: expected a smaller number, found `9`"),
            (r#"{"a": 1}, {}"#, "column 9: expected nothing behind the end, found `,`"),
            (
                "{\"a\": \"x\ty\"}",
                "column 9: expected an escape such as `\\t` or `\\n`, as a string has no control characters, found U+0009",
            ),
            (r#"{"a": "\x"}"#, r"column 9: expected an escape such as `\n`, `\\` or `\u00e9`, found `x`"),
            (
                r#"{"a": "\ud83d"}"#,
                r#"column 14: expected the second half of a pair such as `\ud83d\ude00`, found `"`"#,
            ),
            ("[1,\n  2,\n  x]", "line 3, column 3: expected a value, found `x`"),
            ("", "column 1: expected a value, found the end"),
        ] {
            let error = serde_json::from_str::<serde_json::Value>(text).expect_err(text);
            assert_eq!(flaw(text, &error), said, "{text}: {error}");
        }
        let deep = "[".repeat(200);
        let error = serde_json::from_str::<serde_json::Value>(&deep).expect_err("too deep");
        assert_eq!(flaw(&deep, &error), "column 128: expected fewer lists and objects in each other, found `[`");
    }
}
