//! The tutorial, line by line, as its reader would type it.
//!
//! A block whose first line names a file is written to it. A `console` block holds commands behind `$ ` and what each
//! prints; `ENACT_UPDATE=1` writes down what they print now. `enact serve` runs until the next one, on a port of the test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::served::{FREE_PORT, Served, program};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/tutorial.md");
const PAGE_HOST: &str = "127.0.0.1:8080";

/// Where the reader works.
struct Reader {
    directory: TempDir,
    served: Option<Served>,
}

impl Reader {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let tools = directory.path().join(".tools");
        fs::create_dir(&tools).expect("a directory");
        symlink(program().get_program(), tools.join("enact")).expect("a link");
        // To a terminal curl prints no progress.
        fs::write(tools.join(".curlrc"), "no-progress-meter\n").expect("writable");
        fs::create_dir(directory.path().join("shop")).expect("a directory");
        Self { directory, served: None }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join("shop").join(name), text).expect("writable");
    }

    /// What `command` prints.
    fn run(&mut self, command: &str) -> String {
        if let Some(arguments) = command.strip_prefix("enact serve ") {
            return self.serve(arguments);
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let command = match &self.served {
            Some(served) => command.replace(PAGE_HOST, &served.address().to_string()),
            None => command.to_owned(),
        };
        let mut child = self
            .in_shop(Command::new("bash"))
            .arg("-c")
            .arg(&command)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().expect("a pipe"))
            .stderr(writer)
            .spawn()
            .expect("bash starts");
        let printed = std::io::read_to_string(reader).expect("it prints UTF-8");
        child.wait().expect("it ends");
        printed
    }

    fn serve(&mut self, arguments: &str) -> String {
        if let Some(served) = self.served.take() {
            served.signal(Signal::INT);
            assert_eq!(served.ended().0.code(), Some(0), "Ctrl-C ends the service");
        }
        let mut command = self.in_shop(program());
        command.arg("serve").args(arguments.split(' ')).args(["--listen", FREE_PORT]);
        self.served = Some(Served::start(command));
        format!("listening on http://{PAGE_HOST}\n")
    }

    fn in_shop(&self, mut command: Command) -> Command {
        let tools = self.directory.path().join(".tools");
        let path = std::env::var("PATH").expect("the environment has a path");
        command.current_dir(self.directory.path().join("shop"));
        command.env("PATH", format!("{}:{path}", tools.display())).env("CURL_HOME", &tools);
        command
    }
}

/// The page, with what its commands print now.
fn follow(page: &str) -> String {
    let mut reader = Reader::new();
    let mut followed = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        followed += &format!("{line}\n");
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if kind == "console" {
            for command in block.iter().filter_map(|line| line.strip_prefix("$ ")) {
                followed += &format!("$ {command}\n{}", in_lines(&reader.run(command)));
            }
        } else {
            let text: String = block.iter().map(|line| format!("{line}\n")).collect();
            followed += &text;
            if let Some((_, name)) = kind.split_once(' ') {
                reader.write(name, &text);
            }
        }
        followed += "```\n";
    }
    followed
}

/// What was printed without blanks at the ends of lines, the last line ended too.
fn in_lines(printed: &str) -> String {
    printed.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The page with every id of a transaction and of a request, which differ from run to run, replaced.
fn without_ids(page: &str) -> String {
    ["\"transaction\":\"", "\"request_id\":\""].iter().fold(page.to_owned(), |page, before| {
        let parts: Vec<&str> = page.split(before).collect();
        let rest = |part: &&str| part.split_once('"').map_or("", |(_id, rest)| rest).to_owned();
        let others: Vec<String> = parts[1..].iter().map(rest).collect();
        [&[parts[0].to_owned()], others.as_slice()].concat().join(before)
    })
}

#[test]
fn every_line_of_the_tutorial_does_what_it_says() {
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let followed = follow(&page);
    if std::env::var_os("ENACT_UPDATE").is_some() {
        return fs::write(Path::new(PAGE), followed).expect("writable");
    }
    for (number, (said, found)) in without_ids(&page).lines().zip(without_ids(&followed).lines()).enumerate() {
        assert_eq!(found, said, "line {}", number + 1);
    }
    assert_eq!(followed.lines().count(), page.lines().count());
}
