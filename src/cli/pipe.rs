//! Whether the reader of stdout, if it is a pipe, took the bytes that were written. Does not know what they mean.

use std::{io::stdout, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    io::ioctl_fionread,
};

use crate::clock::Clock;

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Whether stdout is a pipe whose reader has gone.
pub(super) fn is_closed() -> bool {
    let stdout = stdout();
    let mut stdout = [PollFd::new(&stdout, PollFlags::empty())];
    let polled = poll(&mut stdout, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && stdout[0].revents().contains(PollFlags::ERR)
}

/// Waits until the reader of a pipe has taken every byte; false if it has gone without that. True at once if stdout is
/// no pipe, and after `limit`, since a reader may be slow.
pub(super) async fn is_read(clock: &dyn Clock, limit: Duration) -> bool {
    let is_pipe = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    if !fstat(stdout()).is_ok_and(is_pipe) {
        return true;
    }
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    while waited < limit {
        // A reader that takes the last bytes and then goes has read them, so what is left counts.
        let has_gone = is_closed();
        if ioctl_fionread(stdout()).is_ok_and(|left| left == 0) {
            return true;
        }
        if has_gone {
            return false;
        }
        clock.sleep(pause).await;
        waited += pause;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    true
}
