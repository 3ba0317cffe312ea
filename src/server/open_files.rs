//! Open files of a server. Each connection needs one, and the soft limit of a shell is often 1,024.

use rustix::process::{Resource, getrlimit};

use crate::process::open_files;

/// Open files other than connections of clients: those of the store, the log, and connections that are being refused.
const OTHERS: u64 = 256;

/// Raises the soft limit of open files to what `connections` need, at most to the hard limit. Returns how many
/// connections fit: further ones would be lost. If that is fewer and the number `was_configured`, logs a warning.
pub(super) fn make_room_for(connections: usize, was_configured: bool) -> usize {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHERS);
    let room = open_files::raise(wanted).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot raise the limit of open files");
        getrlimit(Resource::Nofile).current
    });
    match room {
        Some(room) if room < wanted => {
            let fewer = usize::try_from(room.saturating_sub(OTHERS)).unwrap_or(usize::MAX).max(1);
            let message =
                "the limit of open files (ulimit -Hn) leaves room for fewer than server.max_connections";
            if was_configured {
                tracing::warn!(open_files = room, connections = fewer, "{message}");
            } else {
                tracing::info!(open_files = room, connections = fewer, "{message}");
            }
            fewer
        }
        Some(_) | None => connections,
    }
}
