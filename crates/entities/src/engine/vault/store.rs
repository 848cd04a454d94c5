//! Where the keys of subjects are kept.

use std::pin::Pin;
use std::sync::Arc;

use enact_journal::{Sealed, SubjectKeys, SubjectKeysError};
use tokio::task::spawn_blocking;

use super::finished;

/// What comes of a call on a [`KeyStore`].
pub type Keeping<'a, T> = Pin<Box<dyn Future<Output = Result<T, SubjectKeysError>> + Send + 'a>>;

/// Keys of data subjects, one at a time for each: what a [`Vault`](super::Vault) seals and opens with.
///
/// [`SubjectKeys`] is one of a single process.
pub trait KeyStore: Send + Sync + 'static {
    /// Seals `clear` with the present key of `subject`, which gets one if it has none. No key that was destroyed when this began seals
    /// anything, and the one that does is durable.
    ///
    /// # Cancel safety
    /// The subject may have got a key if the future is dropped.
    fn seal<'a>(&'a self, subject: &'a str, clear: &'a [u8]) -> Keeping<'a, Sealed>;

    /// What was sealed for `subject` with its key of `generation`; nothing if that key was destroyed.
    ///
    /// # Errors
    /// [`Unknown`](SubjectKeysError::Unknown) when the subject has never had that key,
    /// [`Tampered`](SubjectKeysError::Tampered) when `sealed` is not what was sealed with it.
    fn unseal<'a>(&'a self, subject: &'a str, generation: u32, sealed: &'a [u8]) -> Keeping<'a, Option<Vec<u8>>>;

    /// The generation of the key that `subject` has, if it has one.
    fn generation<'a>(&'a self, subject: &'a str) -> Keeping<'a, Option<u32>>;

    /// Destroys the keys of `subject` up to and including `generation`; they are gone for good when this returns. Returns whether there was
    /// one.
    ///
    /// # Errors
    /// When the key may still be there: the call is to be repeated.
    ///
    /// # Cancel safety
    /// The keys may be destroyed if the future is dropped.
    fn destroy<'a>(&'a self, subject: &'a str, generation: u32) -> Keeping<'a, bool>;
}

impl KeyStore for Arc<SubjectKeys> {
    fn seal<'a>(&'a self, subject: &'a str, clear: &'a [u8]) -> Keeping<'a, Sealed> {
        Box::pin(async move {
            loop {
                if let Some(sealed) = SubjectKeys::seal(self, subject, clear)? {
                    return Ok(sealed);
                }
                let (keys, subject) = (Self::clone(self), subject.to_owned());
                finished(spawn_blocking(move || keys.create(&subject))).await?;
            }
        })
    }

    fn unseal<'a>(&'a self, subject: &'a str, generation: u32, sealed: &'a [u8]) -> Keeping<'a, Option<Vec<u8>>> {
        Box::pin(std::future::ready(SubjectKeys::unseal(self, subject, generation, sealed)))
    }

    fn generation<'a>(&'a self, subject: &'a str) -> Keeping<'a, Option<u32>> {
        Box::pin(std::future::ready(Ok(SubjectKeys::generation(self, subject))))
    }

    fn destroy<'a>(&'a self, subject: &'a str, generation: u32) -> Keeping<'a, bool> {
        let (keys, subject) = (Self::clone(self), subject.to_owned());
        Box::pin(
            async move { finished(spawn_blocking(move || SubjectKeys::destroy(&keys, &subject, generation))).await },
        )
    }
}
