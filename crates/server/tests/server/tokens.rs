//! The file of tokens: what it may be, and what is said of one that is none.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use enact_server::{
    CALLER_NAME_BYTES_MAX, TOKEN_ROLES_MAX, TOKENS_BYTES_MAX, Token, TokenLineError, TokenRefusal, Tokens, TokensError,
    caller_from_outside,
};
use proptest::prelude::*;

/// A digest that could be one of a token.
const DIGEST: &str = "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92";

/// The callers of `tokens`, by the tokens that the test knows: `123456` is that of [`DIGEST`].
fn caller(tokens: &Tokens) -> Option<String> {
    tokens.caller(b"123456").ok().map(|caller| format!("{} {}", caller.id(), caller.roles().join(",")))
}

#[test]
fn a_line_is_a_digest_an_id_and_roles() {
    let upper = DIGEST.to_uppercase();
    let longest = "i".repeat(CALLER_NAME_BYTES_MAX);
    let rows = [
        (String::new(), None),
        ("\n \n\t\r\n# nothing\n  # nothing\n".to_owned(), None),
        (format!("# {DIGEST} alice"), None),
        (format!("{DIGEST} alice"), Some("alice ".to_owned())),
        (format!("{DIGEST} alice teller"), Some("alice teller".to_owned())),
        (format!("{DIGEST}\talice   b,a,b  # old\r\n"), Some("alice a,b".to_owned())),
        (format!("{upper} a.b_c:d-9 r_2"), Some("a.b_c:d-9 r_2".to_owned())),
        (format!("{DIGEST} {longest} {longest}"), Some(format!("{longest} {longest}"))),
        (format!("# caf\u{e9}\n{DIGEST} alice # caf\u{e9}"), Some("alice ".to_owned())),
    ];
    for (text, expected) in rows {
        let tokens = Tokens::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(caller(&tokens), expected, "{text}");
        assert_eq!(tokens.caller(b"1234567"), Err(TokenRefusal::Unknown));
        assert_eq!(tokens.caller(b""), Err(TokenRefusal::Unknown));
    }
}

#[test]
fn a_malformed_line_is_refused_with_its_number_and_without_its_content() {
    let too_long = "i".repeat(CALLER_NAME_BYTES_MAX + 1);
    let roles = |count| (0..count).map(|n| format!("r{n}")).collect::<Vec<_>>().join(",");
    let (most, too_many) = (roles(TOKEN_ROLES_MAX), roles(TOKEN_ROLES_MAX + 1));
    assert!(Tokens::parse(format!("{DIGEST} alice {most}").as_bytes()).is_ok());
    let rows = [
        ("secret alice".to_owned(), TokenLineError::Digest),
        ("alice teller".to_owned(), TokenLineError::Digest),
        (format!("{} alice", &DIGEST[1..]), TokenLineError::Digest),
        (format!("{DIGEST}0 alice"), TokenLineError::Digest),
        (format!("{DIGEST}00 alice"), TokenLineError::Digest),
        (format!("+{} alice", &DIGEST[1..]), TokenLineError::Digest),
        (format!("g{} alice", &DIGEST[1..]), TokenLineError::Digest),
        (format!("\u{feff}{DIGEST} alice"), TokenLineError::Digest),
        (DIGEST.to_owned(), TokenLineError::NoId),
        (format!("{DIGEST} # alice"), TokenLineError::NoId),
        (format!("{DIGEST} alice@example.com"), TokenLineError::Id),
        (format!("{DIGEST} \u{e9}"), TokenLineError::Id),
        (format!("{DIGEST} {too_long}"), TokenLineError::Id),
        (format!("{DIGEST} alice 1st"), TokenLineError::Role),
        (format!("{DIGEST} alice a,,b"), TokenLineError::Role),
        (format!("{DIGEST} alice a,"), TokenLineError::Role),
        (format!("{DIGEST} alice a-b"), TokenLineError::Role),
        (format!("{DIGEST} alice {too_long}"), TokenLineError::Role),
        (format!("{DIGEST} alice {too_many}"), TokenLineError::TooManyRoles),
        (format!("{DIGEST} alice a, b"), TokenLineError::Role),
        (format!("{DIGEST} alice a b"), TokenLineError::TooLong),
        (format!("{DIGEST} alice until=2027"), TokenLineError::Until),
        (format!("{DIGEST} alice a until="), TokenLineError::Until),
        (format!("{DIGEST} alice until=2027-01-01T00:00:00Z a"), TokenLineError::TooLong),
        (format!("{DIGEST} alice a until=2027-01-01T00:00:00Z until=2028-01-01T00:00:00Z"), TokenLineError::TooLong),
        (format!("{DIGEST} until=2027-01-01T00:00:00Z"), TokenLineError::Id),
        (format!("{DIGEST} system"), enact_rebel::CallerError::SystemId.into()),
        (format!("{DIGEST} alice a,system"), enact_rebel::CallerError::SystemRole.into()),
    ];
    for (line, expected) in rows {
        let refused = Tokens::parse(format!("# tokens\n\n{line}\n").as_bytes()).expect_err(&line);
        assert_eq!(refused, (3, expected), "{line}");
        let message = refused.1.to_string();
        assert!(!message.contains(DIGEST) && !message.contains("secret"), "{message}");
    }
    let twice = format!("{DIGEST} alice\n# and\n{} bob", DIGEST.to_uppercase());
    assert_eq!(Tokens::parse(twice.as_bytes()), Err((3, TokenLineError::Repeated { first: 1 })));
    let latin = [format!("{DIGEST} ").as_bytes(), b"caf\xe9"].concat();
    assert_eq!(Tokens::parse(&latin), Err((1, TokenLineError::Id)));
}

#[test]
fn a_token_stands_for_its_caller_until_its_time_is_over() {
    let alice = caller_from_outside("alice", ["teller"]).expect("a caller");
    let time = |text: &str| text.parse().expect("a time");
    for (until, known) in [
        (None, Ok(alice.clone())),
        (Some(time("9999-01-01T00:00:00Z")), Ok(alice.clone())),
        (Some(time("2020-01-01T00:00:00Z")), Err(TokenRefusal::Expired)),
        (Some(time("1970-01-01T00:00:00Z")), Err(TokenRefusal::Expired)),
    ] {
        let token = Token::from_random([9; 32]);
        let line = token.line(&alice, until);
        let tokens = Tokens::parse(format!("{line}  # a comment\n").as_bytes()).expect("well formed");
        assert_eq!(tokens.caller(token.to_string().as_bytes()), known, "{line}");
        let without_roles = token.line(&caller_from_outside("bob", []).expect("a caller"), until);
        let tokens = Tokens::parse(without_roles.as_bytes()).expect("well formed");
        assert_eq!(tokens.caller(token.to_string().as_bytes()).is_ok(), known.is_ok(), "{without_roles}");
    }
}

/// What a running server does is the same: its tokens are a clone.
#[test]
fn a_file_that_is_read_again_holds_at_once_and_one_that_cannot_be_taken_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tokens");
    let write = |text: &str| {
        fs::write(&path, text).expect("writable");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours");
    };
    let (first, second) = (Token::from_random([1; 32]), Token::from_random([2; 32]));
    let alice = caller_from_outside("alice", ["teller"]).expect("a caller");
    write(&first.line(&alice, None));
    let tokens = Tokens::read(&path).expect("well formed");
    let served = tokens.clone();
    let known = |token: &Token| served.caller(token.to_string().as_bytes()).is_ok();
    assert_eq!((known(&first), known(&second)), (true, false));
    assert!(!tokens.reload().expect("the same"), "nothing has changed");
    write(&format!("{}\n{}\n", first.line(&alice, None), second.line(&alice, None)));
    assert!(tokens.reload().expect("well formed"));
    assert_eq!((known(&first), known(&second)), (true, true), "both are valid while one replaces the other");
    write(&second.line(&alice, None));
    assert!(tokens.reload().expect("well formed"));
    assert_eq!((known(&first), known(&second)), (false, true), "the first is revoked");
    for text in ["alice", &format!("{}\nsecret", first.line(&alice, None))] {
        write(text);
        assert!(matches!(tokens.reload(), Err(TokensError::Malformed { .. })));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("ours");
    assert!(matches!(tokens.reload(), Err(TokensError::Exposed { .. })));
    fs::remove_file(&path).expect("there");
    assert!(matches!(tokens.reload(), Err(TokensError::Unreadable { .. })));
    assert_eq!((known(&first), known(&second)), (false, true), "nothing has changed");
    write("");
    assert!(tokens.reload().expect("nobody is known"));
    assert!(!known(&second));
}

#[test]
fn only_a_regular_file_of_its_owner_alone_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tokens");
    fs::write(&path, format!("{DIGEST} alice")).expect("writable");
    for (mode, is_taken) in [
        (0o600, true),
        (0o400, true),
        (0o700, true),
        (0o640, false),
        (0o604, false),
        (0o620, false),
        (0o602, false),
        (0o644, false),
        (0o666, false),
        (0o610, false),
        (0o601, false),
    ] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
        match Tokens::read(&path) {
            Ok(tokens) => assert!(is_taken && caller(&tokens).is_some(), "{mode:o}"),
            Err(error) => {
                assert!(
                    !is_taken && matches!(error, TokensError::Exposed { mode: found, .. } if found == mode),
                    "{error}"
                );
                assert!(error.to_string().ends_with(&format!("(mode {mode:04o}): chmod 600 {}", path.display())));
            }
        }
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours");

    let link = directory.path().join("link");
    symlink(&path, &link).expect("a link");
    for path in [link.as_path(), directory.path(), "/dev/null".as_ref()] {
        let refused = Tokens::read(path).expect_err("no file");
        assert!(matches!(refused, TokensError::NotAFile { .. }), "{}: {refused:?}", path.display());
    }
    let missing = Tokens::read(&directory.path().join("missing")).expect_err("nothing is there");
    assert!(matches!(missing, TokensError::Unreadable { .. }), "{missing:?}");

    for (bytes, is_taken) in [(TOKENS_BYTES_MAX, true), (TOKENS_BYTES_MAX + 1, false)] {
        fs::write(&path, vec![b'#'; bytes]).expect("writable");
        assert_eq!(Tokens::read(&path).is_ok(), is_taken, "{bytes}");
    }
}

#[test]
fn secrets_are_not_in_the_debug_form() {
    let token = Token::from_random([0xab; 32]);
    let line = token.line(&caller_from_outside("alice", []).expect("a caller"), None);
    let tokens = Tokens::parse(line.as_bytes()).expect("well formed");
    assert_eq!(format!("{token:?} {tokens:?}"), "Token Tokens { count: 1, .. }");
}

#[test]
fn the_example_of_the_manual_is_a_token_and_its_line() {
    let manual = include_str!("../../../../docs/operations/serve.md");
    let token = manual
        .lines()
        .map(str::trim)
        .find(|line| line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .expect("a token");
    let line = manual.lines().find(|line| line.ends_with(" alice teller")).expect("a line of the file");
    let tokens = Tokens::parse(line.as_bytes()).expect("well formed");
    assert_eq!(tokens.caller(token.as_bytes()), Ok(caller_from_outside("alice", ["teller"]).expect("a caller")));
}

proptest! {
    /// Parsing ends for all bytes, and what it takes has a digest at the begin of each line that says something.
    #[test]
    fn any_bytes_are_taken_or_refused(text in prop::collection::vec(any::<u8>(), 0..512)) {
        match Tokens::parse(&text) {
            Ok(_) => {
                for line in text.split(|&byte| byte == b'\n') {
                    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
                    prop_assert!(line.is_empty() || line.len() > 64 && line[..64].iter().all(u8::is_ascii_hexdigit));
                }
            }
            Err((line, _)) => prop_assert!((1..=text.split(|&byte| byte == b'\n').count()).contains(&line)),
        }
    }

    /// The same of what is nearly a file of tokens.
    #[test]
    fn a_damaged_file_is_taken_or_refused(
        seeds in prop::collection::vec(any::<[u8; 32]>(), 1..4),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let alice = caller_from_outside("alice", ["teller", "auditor"]).expect("a caller");
        let tokens: Vec<Token> = seeds.into_iter().map(Token::from_random).collect();
        let mut text = tokens.iter().map(|token| token.line(&alice, None)).collect::<Vec<_>>().join("\n").into_bytes();
        if let Ok(read) = Tokens::parse(&text) {
            prop_assert!(tokens.iter().all(|token| read.caller(token.to_string().as_bytes()).as_ref() == Ok(&alice)));
        }
        let at = at.index(text.len());
        text[at] = byte;
        if let Err((line, problem)) = Tokens::parse(&text) {
            prop_assert!((1..=tokens.len() + 1).contains(&line));
            let message = problem.to_string();
            let text = String::from_utf8_lossy(&text).into_owned();
            prop_assert!(text.split_whitespace().all(|word| word.len() < 9 || !message.contains(word)), "{}", message);
        }
    }

    /// What `caller_from_outside` takes can stand in a file, and comes back from it.
    #[test]
    fn a_caller_comes_back_from_its_line(
        id in "\\PC{0,6}|[a-z.:_-]{1,6}",
        roles in prop::collection::vec("\\PC{0,3}|[a-z_]{1,4}", 0..3),
    ) {
        if let Ok(caller) = caller_from_outside(&id, roles.iter().map(String::as_str)) {
            let token = Token::from_random([5; 32]);
            let tokens = Tokens::parse(token.line(&caller, None).as_bytes()).expect("a line of ours");
            prop_assert_eq!(tokens.caller(token.to_string().as_bytes()), Ok(caller));
        }
    }
}
