//! `enact check`: what is wrong with a specification.

use enact_rebel::{Diagnostic, Report, Span, Spec, check};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{args, spec};

pub(crate) fn run(args: &args::Check) -> Result<(), Failure> {
    let sources = spec::read(&args.spec.files)?;
    let spec = if args.json { check_for_programs(sources)? } else { spec::check(sources)? };
    let warnings = spec.warnings().diagnostics().len() + spec.warnings().omitted();
    if args.deny_warnings && warnings > 0 {
        return Err(Failure::Warnings { warnings });
    }
    if !args.json {
        let classes = spec.classes().len();
        let events = spec.classes().map(|class| class.events().len()).sum::<usize>();
        println!("no errors: {}, {}, {}", count(classes, "class"), count(events, "event"), count(warnings, "warning"));
    }
    Ok(())
}

/// As [`spec::check`], with the findings as one JSON document on standard output.
fn check_for_programs(sources: Vec<enact_rebel::Source>) -> Result<Spec, Failure> {
    match check(sources) {
        Ok(spec) => {
            println!("{}", document(spec.warnings()));
            Ok(spec)
        }
        Err(report) => {
            println!("{}", document(&report));
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
        "labels": finding.labels.iter().map(|label| place(report, label.span, &label.text)).collect::<Vec<_>>(),
    });
    if let Some(help) = &finding.help {
        described["help"] = json!(help);
    }
    if let Some(edit) = &finding.edit {
        described["edit"] = place(report, edit.span, &edit.text);
    }
    described
}

fn place(report: &Report, span: Span, text: &str) -> Value {
    let (file, begin, end) = report.locate(span);
    json!({
        "file": file,
        "begin": { "offset": span.start, "line": begin.line, "column": begin.column },
        "end": { "offset": span.end, "line": end.line, "column": end.column },
        "text": text,
    })
}

fn count(number: usize, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "class") => format!("{number} classes"),
        _ => format!("{number} {noun}s"),
    }
}
