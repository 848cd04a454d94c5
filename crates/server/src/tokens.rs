//! Tokens: the secrets by which callers are known, kept as their digests in a file of the operator.
//!
//! # The file
//! One token a line: its SHA-256 digest in hexadecimal digits, the id of the caller that it stands for, and the
//! caller's roles, separated by commas; there may be none. What follows a `#` is a comment. Two tokens may stand for
//! one id, so that one can be replaced while the other is in use.
//! ```text
//! # digest                                                         id     roles
//! 8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92 alice  teller,auditor  # the new one
//! ```
//! A token has 256 random bits ([`Token`]), so a plain digest is as good as a slow one: there is nothing to guess.
//!
//! # What does not get out
//! Errors name the place and the rule, never what stands there: it may be a secret in the wrong column. A token is
//! compared by its digest, with all digests of the file and all bytes of each, so that the time tells nothing.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use enact_rebel::{Caller, CallerError};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Greatest size of a file of tokens, in bytes: about ten thousand of them.
pub const TOKENS_BYTES_MAX: usize = 1 << 20;
/// Most roles that one token may have. They are journaled with each event that it makes happen.
pub const TOKEN_ROLES_MAX: usize = 64;
/// Greatest length of the id of a caller, and of the name of a role, in bytes.
pub const CALLER_NAME_BYTES_MAX: usize = 128;

type Digest = [u8; 32];

/// A digest as it is compared: by words, in a tenth of the time that bytes take.
type Words = [u64; 4];

/// The tokens that a server takes, with the caller that each stands for. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    known: Arc<[(Words, Caller)]>,
}

/// A new token. It is told once, by its text form, and nothing keeps it.
pub struct Token([u8; 32]);

/// Why a file of tokens is not taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokensError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason of the operating system.
        source: io::Error,
    },
    /// It is a link, a directory or a device.
    #[error("{} is not a regular file; a file of tokens must be one, and no link to one", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Its group or others have rights on it.
    #[error("{} is open to other users (mode {mode:04o}): chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It has more than [`TOKENS_BYTES_MAX`] bytes.
    #[error("{} has more than {TOKENS_BYTES_MAX} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A line of it is malformed.
    #[error("{}:{line}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: TokenLineError,
    },
}

/// What is wrong with a line of a file of tokens, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenLineError {
    /// It does not begin with a digest.
    #[error("the first word is no SHA-256 digest in 64 hexadecimal digits; `enact token` prints the line")]
    Digest,
    /// The digest is that of an earlier line.
    #[error("the digest is that of line {first}: leave one of them out")]
    Repeated {
        /// The earlier line, counted from 1.
        first: usize,
    },
    /// There is no id.
    #[error("the id of the caller is missing behind the digest")]
    NoId,
    /// The id is none.
    #[error("the id of a caller is 1 to {CALLER_NAME_BYTES_MAX} letters, digits and characters of `._:-`")]
    Id,
    /// A role is none.
    #[error(
        "a role is a word of 1 to {CALLER_NAME_BYTES_MAX} letters, digits and `_` that begins with no digit, and \
         nothing but a comma stands between two"
    )]
    Role,
    /// There are more than [`TOKEN_ROLES_MAX`] roles.
    #[error("a caller has at most {TOKEN_ROLES_MAX} roles")]
    TooManyRoles,
    /// The id or a role is not for callers from outside.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// The line goes on behind the roles.
    #[error("there is more behind the roles: a line is a digest, an id and roles, which nothing but commas separate")]
    TooLong,
}

impl Tokens {
    /// The tokens in the file at `path`, which only its owner may have rights on.
    ///
    /// # Errors
    /// [`TokensError`].
    pub fn read(path: &Path) -> Result<Self, TokensError> {
        let at = || path.to_owned();
        let failed = |source| TokensError::Unreadable { path: at(), source };
        // A pipe would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(TokensError::NotAFile { path: at() }),
            Err(errno) => return Err(failed(errno.into())),
        };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(TokensError::NotAFile { path: at() });
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokensError::Exposed { path: at(), mode });
        }
        let mut text = Vec::new();
        file.take(TOKENS_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() > TOKENS_BYTES_MAX {
            return Err(TokensError::TooLarge { path: at() });
        }
        Self::parse(&text).map_err(|(line, problem)| TokensError::Malformed { path: at(), line, problem })
    }

    /// The tokens in the text of a file.
    ///
    /// # Errors
    /// The first line that is malformed, counted from 1.
    pub fn parse(text: &[u8]) -> Result<Self, (usize, TokenLineError)> {
        let mut known = Vec::new();
        let mut lines = HashMap::new();
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            let Some((digest, caller)) = parse_line(line).map_err(|problem| (number, problem))? else { continue };
            if let Some(first) = lines.insert(digest, number) {
                return Err((number, TokenLineError::Repeated { first }));
            }
            known.push((words(digest), caller));
        }
        Ok(Self { known: known.into() })
    }

    /// The caller that `token` stands for, if it stands for one.
    ///
    /// # Complexity
    /// O(n) in the number of tokens, whichever it is: about 5 ns for each.
    #[must_use]
    pub fn caller(&self, token: &[u8]) -> Option<&Caller> {
        let digest = words(digest(token));
        let mut found = None;
        for (known, caller) in &*self.known {
            if bool::from(known.as_slice().ct_eq(&digest)) {
                found = Some(caller);
            }
        }
        found
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("count", &self.known.len()).finish_non_exhaustive()
    }
}

impl Token {
    /// The token of these bytes, which must come from a random source that is fit for secrets.
    #[must_use]
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The line of a file of tokens that makes it stand for `caller`.
    ///
    /// ```
    /// use enact_server::{Token, Tokens, caller_from_outside};
    /// let (token, alice) = (Token::from_random([7; 32]), caller_from_outside("alice", ["teller"])?);
    /// let tokens = Tokens::parse(token.line(&alice).as_bytes()).unwrap();
    /// assert_eq!(tokens.caller(token.to_string().as_bytes()), Some(&alice));
    /// # Ok::<(), enact_server::TokenLineError>(())
    /// ```
    #[must_use]
    pub fn line(&self, caller: &Caller) -> String {
        let line = format!(
            "{} {} {}",
            hexadecimal(digest(self.to_string().as_bytes())),
            caller.id(),
            caller.roles().join(",")
        );
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The caller with this id and these roles, if they fit into a file of tokens.
///
/// # Errors
/// What is wrong with them.
pub fn caller_from_outside<'a>(id: &str, roles: impl IntoIterator<Item = &'a str>) -> Result<Caller, TokenLineError> {
    let is_name = |name: &str, is_in: fn(u8) -> bool| {
        (1..=CALLER_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_in)
    };
    if !is_name(id, |byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)) {
        return Err(TokenLineError::Id);
    }
    let roles: Vec<&str> = roles.into_iter().collect();
    let is_role = |role: &&str| {
        is_name(role, |byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !role.starts_with(|c: char| c.is_ascii_digit())
    };
    if !roles.iter().all(is_role) {
        return Err(TokenLineError::Role);
    }
    if roles.len() > TOKEN_ROLES_MAX {
        return Err(TokenLineError::TooManyRoles);
    }
    Ok(Caller::new(id, roles)?)
}

/// Nothing if the line is blank or a comment.
fn parse_line(line: &[u8]) -> Result<Option<(Digest, Caller)>, TokenLineError> {
    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return Ok(None) };
    let digest = digest_from(first).ok_or(TokenLineError::Digest)?;
    let id = words.next().ok_or(TokenLineError::NoId)?;
    let id = str::from_utf8(id).map_err(|_| TokenLineError::Id)?;
    let roles = words.next().map(str::from_utf8).transpose().map_err(|_| TokenLineError::Role)?;
    let caller = caller_from_outside(id, roles.into_iter().flat_map(|roles| roles.split(',')))?;
    if words.next().is_some() {
        return Err(TokenLineError::TooLong);
    }
    Ok(Some((digest, caller)))
}

fn digest(token: &[u8]) -> Digest {
    Sha256::digest(token).into()
}

fn words(digest: Digest) -> Words {
    let (words, _) = digest.as_chunks::<8>();
    std::array::from_fn(|word| u64::from_be_bytes(words[word]))
}

fn digest_from(word: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    let (pairs, rest) = word.as_chunks::<2>();
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(digest)
}

fn hexadecimal(bytes: [u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
