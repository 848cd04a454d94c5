//! Lines of JSON, or of CSV, as commands of a batch.

use std::io::{self, BufRead, BufReader, Read};

use csv::StringRecord;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value as Json};

use super::flaw::{flaw, shown};
use super::{ENVELOPE_BYTES, ImportError};
use crate::args::{self, ImportFormat};
use crate::failure::Failure;

/// Most bytes of one command.
const COMMAND_BYTES_MAX: usize = enact_server::BATCH_BYTES_MAX - ENVELOPE_BYTES - 1;

/// A command as it stands in a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The number of its line, from 1; of CSV, of the first one.
    pub(super) line: u64,
    pub(super) json: String,
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Command(Command),
    /// No command, and why.
    Unfit {
        line: u64,
        why: String,
    },
}

/// The commands of a file, one after the other.
pub(super) struct Commands<R> {
    lines: Lines<R>,
    form: Form,
    /// What the idempotency keys begin with.
    digest: String,
}

enum Form {
    Json,
    Csv(Table),
}

/// The columns of CSV.
struct Table {
    /// How many there are.
    columns: usize,
    class: Source,
    event: Source,
    id: Option<usize>,
    arguments: Vec<Column>,
}

/// Where a part of a command comes from.
enum Source {
    Constant(String),
    Column(usize),
}

struct Column {
    index: usize,
    name: String,
    /// Whether its cells are JSON, and not text.
    is_json: bool,
}

/// The lines of a file, counted from 1.
struct Lines<R> {
    reader: BufReader<R>,
    read: u64,
}

impl<R: Read> Commands<R> {
    pub(super) fn of(args: &args::Import, file: BufReader<R>, digest: &str) -> Result<Self, Failure> {
        let mut lines = Lines { reader: file, read: 0 };
        let form = match args.format() {
            ImportFormat::Csv => {
                let header =
                    lines.record().map_err(Failure::Input)?.map_or_else(|| Ok(String::new()), |(_, text)| text);
                Form::Csv(Table::of(args, header)?)
            }
            ImportFormat::Json => {
                let given =
                    [("class", args.class.is_some()), ("event", args.event.is_some()), ("id", args.id.is_some())];
                let json = ("json", !args.json.is_empty());
                if let Some((option, _)) = given.into_iter().chain([json]).find(|(_, is_given)| *is_given) {
                    return Err(ImportError::OnlyForCsv { option }.into());
                }
                Form::Json
            }
        };
        Ok(Self { lines, form, digest: digest.to_owned() })
    }

    /// The next one; nothing at the end of the file.
    pub(super) fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        let text = match self.form {
            Form::Csv(_) => self.lines.record()?,
            Form::Json => self.lines.line()?,
        };
        let Some((line, text)) = text else { return Ok(None) };
        let command = text.and_then(|text| match &self.form {
            Form::Csv(table) => table.command(&text),
            Form::Json => of_json(&text),
        });
        Ok(Some(match command.map(|command| command.with_key(&format!("{}-{line}", self.digest))) {
            Ok(json) if json.len() <= COMMAND_BYTES_MAX => Entry::Command(Command { line, json }),
            Ok(_) => Entry::Unfit { line, why: too_long() },
            Err(why) => Entry::Unfit { line, why },
        }))
    }
}

/// The number of a line, and its text with its end; or why it has none.
type Numbered = (u64, Result<String, String>);

impl<R: Read> Lines<R> {
    /// The next line that is not blank; nothing at the end of the file.
    fn line(&mut self) -> io::Result<Option<Numbered>> {
        loop {
            match self.next()? {
                Some(Ok(text)) if text.trim().is_empty() => {}
                read => return Ok(read.map(|text| (self.read, text))),
            }
        }
    }

    /// The next record of CSV, with the number of its first line: a cell in quotes may have several.
    fn record(&mut self) -> io::Result<Option<Numbered>> {
        let Some((line, text)) = self.line()? else { return Ok(None) };
        let Ok(mut text) = text else { return Ok(Some((line, text))) };
        while ends_in_quotes(&text) {
            match self.next()? {
                None => break,
                Some(Err(why)) => return Ok(Some((line, Err(why)))),
                Some(Ok(more)) if text.len() + more.len() > COMMAND_BYTES_MAX => {
                    return Ok(Some((line, Err(too_long()))));
                }
                Some(Ok(more)) => text += &more,
            }
        }
        Ok(Some((line, Ok(text))))
    }

    fn next(&mut self) -> io::Result<Option<Result<String, String>>> {
        let mut bytes = Vec::new();
        self.reader.by_ref().take(COMMAND_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.read += 1;
        if bytes.len() > COMMAND_BYTES_MAX && !bytes.ends_with(b"\n") {
            self.pass_over()?;
            return Ok(Some(Err(too_long())));
        }
        Ok(Some(String::from_utf8(bytes).map_err(|_| "the line is not UTF-8".to_owned())))
    }

    /// Passes over the rest of a line.
    fn pass_over(&mut self) -> io::Result<()> {
        loop {
            let buffered = self.reader.fill_buf()?;
            let end = buffered.iter().position(|&byte| byte == b'\n');
            let (used, is_over) = (end.map_or(buffered.len(), |end| end + 1), end.is_some() || buffered.is_empty());
            self.reader.consume(used);
            if is_over {
                return Ok(());
            }
        }
    }
}

/// Whether a cell of the record is open at the end of `text`. A quote opens one at its beginning only.
fn ends_in_quotes(text: &str) -> bool {
    let (mut is_open, mut begins) = (false, true);
    for byte in text.bytes() {
        match byte {
            // Two quotes in an open cell are one of its text: it is closed and open again.
            b'"' if is_open || begins => is_open = !is_open,
            _ if is_open => {}
            _ => begins = byte == b',',
        }
    }
    is_open
}

/// An object that is a command, perhaps without an idempotency key.
struct Unkeyed {
    json: String,
    has_key: bool,
}

impl Unkeyed {
    fn with_key(self, key: &str) -> String {
        let Self { json, has_key } = self;
        let inside = json[1..].trim_start();
        match (has_key, inside == "}") {
            (true, _) => json,
            (false, true) => format!(r#"{{"idempotency_key":"{key}"}}"#),
            (false, false) => format!(r#"{{"idempotency_key":"{key}",{inside}"#),
        }
    }
}

fn too_long() -> String {
    format!("the line is longer than {COMMAND_BYTES_MAX} bytes")
}

/// A line that is one object. The rest is for the server to judge, which gets it as it is written.
fn of_json(text: &str) -> Result<Unkeyed, String> {
    #[derive(Deserialize)]
    struct Keyed {
        idempotency_key: Option<IgnoredAny>,
    }
    let text = without_mark(text).trim_end();
    let json = text.trim_start();
    if !json.starts_with('{') {
        let column = text.chars().count() - json.chars().count() + 1;
        return Err(format!("column {column}: expected `{{`, as each line is one JSON object, found {}", shown(json)));
    }
    let Keyed { idempotency_key } = serde_json::from_str(text).map_err(|error| flaw(text, &error))?;
    Ok(Unkeyed { json: json.to_owned(), has_key: idempotency_key.is_some() })
}

/// Some programs begin a file with a mark of its byte order.
fn without_mark(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// The cells of a record.
fn cells(text: &str) -> Result<StringRecord, csv::Error> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    reader.read_record(&mut record).map(|_| record)
}

impl Table {
    fn of(args: &args::Import, header: Result<String, String>) -> Result<Self, Failure> {
        let name_of_file = || args.file.display().to_string();
        let unreadable = |why: String| ImportError::Header { file: name_of_file(), why };
        let header = header.and_then(|text| cells(&text).map_err(|error| error.to_string())).map_err(unreadable)?;
        let names: Vec<&str> = header.iter().map(without_mark).collect();
        if let Some(column) = (1..names.len()).find(|&column| names[..column].contains(&names[column])) {
            let column = names[column].to_owned();
            return Err(ImportError::RepeatedColumn { file: name_of_file(), column }.into());
        }
        let column = |name: &str| names.iter().position(|known| *known == name);
        let needed = |name: &str| {
            let missing = || ImportError::NoColumn { file: name_of_file(), column: name.to_owned() };
            column(name).ok_or_else(missing)
        };
        let source = |constant: &Option<String>, name: &str| match constant {
            Some(constant) => Ok(Source::Constant(constant.clone())),
            None => needed(name).map(Source::Column),
        };
        let (class, event) = (source(&args.class, "class")?, source(&args.event, "event")?);
        let id = match &args.id {
            Some(name) => Some(needed(name)?),
            None => column("id"),
        };
        args.json.iter().try_for_each(|name| needed(name).map(drop))?;
        let is_taken = |index: usize| {
            id == Some(index)
                || [&class, &event].iter().any(|source| matches!(source, Source::Column(at) if *at == index))
        };
        let arguments = names.iter().enumerate().filter(|(index, _)| !is_taken(*index)).map(|(index, name)| Column {
            index,
            name: (*name).to_owned(),
            is_json: args.json.iter().any(|column| column == name),
        });
        let arguments = arguments.collect();
        Ok(Self { columns: names.len(), class, event, id, arguments })
    }

    /// A cell that is empty is as if it were not there.
    fn command(&self, text: &str) -> Result<Unkeyed, String> {
        let record = cells(text).map_err(|error| error.to_string())?;
        if record.len() != self.columns {
            return Err(format!("{} cells, and the header has {}", record.len(), self.columns));
        }
        let cell = |index: usize| record.get(index).filter(|cell| !cell.is_empty());
        let part = |source: &Source| match source {
            Source::Constant(text) => Some(Json::from(text.as_str())),
            Source::Column(index) => cell(*index).map(Json::from),
        };
        let mut arguments = Map::new();
        for Column { index, name, is_json } in &self.arguments {
            let value = match cell(*index) {
                None => continue,
                Some(cell) if *is_json => serde_json::from_str(cell)
                    .map_err(|error| format!("`{name}` is no JSON, {}", flaw(cell, &error)))?,
                Some(cell) => Json::from(cell),
            };
            arguments.insert(name.clone(), value);
        }
        let mut command = Map::new();
        let id = self.id.and_then(cell).map(Json::from);
        for (name, value) in [("class", part(&self.class)), ("id", id), ("event", part(&self.event))] {
            command.extend(value.map(|value| (name.to_owned(), value)));
        }
        command.insert("arguments".to_owned(), Json::Object(arguments));
        Ok(Unkeyed { json: Json::Object(command).to_string(), has_key: false })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command as Subcommand};

    /// The entries of a file under these options, each as its line and its text.
    fn entries(file: &str, options: &[&str], text: &str) -> Vec<(u64, String)> {
        let Ok(Cli { command: Subcommand::Import(args) }) =
            Cli::try_parse_from(["enact", "import", file].iter().chain(options))
        else {
            panic!("an import")
        };
        let reader = BufReader::with_capacity(3, text.as_bytes());
        let mut commands = Commands::of(&args, reader, "d").unwrap_or_else(|failure| panic!("{failure}"));
        let mut entries = Vec::new();
        while let Some(entry) = commands.next_entry().expect("readable") {
            entries.push(match entry {
                Entry::Command(Command { line, json }) => (line, json),
                Entry::Unfit { line, why } => (line, why),
            });
        }
        entries
    }

    fn owned(entries: &[(u64, &str)]) -> Vec<(u64, String)> {
        entries.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
    }

    #[test]
    fn a_line_of_json_is_sent_as_it_is_written_with_a_key() {
        let text =
            "\u{feff}{ \"a\": 1e400, \"a\": 0.10 }\r\n\n \n{}\n{\"idempotency_key\": \"k\"}\n [1]\n  {\"a\"\n  { }  ";
        assert_eq!(
            entries("x.jsonl", &[], text),
            owned(&[
                (1, "{\"idempotency_key\":\"d-1\",\"a\": 1e400, \"a\": 0.10 }"),
                (4, "{\"idempotency_key\":\"d-4\"}"),
                (5, "{\"idempotency_key\": \"k\"}"),
                (6, "column 2: expected `{`, as each line is one JSON object, found `[`"),
                (7, "column 7: expected the rest of the object, found the end"),
                (8, "{\"idempotency_key\":\"d-8\"}"),
            ])
        );
    }

    #[test]
    fn a_record_of_csv_has_the_number_of_its_first_line_whatever_ends_lines() {
        let text = "id,a,\"b\"\n\n1,\"x,\n\n\"\"y\"\"\",5\" pipe\n2,,\n\n3,\"\",z";
        for text in [text.to_owned(), text.replace('\n', "\r\n"), format!("\u{feff}{text}\n\n")] {
            let end = if text.contains('\r') { "\\r\\n" } else { "\\n" };
            let expected = [
                (
                    3,
                    format!(
                        r#"{{"idempotency_key":"d-3","arguments":{{"a":"x,{end}{end}\"y\"","b":"5\" pipe"}},"class":"C","event":"E","id":"1"}}"#
                    ),
                ),
                (6, r#"{"idempotency_key":"d-6","arguments":{},"class":"C","event":"E","id":"2"}"#.to_owned()),
                (8, r#"{"idempotency_key":"d-8","arguments":{"b":"z"},"class":"C","event":"E","id":"3"}"#.to_owned()),
            ];
            assert_eq!(entries("x.csv", &["--class", "C", "--event", "E"], &text), expected);
        }
    }

    #[test]
    fn columns_that_are_said_otherwise_are_arguments() {
        let text = "class,id,event,iban\nA,1,B,N\n";
        assert_eq!(
            entries("x.csv", &["--class", "C", "--event", "E", "--id", "iban"], text),
            owned(&[(
                2,
                r#"{"idempotency_key":"d-2","arguments":{"class":"A","event":"B","id":"1"},"class":"C","event":"E","id":"N"}"#
            )])
        );
        assert_eq!(
            entries(
                "x.txt",
                &["--format", "csv", "--json", "iban"],
                "class,event,iban\nA,B,\"[1, 2]\"\nA,B,\n,B,\"x\"\nA,B\n"
            ),
            owned(&[
                (2, r#"{"idempotency_key":"d-2","arguments":{"iban":[1,2]},"class":"A","event":"B"}"#),
                (3, r#"{"idempotency_key":"d-3","arguments":{},"class":"A","event":"B"}"#),
                (4, "`iban` is no JSON, column 1: expected a value, found `x`"),
                (5, "2 cells, and the header has 3"),
            ])
        );
    }

    #[test]
    fn a_line_is_as_long_as_a_batch_takes_and_no_longer() {
        let key = r#"{"idempotency_key":"d-1","#.len();
        let line = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - key - "\"a\":\"\"}".len()));
        for (bytes, is_fit) in
            [(COMMAND_BYTES_MAX, true), (COMMAND_BYTES_MAX + 1, false), (3 * COMMAND_BYTES_MAX, false)]
        {
            let found = entries("x.jsonl", &[], &format!("{}\n{{}}", line(bytes)));
            assert_eq!(found[0].1 != too_long(), is_fit, "{bytes}");
            assert_eq!(found[0].1.len() == bytes, is_fit, "{bytes}");
            assert_eq!(found[1..], owned(&[(2, "{\"idempotency_key\":\"d-2\"}")]));
        }
        let open = format!("a\n\"{}\n{}\n", "x".repeat(COMMAND_BYTES_MAX / 2), "x".repeat(COMMAND_BYTES_MAX / 2));
        assert_eq!(entries("x.csv", &["--class", "C", "--event", "E"], &open)[0], (2, too_long()));
    }
}
