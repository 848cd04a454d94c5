//! What the events of a specification touch, as tables and as JSON.

use std::fmt::Write;

use enact_rebel::footprint::{Footprint, Term, Touch};
use enact_rebel::{Span, Spec};
use serde_json::{Value, json};

use crate::check::place;
use crate::lines::Lines;

const HEAD: [&str; 4] = ["instance", "place", "mode", "because of line"];

/// A table for each event, in the order of the specification.
pub(crate) fn tables(spec: &Spec, sources: &Lines) -> String {
    let mut text = String::new();
    for footprint in spec.footprints() {
        table(spec, sources, &footprint, &mut text).expect("a text takes what is written");
    }
    text
}

fn table(spec: &Spec, sources: &Lines, footprint: &Footprint, text: &mut String) -> std::fmt::Result {
    let event = spec.class(footprint.class()).and_then(|class| class.event(footprint.event()));
    let Some(event) = event else { return Ok(()) };
    let params: Vec<&str> = event.params().iter().map(|param| &**param.name()).collect();
    let (file, begin, _) = sources.locate(event.span());
    writeln!(text, "{}.{}({}), {file}:{}", footprint.class(), event.name(), params.join(", "), begin.line)?;
    let rows = footprint.touches().iter().map(|touch| {
        let cells = [instance(touch), touch.place.to_string(), touch.mode.to_string()];
        let [instance, place, mode] = cells.map(|cell| cell.replace(char::is_control, "?"));
        [instance, place, mode, lines(sources, touch, file)]
    });
    let rows: Vec<[String; 4]> = [HEAD.map(str::to_owned)].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2].map(width);
    for [instance, place, mode, because] in &rows {
        let [first, second, third] = widths;
        writeln!(text, "  {instance:first$}  {place:second$}  {mode:third$}  {because}")?;
    }
    if !footprint.is_complete() {
        writeln!(text, "  and more: its calls touch too many places to list them all")?;
    }
    writeln!(text)
}

/// The instance in the words of the specification.
fn instance(touch: &Touch) -> String {
    match &touch.instance {
        Term::Unknown => format!("some {}", touch.class),
        instance => instance.to_string(),
    }
}

/// The lines of what touches, each once; those of another file than that of the event with the name of that file.
fn lines(sources: &Lines, touch: &Touch, of: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for span in &touch.because {
        let (file, begin, _) = sources.locate(*span);
        let line = if file == of { begin.line.to_string() } else { format!("{file}:{}", begin.line) };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join(", ")
}

/// The same for programs.
pub(crate) fn document(spec: &Spec, sources: &Lines) -> Value {
    let place = |span: &Span| place(*span, sources.locate(*span));
    let touch = |touch: &Touch| {
        json!({
            "instance": instance(touch),
            "class": touch.class.as_ref(),
            "place": touch.place.to_string(),
            "mode": touch.mode.to_string(),
            "because": touch.because.iter().map(place).collect::<Vec<_>>(),
        })
    };
    let described = |footprint: Footprint| {
        json!({
            "class": footprint.class().as_ref(),
            "event": footprint.event().as_ref(),
            "complete": footprint.is_complete(),
            "touches": footprint.touches().iter().map(touch).collect::<Vec<_>>(),
        })
    };
    spec.footprints().map(described).collect()
}
