//! How a journal over PostgreSQL is opened.

use std::fmt;

use crate::security::Security;

/// How a journal over `PostgreSQL` is opened.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the database is, such as `postgres://user:password@host:5432/database`, or `host=/var/run/postgresql user=enact` for a
    /// socket. Of several hosts with commas between them, the first one that takes writes is used.
    ///
    /// A host that is no loopback address is spoken to over TLS alone, whatever `sslmode` says; a loopback address is so with
    /// `sslmode=require`. A certificate must have the name, or the address, by which its host is called here.
    pub server: String,
    /// How the server and the program know each other.
    pub security: Security,
    /// The schema in which the tables are, `enact` by default: a small letter or `_`, and more of them and digits, 63 at most.
    pub schema: String,
    /// Which journal of the schema it is, 0 by default.
    pub shard: u16,
    /// Which tables there have to be, as [`Database::identify`](super::Database::identify) says; a connection that leads to other ones is not used. Without
    /// it, the default, tables that have an identity are only read.
    pub identity: Option<String>,
    /// The name under which this process writes. Those whom it fences off are told.
    pub node: String,
    /// The most bytes that may wait to be written; beyond, appends are refused as overloaded. 64 MiB by default. A batch
    /// that comes alone is always taken.
    pub queue_bytes: usize,
}

impl Options {
    /// The defaults, for the database at `address`. If that has a parameter `schema`, as in `postgres://host/database?schema=bank`, that
    /// is the schema. `sslmode=verify-full` is another word for `sslmode=require`.
    pub fn at(address: &str) -> Self {
        let (server, schema) = split_schema(address);
        let (schema, node) = (schema.unwrap_or_else(|| "enact".to_owned()), format!("process {}", std::process::id()));
        Self { server, security: Security::default(), schema, shard: 0, identity: None, node, queue_bytes: 64 << 20 }
    }

    /// The database without a user or a password, as it may stand in a log.
    pub fn place(&self) -> String {
        public_part(&self.server)
    }
}

/// What `address` is without its parameter `schema`, and that.
fn split_schema(address: &str) -> (String, Option<String>) {
    let Some((server, parameters)) = address.split_once('?') else { return (address.to_owned(), None) };
    let (mut schema, mut others) = (None, Vec::new());
    for parameter in parameters.split('&') {
        match parameter.strip_prefix("schema=") {
            Some(named) => schema = Some(named.to_owned()),
            // The client does nothing else.
            None if parameter == "sslmode=verify-full" => others.push("sslmode=require"),
            None => others.push(parameter),
        }
    }
    let server = if others.is_empty() { server.to_owned() } else { format!("{server}?{}", others.join("&")) };
    (server, schema)
}

/// Host and database of an address; of one that is no URL nothing, as it may have a password anywhere.
pub(super) fn public_part(server: &str) -> String {
    let Some((_, rest)) = server.split_once("://") else { return "PostgreSQL".to_owned() };
    let named = rest.split('?').next().unwrap_or_default();
    format!("postgres://{}", named.rsplit_once('@').map_or(named, |(_, public)| public))
}

/// The journal in words, without a user or a password.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (schema {}, shard {})", self.place(), self.schema, self.shard)
    }
}

/// Leaves the address out, which may have a password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("security", &self.security)
            .field("schema", &self.schema)
            .field("shard", &self.shard)
            .field("identity", &self.identity)
            .field("node", &self.node)
            .field("queue_bytes", &self.queue_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_in_the_address_is_taken_out_of_it() {
        for (address, server, schema) in [
            ("postgres://h/db", "postgres://h/db", "enact"),
            ("postgres://h/db?schema=bank", "postgres://h/db", "bank"),
            ("postgres://h/db?schema=bank&connect_timeout=3", "postgres://h/db?connect_timeout=3", "bank"),
            ("postgres://h/db?connect_timeout=3", "postgres://h/db?connect_timeout=3", "enact"),
            ("postgres://h/db?sslmode=verify-full&schema=bank", "postgres://h/db?sslmode=require", "bank"),
            ("host=/tmp user=enact", "host=/tmp user=enact", "enact"),
        ] {
            let options = Options::at(address);
            assert_eq!((&*options.server, &*options.schema), (server, schema), "{address}");
        }
    }

    #[test]
    fn what_is_logged_has_no_password() {
        for (server, public) in [
            ("postgres://user:secret@h1,h2:5432/db?password=secret", "postgres://h1,h2:5432/db"),
            ("postgresql://h/db", "postgres://h/db"),
            ("postgres://user:sec@ret@h/db", "postgres://h/db"),
            ("host=h password=secret", "PostgreSQL"),
        ] {
            assert_eq!(Options::at(server).place(), public);
        }
        assert!(!format!("{:?}", Options::at("postgres://user:secret@h/db")).contains("secret"));
    }
}
