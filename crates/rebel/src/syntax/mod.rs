//! From text to a syntax tree.
//!
//! # Grammar
//! Blanks and line breaks only separate. `//` and `/* */` are comments, `///` documents what follows.
//! ```text
//! file      = ["rounding" mode] (class | enum | const | fn)*
//! mode      = "half-even" | "half-up" | "half-down" | "up" | "down" | "ceiling" | "floor"
//! enum      = "enum" Name "{" name {"," name} "}"
//! const     = "const" name ":" type "=" expr
//! fn        = "fn" name "(" params ")" ":" type "=" expr
//! class     = "class" Name (field | invariant)* group+
//! field     = name ":" type ["@identity"] ["=" expr]
//! invariant = "invariant" rule
//! group     = ["initial" | "final"] name {"," name} event*
//! event     = ["internal"] "on" Name "(" params ")" [":" name]
//!             ["pre" ":" rule {"," rule}] ["post" ":" effect {"," effect}] ["sync" ":" step+]
//! params    = [name ":" type {"," name ":" type}]
//! type      = Name | "Set" "[" type "]"
//! rule      = [text ":"] expr
//! effect    = "this" "." name ("==" | "+=" | "-=") expr
//! step      = ["not"] name "." Name "(" [expr {"," expr}] ")" | "if" expr ":" step | "for" name "in" expr ":" step
//! expr      = expr "or" expr | expr "and" expr | "not" expr | expr comparison expr | expr "in" expr
//!           | "initialized" name | name "instate" (name | "{" name {"," name} "}")
//!           | expr ("+" | "-") expr | expr "*" expr | "-" expr | expr "." name | name ["(" [expr {"," expr}] ")"]
//!           | "if" expr "then" expr "else" expr | "{" [expr {"," expr}] "}" | "(" expr ")"
//!           | "this" | "now" | "today" | "true" | "false" | number | text | EUR 0.00 | €0 | 2.5% | 2026-11-21
//! ```
//! `or` binds weakest, then `and`, `not`, comparisons (which do not chain), sums, products, `-`, members.
//! `≥ ≤ ≠ ≡` stand for `>= <= != ==`.

mod expression;
mod parser;
mod token;
pub(crate) mod tree;

pub(crate) use parser::parse;
