//! `enact check`: what is wrong with a specification.

use std::io::{self, Write};

use enact_rebel::{Diagnostic, Position, Report, Source, Span, Spec, check};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::lines::Lines;
use crate::{args, footprint, scaling, spec};

pub(crate) fn run(args: &args::Check) -> Result<(), Failure> {
    let sources = spec::read(&args.spec.files)?;
    let lines = Lines::of(&sources);
    let spec = if args.json { check_for_programs(sources, args, &lines)? } else { spec::check(sources)? };
    let warnings = spec.warnings().diagnostics().len() + spec.warnings().omitted();
    if args.deny_warnings && warnings > 0 {
        return Err(Failure::Warnings { warnings });
    }
    if !args.json {
        if args.footprint {
            print(&footprint::tables(&spec, &lines))?;
        }
        if args.scaling {
            print(&scaling::tables(&spec, &lines))?;
        }
        let classes = spec.classes().len();
        let events = spec.classes().map(|class| class.events().len()).sum::<usize>();
        let counts = [count(classes, "class"), count(events, "event"), count(warnings, "warning")];
        print(&format!("no errors: {}\n", counts.join(", ")))?;
    }
    Ok(())
}

/// Prints a text that may be long. A reader that closes the pipe early is no failure.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Unwritable { path: "standard output".into(), source: error })
        }
        _ => Ok(()),
    }
}

/// As [`spec::check`], with the findings as one JSON document on standard output, and with what is asked for besides.
fn check_for_programs(sources: Vec<Source>, args: &args::Check, lines: &Lines) -> Result<Spec, Failure> {
    let file = spec::first(&sources);
    match check(sources) {
        Ok(spec) => {
            let mut document = document(spec.warnings());
            if args.footprint {
                document["footprints"] = footprint::document(&spec, lines);
            }
            if args.scaling {
                document["scaling"] = scaling::document(&spec, lines);
            }
            print(&format!("{document}\n"))?;
            spec::with_class(spec, file)
        }
        Err(report) => {
            print(&format!("{}\n", document(&report)))?;
            Err(Failure::Spec { errors: report.errors().count() })
        }
    }
}

fn document(report: &Report) -> Value {
    let findings: Vec<Value> = report.diagnostics().iter().map(|finding| described(report, finding)).collect();
    json!({ "findings": findings, "omitted": report.omitted() })
}

fn described(report: &Report, finding: &Diagnostic) -> Value {
    let mut described = json!({
        "code": finding.code.number(),
        "severity": if finding.code.is_warning() { "warning" } else { "error" },
        "message": finding.message,
        "labels": finding.labels.iter().map(|label| said(report, label.span, &label.text)).collect::<Vec<_>>(),
    });
    if let Some(help) = &finding.help {
        described["help"] = json!(help);
    }
    if let Some(edit) = &finding.edit {
        described["edit"] = said(report, edit.span, &edit.text);
    }
    described
}

fn said(report: &Report, span: Span, text: &str) -> Value {
    let mut place = place(span, report.locate(span));
    place["text"] = json!(text);
    place
}

pub(crate) fn place(span: Span, (file, begin, end): (&str, Position, Position)) -> Value {
    json!({
        "file": file,
        "begin": { "offset": span.start, "line": begin.line, "column": begin.column },
        "end": { "offset": span.end, "line": end.line, "column": end.column },
    })
}

fn count(number: usize, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "class") => format!("{number} classes"),
        _ => format!("{number} {noun}s"),
    }
}
