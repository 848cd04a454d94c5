//! The specifications that a newcomer reads first.

use enact_rebel::{Source, Spec, check};

fn example(name: &str) -> Spec {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let source = Source::new(name, std::fs::read_to_string(path).unwrap());
    check(vec![source]).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn examples_are_checked_without_a_warning() {
    for name in ["listing2.rebel", "bank.rebel"] {
        let spec = example(name);
        assert!(spec.warnings().diagnostics().is_empty(), "{}", spec.warnings());
    }
}
