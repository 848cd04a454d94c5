//! Tokens and certificates: by what callers are known, from a file of the operator that has no secrets, only their digests.
//!
//! # The file
//! One token or certificate a line: the SHA-256 digest of the token in hexadecimal digits, or a
//! [name](CertificateName) of the certificate; the id of the caller that it stands for; and the
//! caller's roles, separated by commas; there may be none. A line may end with the time from which on it stands for
//! nobody. What follows a `#` is a comment. Two lines may stand for one id, so that one can be replaced while the other is in use.
//! ```text
//! # digest or name                                                 id     roles
//! 8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92 alice  teller,auditor until=2027-01-01T00:00:00Z  # the new one
//! uri:spiffe://bank/till                                           till   teller
//! ```
//!
//! # Changes
//! The file is read again now and then ([`Tokens::keep_current`]), and what it says holds for every request that comes afterwards. A file
//! that cannot be taken changes nothing: what was known stays so, and the log says why.
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
use std::time::SystemTime;

use enact_rebel::{Caller, CallerError, Timestamp};
use parking_lot::RwLock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use tokio::sync::Notify;
use tracing::{error, info};

use crate::certificate::{CertificateName, CertificateNameError, ClientCertificate};
use crate::digest::{Digest, digest_from, hexadecimal};
use crate::reloading::reloading;

/// Greatest size of a file of tokens, in bytes: about ten thousand of them.
pub const TOKENS_BYTES_MAX: usize = 1 << 20;
/// Most roles that one token may have. They are journaled with each event that it makes happen.
pub const TOKEN_ROLES_MAX: usize = 64;
/// Greatest length of the id of a caller, and of the name of a role, in bytes.
pub const CALLER_NAME_BYTES_MAX: usize = 128;

/// A digest as it is compared: by words, in a tenth of the time that bytes take.
type Words = [u64; 4];

/// How the last word of a line begins that says until when its token is valid.
const UNTIL: &[u8] = b"until=";

/// The tokens and certificates that a server takes, with the caller that each stands for. Cheap to clone; clones change together.
#[derive(Clone)]
pub struct Tokens {
    /// Where they were read from, if they were.
    path: Option<Arc<Path>>,
    known: Arc<RwLock<Arc<[Known]>>>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    proof: Proof,
    caller: Caller,
    /// From when on it is not valid any more.
    until: Option<Timestamp>,
}

/// What proves that a request is of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Proof {
    /// The digest of a token.
    Token(Words),
    Certificate(CertificateName),
}

/// Why a token or a certificate stands for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// It is none of the server's.
    #[error("none of this server")]
    Unknown,
    /// It was one until its time was over.
    #[error("not valid any more")]
    Expired,
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
    /// It begins with a name of a certificate that can be none.
    #[error(transparent)]
    Certificate(#[from] CertificateNameError),
    /// The digest or name is that of an earlier line.
    #[error("the first word is that of line {first}: leave one of them out")]
    Repeated {
        /// The earlier line, counted from 1.
        first: usize,
    },
    /// There is no id.
    #[error("the id of the caller is missing behind the first word")]
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
    /// The time until when the line is valid is none.
    #[error("until= is followed by a time such as 2027-01-01T00:00:00Z")]
    Until,
    /// The line goes on where it must end.
    #[error(
        "there is more than belongs into a line: a digest or a name of a certificate, an id, roles, which nothing but commas separate, and until=TIME"
    )]
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
        let tokens = Self::parse(&text);
        let tokens = tokens.map_err(|(line, problem)| TokensError::Malformed { path: at(), line, problem })?;
        Ok(Self { path: Some(path.into()), ..tokens })
    }

    /// Reads the file again. Returns whether it says something else. Without a file, it never does.
    ///
    /// # Errors
    /// [`TokensError`]; what was known stays so.
    ///
    /// # Blocking
    /// Reads a small file.
    pub fn reload(&self) -> Result<bool, TokensError> {
        let Some(path) = &self.path else { return Ok(false) };
        let read = Arc::clone(&Self::read(path)?.known.read());
        let mut known = self.known.write();
        let has_changed = *known != read;
        *known = read;
        Ok(has_changed)
    }

    /// Reads the file again every [`FILES_CHECK_EVERY`](crate::FILES_CHECK_EVERY), and whenever `asked` is notified, for as long as it is
    /// polled. Logs what comes of it.
    ///
    /// # Cancel safety
    /// Dropping the future ends it.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub async fn keep_current(&self, asked: &Notify) {
        reloading(asked, |is_asked| match self.reload() {
            Ok(true) => info!(count = self.known.read().len(), "callers are known by other tokens or certificates"),
            Ok(false) if is_asked => info!("the tokens are the same"),
            Ok(false) => {}
            Err(error) => error!(error = &error as &dyn std::error::Error, "the tokens stay as they were"),
        })
        .await;
    }

    /// The tokens in the text of a file.
    ///
    /// # Errors
    /// The first line that is malformed, counted from 1.
    pub fn parse(text: &[u8]) -> Result<Self, (usize, TokenLineError)> {
        let mut known = Vec::new();
        let mut lines = HashMap::new();
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            let Some(token) = parse_line(line).map_err(|problem| (number, problem))? else { continue };
            if let Some(first) = lines.insert(token.proof.clone(), number) {
                return Err((number, TokenLineError::Repeated { first }));
            }
            known.push(token);
        }
        Ok(Self { path: None, known: Arc::new(RwLock::new(known.into())) })
    }

    /// The caller that `token` stands for at this time of the machine's clock.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    ///
    /// # Complexity
    /// O(n) in the number of tokens, whichever it is: about 5 ns for each.
    pub fn caller(&self, token: &[u8]) -> Result<Caller, TokenRefusal> {
        let digest = words(digest(token));
        let all = Arc::clone(&self.known.read());
        let mut found = None;
        for known in &*all {
            if let Proof::Token(known_digest) = &known.proof
                && bool::from(known_digest.as_slice().ct_eq(&digest))
            {
                found = Some(known);
            }
        }
        found.ok_or(TokenRefusal::Unknown)?.caller_now()
    }

    /// The caller that `certificate`, whose client has proved to have its key, stands for at this time of the machine's clock: that of
    /// the first line that has one of its names.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    ///
    /// # Complexity
    /// O(n) in the number of lines.
    pub fn caller_with(&self, certificate: &ClientCertificate) -> Result<Caller, TokenRefusal> {
        let all = Arc::clone(&self.known.read());
        let is_of = |known: &&Known| match &known.proof {
            Proof::Token(_) => false,
            Proof::Certificate(name) => certificate.names().contains(name),
        };
        all.iter().find(is_of).ok_or(TokenRefusal::Unknown)?.caller_now()
    }
}

impl Known {
    fn caller_now(&self) -> Result<Caller, TokenRefusal> {
        let is_over = self.until.is_some_and(|until| until <= now());
        if is_over { Err(TokenRefusal::Expired) } else { Ok(self.caller.clone()) }
    }
}

impl PartialEq for Tokens {
    fn eq(&self, other: &Self) -> bool {
        // One at a time, as both may be the same.
        let own = Arc::clone(&self.known.read());
        own == *other.known.read()
    }
}

impl Eq for Tokens {}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("count", &self.known.read().len()).finish_non_exhaustive()
    }
}

impl Token {
    /// The token of these bytes, which must come from a random source that is fit for secrets.
    #[must_use]
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The line of a file of tokens that makes it stand for `caller`, for ever or until that time.
    ///
    /// ```
    /// use enact_server::{Token, Tokens, caller_from_outside};
    /// let (token, alice) = (Token::from_random([7; 32]), caller_from_outside("alice", ["teller"])?);
    /// let tokens = Tokens::parse(token.line(&alice, None).as_bytes()).unwrap();
    /// assert_eq!(tokens.caller(token.to_string().as_bytes()), Ok(alice));
    /// # Ok::<(), enact_server::TokenLineError>(())
    /// ```
    #[must_use]
    pub fn line(&self, caller: &Caller, until: Option<Timestamp>) -> String {
        line(hexadecimal(&digest(self.to_string().as_bytes())), caller, until)
    }
}

impl CertificateName {
    /// The line of a file of tokens that makes a certificate of this name stand for `caller`, for ever or until that time.
    #[must_use]
    pub fn line(&self, caller: &Caller, until: Option<Timestamp>) -> String {
        line(self.to_string(), caller, until)
    }
}

fn line(first: String, caller: &Caller, until: Option<Timestamp>) -> String {
    let until = until.map(|until| format!("until={until}")).unwrap_or_default();
    let words = [first, caller.id().to_string(), caller.roles().join(","), until];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
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
    if !is_name(id, |byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)) {
        return Err(TokenLineError::Id);
    }
    let roles: Vec<&str> = roles.into_iter().collect();
    if !roles.iter().all(|role| is_role(role)) {
        return Err(TokenLineError::Role);
    }
    if roles.len() > TOKEN_ROLES_MAX {
        return Err(TokenLineError::TooManyRoles);
    }
    Ok(Caller::new(id, roles)?)
}

fn is_name(name: &str, is_in: fn(u8) -> bool) -> bool {
    (1..=CALLER_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_in)
}

/// Whether a specification could name it as a role.
pub(crate) fn is_role(name: &str) -> bool {
    is_name(name, |byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Nothing if the line is blank or a comment.
fn parse_line(line: &[u8]) -> Result<Option<Known>, TokenLineError> {
    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mut rest = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
    let Some(first) = rest.next() else { return Ok(None) };
    let proof = proof(first)?;
    let id = rest.next().ok_or(TokenLineError::NoId)?;
    let id = str::from_utf8(id).map_err(|_| TokenLineError::Id)?;
    let roles = rest.next_if(|word| !word.starts_with(UNTIL));
    let roles = roles.map(str::from_utf8).transpose().map_err(|_| TokenLineError::Role)?;
    let caller = caller_from_outside(id, roles.into_iter().flat_map(|roles| roles.split(',')))?;
    let until = rest.next_if(|word| word.starts_with(UNTIL)).map(|word| time(&word[UNTIL.len()..])).transpose()?;
    if rest.next().is_some() {
        return Err(TokenLineError::TooLong);
    }
    Ok(Some(Known { proof, caller, until }))
}

/// A token by its digest, or a certificate by its name.
fn proof(word: &[u8]) -> Result<Proof, TokenLineError> {
    match str::from_utf8(word) {
        Ok(name) if CertificateName::KINDS.iter().any(|kind| name.starts_with(kind)) => {
            Ok(Proof::Certificate(name.parse()?))
        }
        _ => digest_from(word).map(words).map(Proof::Token).ok_or(TokenLineError::Digest),
    }
}

fn time(text: &[u8]) -> Result<Timestamp, TokenLineError> {
    str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(TokenLineError::Until)
}

fn digest(token: &[u8]) -> Digest {
    Sha256::digest(token).into()
}

fn words(digest: Digest) -> Words {
    let (words, _) = digest.as_chunks::<8>();
    std::array::from_fn(|word| u64::from_be_bytes(words[word]))
}
