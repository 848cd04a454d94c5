//! The text and the tables of a report as Markdown.
use super::{Block, Document, Table};

pub(super) fn render(document: &Document) -> String {
    let mut parts = vec![format!("# {}", one_line(&document.title))];
    parts.extend(document.summary.iter().map(|sentence| one_line(sentence)));
    for section in &document.sections {
        parts.push(format!("## {}", section.heading));
        parts.extend(section.blocks.iter().filter_map(block));
    }
    parts.join("\n\n") + "\n"
}

/// None for figures.
fn block(block: &Block) -> Option<String> {
    let item = |text: &String| format!("* {}", one_line(text));
    Some(match block {
        Block::Prose(text) => one_line(text),
        Block::Heading(text) => format!("### {}", one_line(text)),
        Block::Command(text) => format!("    {}", one_line(text)),
        Block::Facts(facts) => {
            facts.iter().map(|(name, value)| item(&format!("{name}: {value}"))).collect::<Vec<_>>().join("\n")
        }
        Block::List(items) => items.iter().map(item).collect::<Vec<_>>().join("\n"),
        Block::Table(content) => table(content),
        Block::Figures(_) => return None,
    })
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let rules = table.columns.iter().map(|column| if column.is_number { "---:" } else { "---" });
    let mut lines = vec![
        format!("{}:", one_line(&table.caption)),
        String::new(),
        line(table.columns.iter().map(|column| cell(&column.name)).collect()),
        format!("|{}|", rules.collect::<Vec<_>>().join("|")),
    ];
    lines.extend(table.rows.iter().map(|row| line(row.iter().map(|one| cell(&one.text)).collect())));
    lines.join("\n")
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}
