//! The one way to lay a source out.
//!
//! A source is printed token by token, so that nothing is lost: the parser says where lines begin and which items belong to
//! one section, and comments stay before or behind the token that they stood at.

mod comments;
mod plan;
mod printer;
mod spacing;

use self::plan::Plan;
use self::printer::Printer;
use crate::diagnostic::Report;
use crate::source::Source;
use crate::syntax::{Modules, Separation, parse};

/// How wide a line may be, in characters. What the author has put on one line, and what has no place to break at, may be
/// longer.
const WIDTH: usize = 100;

/// How [`format()`] reads a source, and which spelling it prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Print the one spelling of what has several: `=` in effects, `==`, `>=`, `<=` and `!=`, `x is opened`,
    /// `x is initialized`, `EUR 5.00`. Otherwise each stays as it is written.
    pub canonical: bool,
    /// Read a source of the time before line breaks had a meaning: commas and words alone say what belongs to what.
    pub from_free: bool,
}

/// The source in the layout of the reference: two blanks a level, one declaration, state group, event or section a line, a
/// list of guards, effects or calls on one line or one on each.
///
/// Keeps every comment, and one of several empty lines. Formatting twice changes nothing more, and the result means what
/// the source means.
///
/// # Errors
/// The syntax errors of a source that cannot be read.
///
/// ```
/// use enact_rebel::{Source, Style, format};
/// let source = Source::new("a.rebel", "class A\n  initial new\n   on Go( ) : old // at once\n  final  old");
/// let formatted = format(source, Style::default())?;
/// assert_eq!(formatted, "class A\n  initial new\n    on Go(): old  // at once\n  final old\n");
/// # Ok::<(), enact_rebel::Report>(())
/// ```
pub fn format(source: Source, style: Style) -> Result<String, Report> {
    let separation = if style.from_free { Separation::Words } else { Separation::Lines };
    let mut found = Vec::new();
    let parse = parse(0, &source.text, separation, &Modules::Unknown, &mut 0, &mut |diagnostic| found.push(diagnostic));
    if !found.is_empty() {
        let mut report = Report::new(vec![source]);
        found.into_iter().for_each(|diagnostic| report.push(diagnostic));
        report.sort();
        return Err(report);
    }
    let plan = Plan::new(&source.text, &parse, style.canonical);
    Ok(Printer::new(&source.text, &parse.tokens, &plan).print())
}

#[cfg(test)]
mod tests;
