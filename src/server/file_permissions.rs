//! Warns at start about files with secrets or tokens that other users of the machine may read or change.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::config::{Config, EngineKind};

/// Write permission of the group or of others.
const WRITE: u32 = 0o022;
/// Any permission of others, or write permission of the group. Read permission of the group is common and intended.
const ANY: u32 = 0o027;

/// Logs a warning for each file whose permissions are too wide.
pub(super) fn warn(config: &Config) {
    if let Some(path) = &config.auth.tokens_file {
        check(path, ANY, "the file of tokens");
    }
    if let Some(tls) = &config.tls {
        check(&tls.key, ANY, "the private key");
    }
    if let Some(client) = config.redis.tls.as_ref().and_then(|tls| tls.client.as_ref()) {
        check(&client.key, ANY, "the private key for Redis");
    }
    if config.engine == EngineKind::Embedded {
        // Listing the directory reveals only names: the files in it are for their owner alone.
        check(&config.embedded.data_dir, WRITE, "the data directory");
    }
}

fn check(path: &Path, forbidden: u32, what: &str) {
    // A file without metadata is reported where it is read.
    let Ok(file) = fs::metadata(path) else { return };
    let mode = file.permissions().mode() & 0o777;
    if mode & forbidden != 0 {
        let verb = if mode & WRITE == 0 { "read" } else { "change" };
        tracing::warn!(
            path = %path.display(), mode = format!("{mode:04o}"),
            "other users may {verb} {what}; take the permission away (chmod)"
        );
    }
}
