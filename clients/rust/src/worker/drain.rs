//! The end of a worker: what begins it, and how far it has gone. Pure: the time is given.

use std::time::Duration;

use super::moment::BootTime;
use crate::error::Error;

/// How long reports may be tried after the last job was told to end.
const REPORT_TIME: Duration = Duration::from_secs(5);
/// The same after the jobs were killed at a third signal.
const SHORT_REPORT_TIME: Duration = Duration::from_secs(1);

/// How urgently the jobs of a worker have to end; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    No,
    /// They are asked to end, and killed some time later.
    Terminate,
    /// They are killed.
    Kill,
    /// The worker waits no longer, neither for them nor for answers to reports.
    Abandon,
}

/// Why a worker ends.
#[derive(Debug, Clone)]
pub enum Cause {
    /// It was asked to.
    Signal,
    /// No job was ready.
    Empty,
    /// It has had as many jobs as it was to have.
    Enough,
    /// No job can be done here; what was wrong with the last one.
    Broken(String),
    /// The token does not allow its calls, also after it was read again.
    NotAllowed(Error),
    /// The server refuses to hand out jobs for another reason.
    Refused(Error),
    /// The server was away for too long.
    Away(Error),
    /// Reports of so many jobs had no answer when it ended.
    Unreported(usize),
}

impl Cause {
    /// Whether this is an orderly end.
    #[must_use]
    pub fn is_orderly(&self) -> bool {
        match self {
            Self::Signal | Self::Empty | Self::Enough => true,
            Self::Broken(_)
            | Self::NotAllowed(_)
            | Self::Refused(_)
            | Self::Away(_)
            | Self::Unreported(_) => false,
        }
    }

    /// Whether running jobs have all the time that they need.
    fn is_patient(&self) -> bool {
        matches!(self, Self::Empty | Self::Enough)
    }
}

/// The end of a worker.
#[derive(Debug)]
pub(crate) struct Drain {
    /// How long running jobs have.
    time: Duration,
    kill_after: Duration,
    cause: Option<Cause>,
    signals: u32,
    terminate: Option<BootTime>,
    kill: Option<BootTime>,
}

impl Drain {
    pub fn new(time: Duration, kill_after: Duration) -> Self {
        Self { time, kill_after, cause: None, signals: 0, terminate: None, kill: None }
    }

    /// Begins it, unless it has begun; a failure is kept as the cause, whatever came before it. Returns whether this
    /// began it, or limited the time of running jobs.
    pub fn begin(&mut self, cause: Cause, now: BootTime) -> bool {
        let limits = !cause.is_patient() && self.terminate.is_none();
        let begins = self.cause.is_none();
        if limits {
            self.terminate = Some(now + self.time);
        }
        // A later count of unreported ends has the earlier ones, too.
        let counts = matches!((&self.cause, &cause), (Some(Cause::Unreported(_)), Cause::Unreported(_)));
        let replaces = |old: &Cause| counts || old.is_orderly() && (!cause.is_orderly() || old.is_patient());
        if self.cause.as_ref().is_none_or(replaces) {
            self.cause = Some(cause);
        }
        limits || begins
    }

    /// A signal: the first begins it, the second asks the jobs to end now, the third kills them. Returns which one
    /// it was.
    pub fn signal(&mut self, now: BootTime) -> u32 {
        self.signals += 1;
        match self.signals {
            1 => drop(self.begin(Cause::Signal, now)),
            2 => self.terminate = self.terminate.map(|then| then.min(now)),
            _ => self.kill = self.kill.or(Some(now)),
        }
        self.signals
    }

    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// How far it has gone.
    pub fn stop(&self, now: BootTime) -> Stop {
        let reached = self.steps().into_iter().filter(|(then, _)| then.is_some_and(|then| then <= now));
        reached.map(|(_, stop)| stop).max().unwrap_or(Stop::No)
    }

    /// When it goes further.
    pub fn next_step(&self, now: BootTime) -> Option<BootTime> {
        self.steps().into_iter().filter_map(|(then, _)| then).filter(|then| *then > now).min()
    }

    fn steps(&self) -> [(Option<BootTime>, Stop); 3] {
        let by_time = self.terminate.map(|then| then + self.kill_after + REPORT_TIME);
        let by_signal = self.kill.map(|then| then + SHORT_REPORT_TIME);
        let abandon = by_signal.into_iter().chain(by_time).min();
        [(self.terminate, Stop::Terminate), (self.kill, Stop::Kill), (abandon, Stop::Abandon)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at_second(second: u64) -> BootTime {
        BootTime::since_boot(SECOND * u32::try_from(second).expect("fits"))
    }

    fn drain() -> Drain {
        Drain::new(25 * SECOND, 10 * SECOND)
    }

    #[test]
    fn the_first_signal_gives_time_the_second_terminates_the_third_kills() {
        let mut drain = drain();
        assert_eq!((drain.stop(at_second(0)), drain.next_step(at_second(0))), (Stop::No, None));
        assert_eq!(drain.signal(at_second(100)), 1);
        for (second, stop, next) in [
            (100, Stop::No, Some(125)),
            (124, Stop::No, Some(125)),
            (125, Stop::Terminate, Some(140)),
            (139, Stop::Terminate, Some(140)),
            (140, Stop::Abandon, None),
        ] {
            let found = (drain.stop(at_second(second)), drain.next_step(at_second(second)));
            assert_eq!(found, (stop, next.map(at_second)), "{second}");
        }
        assert_eq!(drain.signal(at_second(103)), 2);
        assert_eq!(
            (drain.stop(at_second(103)), drain.next_step(at_second(103))),
            (Stop::Terminate, Some(at_second(118)))
        );
        assert_eq!(drain.signal(at_second(104)), 3);
        assert_eq!(
            (drain.stop(at_second(104)), drain.next_step(at_second(104))),
            (Stop::Kill, Some(at_second(105)))
        );
    }

    #[test]
    fn jobs_have_all_their_time_after_the_last_pop_unless_a_signal_comes() {
        for cause in [Cause::Empty, Cause::Enough] {
            let mut drain = drain();
            assert!(drain.begin(cause, at_second(0)));
            assert_eq!((drain.stop(at_second(90_000)), drain.next_step(at_second(0))), (Stop::No, None));
            drain.signal(at_second(90_000));
            assert_eq!(drain.next_step(at_second(90_000)), Some(at_second(90_025)));
            assert!(matches!(drain.cause(), Some(Cause::Signal)));
        }
    }

    #[test]
    fn a_failure_stays_the_cause() {
        let mut drain = drain();
        assert!(drain.begin(Cause::Broken("exit 127".to_owned()), at_second(0)));
        assert_eq!(drain.signal(at_second(1)), 1);
        assert!(!drain.begin(Cause::Unreported(1), at_second(2)));
        assert!(matches!(drain.cause(), Some(Cause::Broken(_))));
        let mut drain = Drain::new(25 * SECOND, 10 * SECOND);
        drain.signal(at_second(0));
        assert!(!drain.begin(Cause::Unreported(1), at_second(2)), "the time is limited already");
        assert!(matches!(drain.cause(), Some(Cause::Unreported(1))));
        drain.begin(Cause::Unreported(8), at_second(3));
        assert!(matches!(drain.cause(), Some(Cause::Unreported(8))), "all of them are counted");
        assert_eq!(drain.next_step(at_second(2)), Some(at_second(25)));
    }
}
