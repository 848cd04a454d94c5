//! Programs that must not compile, and what the compiler advises.
#![cfg(not(any(enact_loom, enact_shuttle)))]

#[test]
fn the_compiler_says_what_to_do_instead() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
