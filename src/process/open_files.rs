//! The soft limit of open files of this process. Does not know what the files are for.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to `wanted`, or to the hard limit if that is lower, and never lowers it. Returns what it is
/// now; `None` is unlimited.
///
/// # Errors
/// If it cannot be changed; it is as it was then.
pub(crate) fn raise(wanted: u64) -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    let room = new_soft_limit(limit.current, limit.maximum, wanted);
    if room != limit.current {
        setrlimit(Resource::Nofile, Rlimit { current: room, maximum: limit.maximum })?;
    }
    Ok(room)
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
