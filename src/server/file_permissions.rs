//! Warns at the start of files that other users of the machine may change or read, though they decide who is let in, or
//! hold what nobody else should see.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::config::{Config, Engine};

/// Write permission of a group or of everybody.
const WRITE: u32 = 0o022;
/// Any permission of everybody, or write permission of a group. That a group may read is common, and meant.
const ANY: u32 = 0o027;

/// Logs a warning for each file that other users may use in a way that they should not.
pub(super) fn warn(config: &Config) {
    if let Some(path) = &config.auth.tokens_file {
        warn_of(path, ANY, "the file of tokens");
    }
    if let Some(tls) = &config.tls {
        warn_of(&tls.key, ANY, "the private key");
    }
    if config.engine == Engine::Embedded {
        // Who may only list it learns the names of our files, which are for their owner alone.
        warn_of(&config.embedded.data_dir, WRITE, "the data directory");
    }
}

fn warn_of(path: &Path, forbidden: u32, what: &str) {
    // A file that cannot be looked at is named where it is read.
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
