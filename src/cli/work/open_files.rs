//! Open files of a worker: each command has pipes, and often a connection for a call about its job.

use rustix::process::{Resource, Rlimit, getrlimit};

use crate::{
    cli::exit::{Exit, Failure},
    process::open_files,
};

/// Open files for each command: three pipes, and the connection of its report, or of a heartbeat that is sent alone.
const OF_EACH: u64 = 4;

/// Other open files: the poll, signals, the pipes of a command that is being started, the file of the token.
const OTHERS: u64 = 32;

/// Raises the soft limit for so many commands at a time. Returns the limit from before, which the commands get: some programs
/// cannot deal with a higher one.
pub(super) fn make_room_for(parallel: usize) -> Result<Rlimit, Failure> {
    let before = getrlimit(Resource::Nofile);
    let wanted = parallel as u64 * OF_EACH + OTHERS;
    let room = open_files::raise(wanted).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot raise the limit of open files: {error}"))
    })?;
    match room {
        Some(room) if room < wanted => Err(Failure::usage(format!(
            "--parallel {parallel} needs {wanted} open files, and the limit (ulimit -Hn) is {room}"
        ))),
        Some(_) | None => Ok(before),
    }
}
