//! The program of the repository's README is the example `tickets`.

const README: &str = include_str!("../../../README.md");
const TICKETS: &str = include_str!("../examples/tickets.rs");

#[test]
fn the_program_of_the_readme_is_the_example_tickets() {
    let (_, program) = README.split_once("```rust\n").expect("the README shows a program");
    let (program, _) = program.split_once("```").expect("it ends");
    let (_, example) = TICKETS.split_once("\n\n").expect("a header");
    assert_eq!(program, example);
}
