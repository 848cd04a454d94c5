//! Names of instances in a path.

/// Greatest length of an id, in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// Whether `id`, already percent-decoded once, may name an instance: `[A-Za-z0-9._:-]{1,128}`.
///
/// Ids are compared as bytes: no case folding and no normalisation, so no two spellings meet in one instance.
#[must_use]
pub fn is_valid_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_1_to_128_letters_digits_and_four_signs() {
        for id in ["a", "NL01ABNA0123456789", "2026-11-21", "a.b_c:d-e", "..", &"x".repeat(ID_BYTES_MAX)] {
            assert!(is_valid_id(id), "{id}");
        }
        for id in ["", "a b", "a/b", "a\\b", "a\0", "é", "a%2fb", "a+b", "ａ", &"x".repeat(ID_BYTES_MAX + 1)] {
            assert!(!is_valid_id(id), "{id}");
        }
    }
}
