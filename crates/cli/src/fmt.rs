//! `enact fmt`: the layout of specifications.

use std::fs;

use enact_rebel::{Style, format};

use crate::failure::Failure;
use crate::{args, spec};

/// Each file by itself: one that cannot be read leaves the others as they should be.
pub(crate) fn run(args: &args::Fmt) -> Result<(), Failure> {
    let style = Style { canonical: args.canonical, from_free: args.from_free };
    let (mut errors, mut unformatted) = (0, 0);
    for path in spec::list(&args.files)? {
        let source = spec::read_one(&path)?;
        let before = source.text.clone();
        let after = match format(source, style) {
            Ok(after) => after,
            Err(report) => {
                spec::print(&report);
                errors += report.errors().count();
                continue;
            }
        };
        let is_changed = after != before;
        if args.check {
            unformatted += usize::from(is_changed);
            if is_changed {
                println!("{}", path.display());
            }
        } else if spec::is_standard(&path) {
            print!("{after}");
        } else if is_changed {
            fs::write(&path, after).map_err(|source| Failure::Unwritable { path, source })?;
        }
    }
    match (errors, unformatted) {
        (0, 0) => Ok(()),
        (0, files) => Err(Failure::Unformatted { files }),
        (errors, _) => Err(Failure::Spec { errors }),
    }
}
