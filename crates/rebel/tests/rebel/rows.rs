//! The table of the reference that says what each construct touches: a contract for each row.

const PAGE: &str = include_str!("../../../../docs/rebel.md");
const PARAMS: &str = "count: Integer, word: String, words: Set[String], other: Shelf";

/// A row of the table.
pub(crate) struct Row {
    pub(crate) construct: &'static str,
    /// The contract with the event `Try` of the class `Shelf`.
    pub(crate) text: String,
    /// What the event touches beside its own state, each as it is written.
    pub(crate) touches: Vec<String>,
}

fn section() -> &'static str {
    let (_, section) = PAGE.split_once("\n### What an event touches\n").expect("the page says what an event touches");
    section.split("\n## ").next().unwrap_or_default()
}

/// The rows of the table with this head.
pub(crate) fn table(head: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = section().split_once(head).expect("the section has the table");
    let lines = rest.lines().skip(1).take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

pub(crate) fn rows() -> Vec<Row> {
    let (_, contract) = section().split_once("```rebel\n").expect("the section has a contract");
    let (contract, _) = contract.split_once("```").expect("the contract ends");
    let row = |columns: Vec<&'static str>| {
        let [construct, written, touches] = columns[..] else { panic!("{columns:?}") };
        Row { construct, text: with(contract, &spans(written)), touches: said(touches) }
    };
    table("| construct | as in | touches |\n").into_iter().map(row).collect()
}

/// What stands between backquotes.
fn spans(cell: &'static str) -> Vec<&'static str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn said(cell: &str) -> Vec<String> {
    if cell == "nothing" { Vec::new() } else { cell.split(", `").map(|touch| touch.replace('`', "")).collect() }
}

/// The contract with one event more, which consists of the given parts.
fn with(contract: &str, parts: &[&str]) -> String {
    let (mut state, mut read, mut result, mut roles, mut target) = ("used", "", "", "", "");
    let (mut invariants, mut sections, mut margin) = (String::new(), String::new(), "      ");
    for part in parts {
        match part.split_whitespace().next().unwrap_or_default() {
            "planned" | "idle" => state = part,
            "read" => read = "read ",
            "->" => result = part,
            "by" => roles = part,
            ":" => target = part,
            "invariant" => invariants += &format!("  {part}\n"),
            "variant" => {
                sections += &format!("      {part}\n");
                margin = "        ";
            }
            _ => sections += &format!("{margin}{part}\n"),
        }
    }
    let (fields, rest) = contract.split_once("  initial planned").expect("the shelf has an initial state");
    let head = format!("{read}on Try({PARAMS}) {result} {roles}{target}");
    format!("{fields}{invariants}  initial planned{rest}  {state}\n    {}\n{sections}", head.trim_end())
}
