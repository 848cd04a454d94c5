//! `enact check`: what is wrong with a specification.

use crate::failure::Failure;
use crate::{args, spec};

pub(crate) fn run(args: &args::Check) -> Result<(), Failure> {
    let spec = spec::check(spec::read(&args.spec.files)?)?;
    let classes = spec.classes().len();
    let events = spec.classes().map(|class| class.events().len()).sum::<usize>();
    let warnings = spec.warnings().diagnostics().len() + spec.warnings().omitted();
    if args.deny_warnings && warnings > 0 {
        return Err(Failure::Warnings { warnings });
    }
    println!("no errors: {}, {}, {}", count(classes, "class"), count(events, "event"), count(warnings, "warning"));
    Ok(())
}

fn count(number: usize, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "class") => format!("{number} classes"),
        _ => format!("{number} {noun}s"),
    }
}
