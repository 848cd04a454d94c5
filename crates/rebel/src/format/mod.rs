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

/// Whether two lists of sources differ in nothing but comments, documentation, layout, spellings that mean the same, and the
/// names of the sources. Of sources that cannot be read it is not said.
#[must_use]
pub fn say_the_same(one: &[Source], other: &[Source]) -> bool {
    let is_same = |(one, other): (&Source, &Source)| {
        one.text == other.text || essence(one).is_some_and(|one| Some(one) == essence(other))
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// Whether `later` says what `earlier` says, and declares classes besides of which that knows nothing: so every instance of an
/// earlier class is what it was, whatever has happened to it.
///
/// The sources correspond one by one. Of sources that cannot be read it is not said.
///
/// ```
/// use enact_rebel::{Source, only_adds_classes};
///
/// let lamp = "class Lamp\n  initial off\n    on Light(): lit\n  lit\n";
/// let source = |text: &str| [Source::new("house.rebel", text)];
/// let with_door = format!("{lamp}class Door\n  initial shut\n    on Open(): open\n  open\n");
/// assert!(only_adds_classes(&source(lamp), &source(&with_door)));
/// assert!(!only_adds_classes(&source(&with_door), &source(lamp)));
/// ```
#[must_use]
pub fn only_adds_classes(earlier: &[Source], later: &[Source]) -> bool {
    let adds = |(earlier, later): (&Source, &Source)| -> Option<bool> {
        let (earlier, later) = (essence(earlier)?, essence(later)?);
        let (known, all) = (declarations(&earlier), declarations(&later));
        let mut expected = known.iter();
        let mut next = expected.next();
        for declaration in &all {
            if next == Some(declaration) {
                next = expected.next();
                continue;
            }
            let name = declaration.strip_prefix("class ")?.split(|c: char| !is_of_word(c)).next()?;
            if name.is_empty() || earlier.split(|c: char| !is_of_word(c)).any(|word| word == name) {
                return None;
            }
        }
        Some(next.is_none())
    };
    earlier.len() == later.len() && earlier.iter().zip(later).all(|pair| adds(pair) == Some(true))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The declarations of a source whose essence this is: each begins with a line that is not indented.
fn declarations(essence: &str) -> Vec<&str> {
    let begins = essence.match_indices('\n').map(|(at, _)| at + 1);
    let begins = begins.filter(|&at| !essence[at..].starts_with(' '));
    let ends: Vec<usize> = begins.chain([essence.len()]).collect();
    let mut start = 0;
    ends.into_iter().map(|end| essence[std::mem::replace(&mut start, end)..end].trim_end()).collect()
}

/// The source in its one layout, without comments, documentation and whatever else means nothing; `None` if it cannot be read. Sources with the
/// same essence [say the same](say_the_same).
///
/// ```
/// use enact_rebel::{Source, essence};
///
/// let commented = Source::new("lamp.rebel", "// A lamp.\nclass Lamp\n    initial off on Light(): lit\n    lit");
/// let plain = Source::new("lamp.rebel", "class Lamp\n  initial off\n    on Light(): lit\n  lit");
/// assert_eq!(essence(&commented), essence(&plain));
/// ```
pub fn essence(source: &Source) -> Option<String> {
    let parse = parse(0, &source.text, Separation::Lines, &Modules::Unknown, &mut 0, &mut |_| ());
    let mut text = String::with_capacity(source.text.len());
    let mut end = 0;
    for (_, span) in &parse.tokens {
        // A comment before a token is as good as blanks.
        text.extend(source.text[end..span.start].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        text.push_str(&source.text[span.start..span.end]);
        end = span.end;
    }
    let printed = format(Source::new("", text), Style { canonical: true, ..Style::default() }).ok()?;
    Some(printed.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests;
