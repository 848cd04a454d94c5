//! What a server must be, so that nothing that is acknowledged gets lost and no damage is passed over; every other one is refused.
//!
//! A server whose commits wait for standbys says so in `synchronous_standby_names`. Either form of it, `FIRST n` or `ANY n`, keeps a
//! commit on so many standbys, and none is required: a server alone keeps what a directory would.

use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::OpenError;

/// The oldest version that the tests run with.
const VERSION_MIN: u32 = 150_000;

/// A setting, what it may be, and how to correct it.
type Required = (&'static str, &'static [&'static str], &'static str);

const IN_FILE: &str = "set it in postgresql.conf and reload the server";
const SETTINGS: [Required; 6] = [
    // Written pages reach the disk.
    ("fsync", &["on"], IN_FILE),
    // A page that is torn by a crash can be restored.
    ("full_page_writes", &["on"], IN_FILE),
    // A commit is answered when it is on the disk, and on that of the standbys if there are some.
    (
        "synchronous_commit",
        &["on", "remote_apply"],
        "set it in postgresql.conf and reload the server, or use `ALTER ROLE .. SET synchronous_commit TO on` if the role has its own",
    ),
    // A page that the disk has damaged is seen.
    ("data_checksums", &["on"], "stop the server and run `pg_checksums --enable`"),
    ("ignore_checksum_failure", &["off"], IN_FILE),
    ("zero_damaged_pages", &["off"], IN_FILE),
];

/// Checks the server that `client` is connected to.
pub(super) async fn check(client: &Client) -> Result<(), OpenError> {
    let names = SETTINGS.map(|(name, ..)| format!("'{name}'")).join(", ");
    let query = format!(
        "SELECT 'standby' AS name, pg_is_in_recovery()::text AS setting, NULL AS reset_val
         UNION ALL SELECT 'version', current_setting('server_version_num'), NULL
         UNION ALL SELECT name, setting, reset_val FROM pg_settings WHERE name IN ({names})"
    );
    let answer = client.simple_query(&query).await.map_err(OpenError::unreachable)?;
    let rows: Vec<SimpleQueryRow> = answer.into_iter().filter_map(row).collect();
    let found = |name: &str, column: &str| {
        let row = rows.iter().find(|row| row.get("name") == Some(name))?;
        row.get(column).map(str::to_owned)
    };
    judge(found)
}

pub(super) fn row(message: SimpleQueryMessage) -> Option<SimpleQueryRow> {
    if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None }
}

fn judge(found: impl Fn(&str, &str) -> Option<String>) -> Result<(), OpenError> {
    let version = found("version", "setting").unwrap_or_default();
    if version.parse().map_or(true, |version: u32| version < VERSION_MIN) {
        return Err(OpenError::Version { found: version });
    }
    if found("standby", "setting").as_deref() != Some("false") {
        return Err(OpenError::Standby);
    }
    for (name, allowed, remedy) in SETTINGS {
        // Of this session, and of those to come.
        for column in ["setting", "reset_val"] {
            let found = found(name, column).unwrap_or_else(|| "unknown".to_owned());
            if !allowed.contains(&&*found) {
                let (setting, required, remedy) = (name.to_owned(), allowed.join("` or `"), remedy.to_owned());
                return Err(OpenError::Setting { setting, found, required, remedy });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a sound server of which one answer is another.
    fn judged(name: &str, column: &str, value: Option<&str>) -> Result<(), OpenError> {
        judge(|asked, asked_column| {
            if (asked, asked_column) == (name, column) {
                return value.map(str::to_owned);
            }
            Some(match asked {
                "version" => "150018".to_owned(),
                "standby" => "false".to_owned(),
                _ => SETTINGS.iter().find(|(name, ..)| *name == asked)?.1[0].to_owned(),
            })
        })
    }

    #[test]
    fn a_server_that_could_lose_something_is_refused_by_name() {
        assert!(judged("", "", None).is_ok());
        assert!(judged("synchronous_commit", "setting", Some("remote_apply")).is_ok());
        for (name, value) in [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("synchronous_commit", "off"),
            ("synchronous_commit", "local"),
            ("synchronous_commit", "remote_write"),
            ("data_checksums", "off"),
            ("zero_damaged_pages", "on"),
            ("ignore_checksum_failure", "on"),
        ] {
            for column in ["setting", "reset_val"] {
                let refused = judged(name, column, Some(value)).expect_err(name);
                assert!(refused.is_unsafe(), "{refused}");
                assert!(refused.to_string().contains(&format!("{name} = {value}")), "{refused}");
            }
            assert!(judged(name, "setting", None).is_err(), "{name} is not known");
        }
    }

    #[test]
    fn an_old_server_and_a_standby_are_refused() {
        for version in [Some("140011"), Some(""), None] {
            assert!(matches!(judged("version", "setting", version), Err(OpenError::Version { .. })), "{version:?}");
        }
        assert!(judged("version", "setting", Some("180000")).is_ok());
        for standby in [Some("true"), None] {
            assert!(matches!(judged("standby", "setting", standby), Err(OpenError::Standby)), "{standby:?}");
        }
    }
}
