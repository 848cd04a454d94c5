//! `enact check`.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::served::{enact, program};

const FINE: &str = "class Lamp\n  initial off\n    on Light(): lit\n  lit\n    on Dim(): lit\n";
const UNUSED: &str = "const spare: Integer = 1\n";
const WRONG: &str = "class Lamp\n  lumen: Integre\n  initial off\n    on Light(): lit\n";

/// Arguments, exit status, parts of standard output, parts of standard error.
type Row<'a> = (&'a [&'a str], i32, &'a [&'a str], &'a [&'a str]);

#[test]
fn the_exit_status_says_whether_the_specification_is_sound() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let file = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, content).expect("writable");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (fine, unused) = (file("fine.rebel", FINE.as_bytes()), file("unused.rebel", UNUSED.as_bytes()));
    let (wrong, binary) = (file("wrong.rebel", WRONG.as_bytes()), file("binary.rebel", b"class \xff\xfe"));
    let nothing = file("nothing.rebel", b"");
    let marked = file("marked.rebel", format!("\u{feff}{FINE}").as_bytes());
    let long = file("long.rebel", &vec![b' '; (16 << 20) + 1]);
    let missing = directory.path().join("missing.rebel").to_str().expect("UTF-8").to_owned();
    let [folder, empty] = ["folder", "empty"].map(|name| {
        let path = directory.path().join(name);
        fs::create_dir(&path).expect("a directory for the test");
        path.to_str().expect("UTF-8").to_owned()
    });
    for (name, content) in [("a.rebel", FINE), ("b.rebel", UNUSED), ("notes.txt", WRONG)] {
        file(&format!("folder/{name}"), content.as_bytes());
    }

    #[rustfmt::skip]
    let rows: &[Row] = &[
        // arguments             status  on standard output                    on standard error
        (&[&fine],                  0,  &["no errors: 1 class, 2 events"],    &[]),
        (&[&fine, &unused],         0,  &["no errors: 1 class", "1 warning"], &["W002", "unused.rebel:1:7"]),
        (&[&wrong],                 1,  &[],    &["E102", "wrong.rebel:2:10", "did you mean `Integer`?", "E104", "error: the specification has 2 errors"]),
        (&[&fine, &fine],           1,  &[],    &["E101", "error: the specification has 1 error\n"]),
        (&[&long],                  1,  &[],    &["E003"]),
        (&[&missing],               2,  &[],    &["error: cannot read", "missing.rebel", "No such file"]),
        (&[&fine, &missing],        2,  &[],    &["missing.rebel"]),
        (&[&binary],                2,  &[],    &["error: cannot read", "binary.rebel", "UTF-8"]),
        (&[&empty],                 2,  &[],    &["error: ", "no files that end in `.rebel`"]),
        (&[&nothing],               2,  &[],    &["error: ", "nothing.rebel:1:1: the specification declares no class"]),
        (&[&unused],                2,  &[],    &["W002", "unused.rebel:1:1: the specification declares no class"]),
        (&[&folder],                0,  &["no errors: 1 class", "1 warning"], &["W002", "b.rebel:1:7"]),
        (&[&folder, "--deny-warnings"], 1, &[], &["W002", "error: the specification has 1 warning, and none is allowed"]),
        (&[&marked],                    0, &["no errors: 1 class"], &[]),
        (&[&fine, "--deny-warnings"],   0, &["no errors: 1 class"], &[]),
        (&[],                       2,  &[],    &["FILE"]),
        (&[&fine, "--colour"],      2,  &[],    &["--colour"]),
    ];
    for (arguments, status, out, err) in rows {
        let ended = enact(&[&["check"], *arguments].concat());
        let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert_eq!(ended.status.code(), Some(*status), "{arguments:?}\n{stdout}\n{stderr}");
        assert!(out.iter().all(|part| stdout.contains(part)), "{arguments:?}: {out:?} in\n{stdout}");
        assert!(err.iter().all(|part| stderr.contains(part)), "{arguments:?}: {err:?} in\n{stderr}");
        assert!(!stderr.contains('\x1b'), "no colours where nobody looks");
        if *status != 0 {
            assert!(stdout.is_empty(), "{arguments:?}: {stdout}");
        }
    }
}

#[test]
fn findings_are_printed_as_json_for_other_programs() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let path = directory.path().join("wrong.rebel");
    fs::write(&path, WRONG).expect("writable");
    let file = path.to_str().expect("UTF-8");
    let ended = enact(&["check", "--json", file]);
    assert_eq!(ended.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let finding = &document["findings"][0];
    assert_eq!((&finding["code"], &finding["severity"]), (&"E102".into(), &"error".into()));
    let place = serde_json::json!({
        "file": file,
        "begin": { "offset": 20, "line": 2, "column": 10 },
        "end": { "offset": 27, "line": 2, "column": 17 },
    });
    for (key, value) in place.as_object().expect("an object") {
        assert_eq!(&finding["labels"][0][key], value, "{finding}");
        assert_eq!(&finding["edit"][key], value, "{finding}");
    }
    assert_eq!(finding["edit"]["text"], "Integer");
    assert_eq!(document["omitted"], 0);

    fs::write(&path, FINE).expect("writable");
    let ended = enact(&["check", "--json", file]);
    assert_eq!((ended.status.code(), ended.stdout), (Some(0), b"{\"findings\":[],\"omitted\":0}\n".to_vec()));
}

#[test]
fn a_specification_comes_from_standard_input() {
    for (text, status, said) in [(FINE, 0, "no errors: 1 class"), (WRONG, 1, "standard input:2:10")] {
        let mut check = program();
        check.args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut checking = check.spawn().expect("the program starts");
        checking.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
        let ended = checking.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(status));
        assert!(String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).contains(said));
    }
}

#[test]
fn help_tells_the_exit_statuses() {
    for arguments in [&["--help"][..], &["help"]] {
        let ended = enact(arguments);
        let text = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(0));
        for status in 0..=6 {
            assert!(text.contains(&format!("\n  {status}  ")), "{text}");
        }
    }
}

#[test]
fn a_single_file_finds_the_modules_that_it_imports_beside_it_and_nowhere_else() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let path = |name: &str| directory.path().join(name);
    fs::create_dir_all(path("shop/deeper")).expect("a directory for the test");
    let module = |name: &str, text: &str| fs::write(path(name), text).expect("writable");
    let lamp = |module: &str, import: &str| {
        format!("module {module}\n{import}{}", FINE.replace("Lamp", &module.to_uppercase()))
    };
    module(
        "shop/a.rebel",
        "module a\nimport b.c: B\nclass A\n  other: B\n  initial none\n    on Make(with: B): made\n      post: this.other = with\n  made\n",
    );
    module(
        "shop/other.rebel",
        "module b.c\nimport d: D\nclass B\n  other: D\n  initial none\n    on Make(with: D): made\n      post: this.other = with\n  made\n",
    );
    module("shop/d.rebel", &lamp("d", ""));
    // Neither is asked for.
    module("shop/e.rebel", &lamp("e", "import nothing\n"));
    module("shop/plain.rebel", FINE);
    module("shop/binary.rebel", "\u{0}");
    module("e.rebel", &lamp("outside", ""));
    module("shop/deeper/f.rebel", &lamp("f", ""));
    std::os::unix::fs::symlink(path("e.rebel"), path("shop/link.rebel")).expect("a link for the test");
    module("shop/links.rebel", "module links\nimport outside\nimport f\nclass L\n  initial none\n");

    let check = |files: &[&str]| {
        let files: Vec<String> = files.iter().map(|file| path(file).to_str().expect("UTF-8").to_owned()).collect();
        let ended = enact(&std::iter::once("check").chain(files.iter().map(String::as_str)).collect::<Vec<_>>());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ended.status.code(), text(&ended.stdout) + &text(&ended.stderr))
    };
    let (status, said) = check(&["shop/a.rebel"]);
    assert!(status == Some(0) && said.contains("no errors: 3 classes, 4 events, 0 warnings"), "{said}");
    // Of several files each is named.
    let (status, said) = check(&["shop/a.rebel", "shop/other.rebel"]);
    assert!(status == Some(1) && said.contains("there is no module `d`"), "{said}");
    let (status, said) = check(&["shop/links.rebel"]);
    assert!(status == Some(1) && said.contains("no module `outside`") && said.contains("no module `f`"), "{said}");
    module("shop/twice.rebel", &lamp("d", ""));
    let (status, said) = check(&["shop/a.rebel"]);
    assert!(status == Some(1) && said.contains("two files are the module `d`"), "{said}");
}

#[test]
fn a_footprint_is_printed_as_the_reference_shows_it() {
    const COMMAND: &str = "$ enact check --footprint examples/bank.rebel\n";
    let page = include_str!("../../../../docs/rebel.md");
    let (_, shown) = page.split_once(COMMAND).expect("the page shows a footprint");
    let (shown, _) = shown.split_once("```").expect("it ends");
    let mut check = program();
    check.args(["check", "--footprint", "examples/bank.rebel"]).current_dir("../..");
    let ended = check.output().expect("it runs");
    let printed = String::from_utf8(ended.stdout).expect("UTF-8");
    assert_eq!(ended.status.code(), Some(0));
    assert!(printed.contains(&format!("\n\n{shown}\n")), "{printed}");
    assert!(printed.ends_with("\nno errors: 4 classes, 19 events, 0 warnings\n"), "{printed}");
    assert_eq!(printed.matches("because of line").count(), 19, "a table for each event");
    assert!(!printed.contains('\x1b') && ended.stderr.is_empty());
}

#[test]
fn a_scaling_report_is_printed_as_the_reference_shows_it() {
    const COMMAND: &str = "$ enact check --scaling examples/bank.rebel\n";
    let page = include_str!("../../../../docs/rebel.md");
    let (_, shown) = page.split_once(COMMAND).expect("the page shows a report");
    let (shown, _) = shown.split_once("```").expect("it ends");
    let mut check = program();
    check.args(["check", "--scaling", "examples/bank.rebel"]).current_dir("../..");
    let ended = check.output().expect("it runs");
    let printed = String::from_utf8(ended.stdout).expect("UTF-8");
    assert_eq!(ended.status.code(), Some(0));
    assert!(printed.contains(&format!("\n\n{shown}\n")), "{printed}");
    let account = "
  2 Deposit        - + + t l t l l l
  3 CollectFee     - + + t l t l l l
  4 Withdraw       - + + t l t l l -
";
    assert!(printed.contains(account), "{printed}");
    let waits = "
    t  compares balance (44), added to by Deposit (35), CollectFee (39), Withdraw (45)
";
    assert!(printed.contains(waits), "{printed}");
    assert!(printed.contains("\ndo not scale: Account.Interest, Account.LimitOverdraft\n"), "{printed}");
    assert!(printed.ends_with("\nno errors: 4 classes, 19 events, 0 warnings\n"), "{printed}");
    assert!(!printed.contains('\x1b') && ended.stderr.is_empty());
}

#[test]
fn a_scaling_report_fits_a_terminal_of_a_hundred_columns() {
    let mut files: Vec<_> =
        fs::read_dir("../../examples").expect("examples").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    for file in files {
        let mut check = program();
        let ended = check.args(["check", "--scaling"]).arg(&file).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(0), "{file:?}");
        let printed = String::from_utf8(ended.stdout).expect("UTF-8");
        // The one line without a limit names the class and its file.
        let is_wide = |line: &&str| line.chars().count() > 100 && !line.contains("are decided without");
        let wide: Vec<&str> = printed.lines().filter(is_wide).collect();
        assert!(wide.is_empty(), "{file:?}: {wide:#?}");
    }
}

#[test]
fn a_scaling_report_is_a_document_for_programs() {
    let ended = enact(&["check", "--scaling", "--json", "../../examples/bank.rebel"]);
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!((ended.status.code(), &document["omitted"]), (Some(0), &0.into()));
    assert!(document.get("footprints").is_none());
    let account = &document["scaling"][0];
    assert_eq!((&account["class"], &account["timer"]), (&"Account".into(), &serde_json::Value::Null));
    let pairs = account["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 81);
    let pair = |open: &str, incoming: &str| {
        pairs.iter().find(|pair| pair["open"] == *open && pair["incoming"] == *incoming).expect("the pair")
    };
    let waits = pair("Deposit", "Withdraw");
    let reason = &waits["reasons"][0];
    let line = |side: &str| reason[side]["because"]["begin"]["line"].clone();
    assert_eq!((&waits["concurrency"], &reason["place"]), (&"while-far".into(), &"balance".into()));
    assert_eq!((&reason["open"]["does"], line("open")), (&"adds".into(), 35.into()));
    assert_eq!((&reason["incoming"]["does"], line("incoming")), (&"compares".into(), 44.into()));
    assert_eq!(pair("Deposit", "Deposit")["concurrency"], "together");
    assert_eq!(pair("Deposit", "Open")["concurrency"], "never");
    let interest = pair("Interest", "Interest");
    assert_eq!(interest["concurrency"], "in-line");
    assert_eq!(interest["reasons"][0]["equalTogether"], true);
    assert!(interest["reasons"][0]["help"][0].as_str().expect("a help").contains("this.f += e"));
    let event = account["events"].as_array().expect("events").iter().find(|event| event["event"] == "Interest");
    let event = event.expect("the event");
    assert_eq!((&event["known"], &event["scales"]), (&"conservative".into(), &false.into()));
    assert_eq!(
        (&event["because"]["begin"]["line"], &event["because"]["text"]),
        (&49.into(), &"an effect that is no sum".into())
    );
}

const SAFE: &str = "module safe\nabstract class Safe\n  gold: Integer = 0\n  invariant gold >= 0\n  initial none_\n    on Build(): built\n  built\n";
const VAULT: &str = "module vault\nimport safe: Safe\nclass Vault extends Safe\n  built\n    on Take(pieces: Integer)\n      post: this.gold -= pieces\n    on Rob(other: Vault)\n      sync: other.Take(1)\n";

#[test]
fn a_footprint_names_the_files_of_lines_that_stand_elsewhere() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let path = directory.path().join("vault.rebel");
    fs::write(directory.path().join("safe.rebel"), SAFE).expect("writable");
    fs::write(&path, VAULT).expect("writable");
    let (vault, safe) = (path.to_str().expect("UTF-8"), directory.path().join("safe.rebel"));
    let ended = enact(&["check", "--footprint", vault]);
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let table = format!(
        "Vault.Take(pieces), {vault}:5
  instance  place      mode  because of line
  this      its state  Read  5
  this      gold       Test  {}:4
  this      gold       Add   6
",
        safe.display()
    );
    assert!(printed.contains(&table), "{printed}");

    let ended = enact(&["check", "--footprint", "--json", vault]);
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let footprints = document["footprints"].as_array().expect("an array");
    let events: Vec<_> = footprints.iter().map(|footprint| footprint["event"].as_str().expect("a name")).collect();
    assert_eq!(events, ["Build", "Take", "Rob"]);
    let tested = &footprints[2]["touches"][3];
    let what = ["class", "instance", "place", "mode"].map(|key| tested[key].as_str().expect("a text"));
    assert_eq!(what, ["Vault", "other", "gold", "Test"], "{}", footprints[2]);
    assert_eq!((&tested["because"][0]["file"], &tested["because"][0]["begin"]["line"]), (&vault.into(), &8.into()));
    assert_eq!((&footprints[2]["complete"], &document["omitted"]), (&true.into(), &0.into()));
}

#[test]
fn a_reader_of_footprints_may_stop_to_read() {
    let bank = "../../examples/bank.rebel";
    let mut check = program();
    check.args(["check", "--footprint", bank]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut checking = check.spawn().expect("the program starts");
    drop(checking.stdout.take());
    let ended = checking.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}
