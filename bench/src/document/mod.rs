//! What a report says, whatever it is written as: sections of prose, tables and figures.
//!
//! [`html`] makes a page of it that is complete in itself, [`markdown`] everything but the figures. Both render the same
//! cells, so a figure cannot stand in one of them and not in the other.
pub(crate) mod chart;
mod html;
mod markdown;
mod pages;
pub(crate) mod picture;

pub use pages::{PageError, Pages};
pub(crate) use picture::Figure;

use crate::measure::Comparison;

/// A whole report.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) title: String,
    /// What everybody should know of it, a sentence each.
    pub(crate) summary: Vec<String>,
    /// Numbers that stand out, with what they count.
    pub(crate) highlights: Vec<(String, String, Mark)>,
    pub(crate) sections: Vec<Section>,
}

impl Document {
    /// As a page that loads nothing.
    pub(crate) fn html(&self) -> String {
        html::render(self)
    }

    /// As Markdown, without the figures.
    pub(crate) fn markdown(&self) -> String {
        markdown::render(self)
    }
}

/// A part with a heading, by which it can be pointed to.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) heading: String,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone)]
pub(crate) enum Block {
    Prose(String),
    /// A heading within a section.
    Heading(String),
    Command(String),
    /// Names and what they stand for.
    Facts(Vec<(String, String)>),
    List(Vec<String>),
    Table(Table),
    /// Figures beside each other, as many as there is room for.
    Figures(Vec<Figure>),
}

/// A table; all rows have as many cells as there are columns.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    is_number: bool,
}

impl Table {
    /// Without columns and rows; columns come first.
    pub(crate) fn new(caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), columns: Vec::new(), rows: Vec::new() }
    }

    /// With a further column of words.
    #[must_use]
    pub(crate) fn with_words(self, name: impl Into<String>) -> Self {
        self.with_column(name.into(), false)
    }

    /// With a further column of numbers.
    #[must_use]
    pub(crate) fn with_numbers(self, name: impl Into<String>) -> Self {
        self.with_column(name.into(), true)
    }

    fn with_column(mut self, name: String, is_number: bool) -> Self {
        self.columns.push(Column { name, is_number });
        self
    }

    /// A further row.
    ///
    /// # Panics
    /// When it has not one cell for each column.
    pub(crate) fn add<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        assert_eq!(row.len(), self.columns.len(), "{}: {row:?}", self.caption);
        self.rows.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) mark: Mark,
}

impl Cell {
    pub(crate) fn marked(text: impl Into<String>, mark: Mark) -> Self {
        Self { text: text.into(), mark }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::marked(text, Mark::None)
    }
}

/// What colour says about a figure in addition to what it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// Better than what it is compared with.
    Ahead,
    /// Worse.
    Behind,
    /// Not to be told apart.
    Open,
}

impl Mark {
    /// What the interval of a ratio to something else allows to say.
    pub(crate) fn of(ratio: &Comparison) -> Self {
        match ratio.interval {
            Some(interval) if interval.low > 1.0 => Self::Ahead,
            Some(interval) if interval.high < 1.0 => Self::Behind,
            _ => Self::Open,
        }
    }

    fn class(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Ahead => Some("ahead"),
            Self::Behind => Some("behind"),
            Self::Open => Some("open"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn document(texts: [String; 5]) -> Document {
        let [title, sentence, caption, name, cell] = texts;
        let mut table = Table::new(caption).with_words("who").with_numbers(name);
        table.add([Cell::from("a"), Cell::marked(cell, Mark::Behind)]);
        let blocks = vec![Block::Table(table), Block::Command("enact-bench".to_owned())];
        let sections = vec![Section { id: "only", heading: "Only".to_owned(), blocks }];
        Document { title, summary: vec![sentence], highlights: Vec::new(), sections }
    }

    #[test]
    fn html_has_real_tables_whose_cells_belong_to_headings() {
        let html = document(["Title", "It is.", "Times", "ms", "12.5"].map(str::to_owned)).html();
        assert!(html.contains(r#"<caption>Times</caption>"#), "{html}");
        assert!(html.contains(r#"<th class="number" scope="col">ms</th>"#), "{html}");
        assert!(html.contains(r#"<th scope="row">a</th>"#), "{html}");
        assert!(html.contains(r#"<td class="number behind">12.5</td>"#), "{html}");
    }

    #[test]
    fn a_name_with_hyphens_is_not_broken() {
        let mut table = Table::new("Names").with_words("who").with_words("what").with_words("how");
        table.add(["a", "early-release", "half a year-long"]);
        let blocks = vec![Block::Table(table)];
        let sections = vec![Section { id: "only", heading: "Only".to_owned(), blocks }];
        let document = Document { title: String::new(), summary: Vec::new(), highlights: Vec::new(), sections };
        let html = document.html();
        assert!(html.contains(r#"<td class="word">early-release</td><td>half a year-long</td>"#), "{html}");
    }

    #[test]
    fn markdown_aligns_numbers_to_the_right() {
        let markdown = document(["Title", "It is.", "Times", "ms", "12.5"].map(str::to_owned)).markdown();
        let table = "Times:\n\n| who | ms |\n|---|---:|\n| a | 12.5 |\n";
        assert!(markdown.starts_with("# Title\n\nIt is.\n") && markdown.contains(table), "{markdown}");
        assert!(markdown.contains("\n    enact-bench\n"), "{markdown}");
    }

    #[test]
    #[should_panic(expected = "Times")]
    fn a_row_has_a_cell_for_each_column() {
        Table::new("Times").with_words("who").add(["a", "b"]);
    }

    proptest! {
        /// What looks like markup in a name is text on the page, and cannot end a row of a table in Markdown.
        #[test]
        fn texts_stay_texts(texts in proptest::array::uniform5("[a-z<>&\"'|/\\n]{0,12}")) {
            let plain = document(["t", "s", "c", "n", "x"].map(str::to_owned));
            let count = |text: &str, what: char| text.matches(what).count();
            let (html, markdown) = (document(texts.clone()).html(), document(texts).markdown());
            prop_assert_eq!(count(&html, '<'), count(&plain.html(), '<'));
            let rows = |markdown: &str| markdown.lines().filter(|line| line.starts_with('|')).count();
            let (table, plain) = (markdown.rsplit("\n\n| ").next(), plain.markdown());
            prop_assert_eq!(table.map(rows), plain.rsplit("\n\n| ").next().map(rows));
        }
    }
}
