//! A page of HTML that is complete in itself: it loads nothing, and a policy in its head forbids it to.
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Block, Cell, Document, Figure, Mark, Section, Table};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

pub(super) fn render(document: &Document) -> String {
    let Document { title, summary, highlights, sections } = document;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#summary" { "Skip to the summary" }
                header {
                    div.bar {
                        nav aria-label="Sections" {
                            @for section in sections { a href={ "#" (section.id) } { (section.heading) } }
                        }
                        button #theme type="button" { "Dark theme" }
                    }
                    h1 { (title) }
                    div #summary { @for sentence in summary { p { (sentence) } } }
                    @if !highlights.is_empty() {
                        dl.highlights {
                            @for (number, what, mark) in highlights {
                                div class=[mark.class()] { dt { (what) } dd { (number) } }
                            }
                        }
                    }
                }
                main { @for part in sections { (section(part)) } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn section(section: &Section) -> Markup {
    html! {
        section id=(section.id) {
            h2 { (section.heading) }
            @for part in &section.blocks { (block(part)) }
        }
    }
}

fn block(block: &Block) -> Markup {
    html! {
        @match block {
            Block::Prose(text) => p { (text) },
            Block::Heading(text) => h3 { (text) },
            Block::Command(text) => pre tabindex="0" { code { (text) } },
            Block::Facts(facts) => dl.facts { @for (name, value) in facts { dt { (name) } dd { (value) } } },
            Block::List(items) => ul { @for item in items { li { (item) } } },
            Block::Table(content) => (table(content)),
            Block::Figures(figures) => div.figures { @for one in figures { (figure(one)) } },
        }
    }
}

/// Wide tables scroll within their frame, which the keyboard reaches.
fn table(table: &Table) -> Markup {
    html! {
        div.scroll role="region" aria-label=(table.caption) tabindex="0" {
            table {
                caption { (table.caption) }
                thead {
                    tr {
                        @for column in &table.columns {
                            th class=[column.is_number.then_some("number")] scope="col" { (column.name) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (place, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
                                @if place == 0 {
                                    th scope="row" { (cell.text) }
                                } @else {
                                    td class=[class(cell, column.is_number)] { (cell.text) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn class(cell: &Cell, is_number: bool) -> Option<String> {
    // A name such as `early-release` stays on one line.
    let is_word = !is_number && cell.text.contains('-') && !cell.text.contains(' ');
    let kinds = [is_number.then_some("number"), is_word.then_some("word")];
    let classes: Vec<_> = kinds.into_iter().flatten().chain(Mark::class(cell.mark)).collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

fn figure(figure: &Figure) -> Markup {
    html! {
        figure class=[figure.is_wide.then_some("wide")] {
            figcaption {
                strong { (figure.title) }
                @if !figure.caption.is_empty() { " " span { (figure.caption) } }
            }
            (PreEscaped(&figure.svg))
        }
    }
}
