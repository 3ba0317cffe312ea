//! The limit of open files. Each connection needs one, and the soft limit of a shell is often 1,024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files other than connections of clients: those of the store, the log, and connections that are being refused.
const OTHERS: u64 = 256;

/// Raises the soft limit of open files as far as `connections` need and the hard limit allows. Returns how many
/// connections fit: further ones would be lost. If that is fewer and the number `was_configured`, logs a warning.
pub(super) fn make_room_for(connections: usize, was_configured: bool) -> usize {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    let mut room = new_soft_limit(limit.current, limit.maximum, wanted);
    if room != limit.current {
        let new = Rlimit { current: room, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, new) {
            tracing::warn!(%error, "cannot raise the limit of open files");
            room = limit.current;
        }
    }
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

/// The soft limit to set; `None` is unlimited, as in the arguments.
fn new_soft_limit(soft: Option<u64>, hard: Option<u64>, wanted: u64) -> Option<u64> {
    let soft = soft?;
    Some(soft.max(wanted.min(hard.unwrap_or(u64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_needed_and_never_lowered() {
        assert_eq!(new_soft_limit(Some(1_024), Some(4_096), 2_000), Some(2_000));
        assert_eq!(new_soft_limit(Some(1_024), Some(4_096), 20_000), Some(4_096));
        assert_eq!(new_soft_limit(Some(1_024), None, 20_000), Some(20_000));
        assert_eq!(new_soft_limit(Some(50_000), Some(60_000), 20_000), Some(50_000));
        assert_eq!(new_soft_limit(None, None, 20_000), None);
    }
}
