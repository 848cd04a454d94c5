//! Programs that must not compile: those that the papers reject, and those that would break a promise of ours. In a program of
//! their own, which `cargo xtask sanitize` leaves out.
#![cfg(not(any(enact_loom, enact_shuttle)))]

#[test]
fn bad_programs_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
