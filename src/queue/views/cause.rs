//! Why the jobs of a topic wait. Pure: it gets what is known of the topic, and says which of it comes first.

use std::time::Duration;

use crate::{
    job::{Pause, Timestamp, TopicPause, TopicSettings, Ttr},
    metrics::{Event, EventSummary, SIGNS_KEPT},
};

/// Why the jobs of a topic wait, or why it accepts none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No job is delivered.
    DeliveryPaused(Pause),
    /// The last call to a host of the topic failed.
    CallbackFails(FailingHost),
    /// No job is accepted.
    IntakePaused(Pause),
    /// No process was polled in the last minute, and no worker has a job.
    NoWorker,
    /// No process was polled in the last minute: the workers have jobs, and one of them was taken, finished, released, buried
    /// or touched within the topic's TTR, or it is not known when.
    WorkersBusy {
        /// How many jobs they have.
        reserved: u64,
        /// When one of that happened last, if it is known.
        since: Option<Timestamp>,
    },
    /// As [`Self::WorkersBusy`], but none of that happened for the topic's TTR.
    WorkersSilent {
        /// How many jobs they have.
        reserved: u64,
        /// When it happened last; `None` if it was not within a day.
        since: Option<Timestamp>,
    },
    /// Workers poll, or the callback is called: there are only more jobs than are done.
    Backlog {
        /// What is done, if it is known of all processes.
        throughput: Option<Throughput>,
    },
}

/// What is done with the jobs of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughput {
    /// Jobs that were added in the last minute.
    pub added: u64,
    /// Jobs that were finished in the last minute.
    pub finished: u64,
    /// When no job is ready any more, if it goes on so.
    pub empty_in: Option<Duration>,
}

/// How the last call to a host failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingHost {
    /// Scheme, name or address, and port.
    pub host: String,
    /// The reason, such as `http_503`.
    pub answer: String,
    /// When the call ended.
    pub at: Timestamp,
    /// No call begins before this moment.
    pub resting_until: Option<Timestamp>,
}

/// What a process knows of the calls for a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CalledTopic {
    /// The topic's own callback, if its last call failed.
    pub of_topic: Option<FailingHost>,
    /// Whether jobs with a callback of their own were called lately.
    pub calls_jobs: bool,
    /// Of the callbacks of those jobs, the one that failed last.
    pub of_jobs: Option<FailingHost>,
}

/// When a worker last took a job, or said something of one that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastSign {
    /// At this moment.
    At(Timestamp),
    /// Not within a day.
    Never,
    /// It is not known.
    Unknown,
}

/// What is known of a topic.
#[derive(Debug)]
pub(in crate::queue) struct Known<'a> {
    pub now: Timestamp,
    /// The pauses that are not over.
    pub pause: &'a TopicPause,
    pub settings: &'a TopicSettings,
    /// Jobs that are delayed, perhaps until they are called again.
    pub delayed: u64,
    pub ready: u64,
    pub reserved: u64,
    pub called: CalledTopic,
    /// At all processes, if that is known.
    pub polls: Option<u64>,
    pub last_sign: LastSign,
    /// What happened in the last minute, if that is known of all processes.
    pub minute: Option<EventSummary>,
}

/// Why the jobs of a topic wait; `None` if none does, and if it is not known.
pub(in crate::queue) fn cause(known: Known<'_>) -> Option<Cause> {
    let Known { pause, settings, delayed, ready, reserved, called, .. } = known;
    let has_callback = settings.callback.target.is_some();
    if let Some(pause) = &pause.delivery {
        return Some(Cause::DeliveryPaused(pause.clone()));
    }
    // A callback that the topic no longer has may still be known.
    let failure = called.of_topic.filter(|_| has_callback).or(called.of_jobs);
    if let Some(failure) = failure.filter(|_| delayed + ready + reserved > 0) {
        return Some(Cause::CallbackFails(failure));
    }
    if let Some(pause) = &pause.intake {
        return Some(Cause::IntakePaused(pause.clone()));
    }
    if ready == 0 {
        return None;
    }
    if has_callback || called.calls_jobs || known.polls? > 0 {
        return Some(Cause::Backlog { throughput: known.minute.map(|minute| throughput(ready, &minute)) });
    }
    if reserved == 0 {
        return Some(Cause::NoWorker);
    }
    let ttr = settings.ttr.unwrap_or(Ttr::DEFAULT).as_duration();
    let since = match known.last_sign {
        LastSign::Unknown => return Some(Cause::WorkersBusy { reserved, since: None }),
        // Their last sign may be older than what is kept, and yet within the TTR.
        LastSign::Never if ttr > SIGNS_KEPT => return Some(Cause::WorkersBusy { reserved, since: None }),
        LastSign::At(at) if known.now < at.after(ttr) => {
            return Some(Cause::WorkersBusy { reserved, since: Some(at) });
        }
        LastSign::At(at) => Some(at),
        LastSign::Never => None,
    };
    Some(Cause::WorkersSilent { reserved, since })
}

fn throughput(ready: u64, minute: &EventSummary) -> Throughput {
    let (added, finished) = (minute.count(Event::Added), minute.count(Event::Finished));
    let fewer = finished.saturating_sub(added);
    let empty_in = (fewer > 0).then(|| Duration::from_secs(ready.saturating_mul(60).div_ceil(fewer)));
    Throughput { added, finished, empty_in }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::{Callback, CallbackUrl, TopicCallback},
        metrics::Lateness,
    };

    const NOW_MS: i64 = 1_000_000;

    fn now() -> Timestamp {
        Timestamp::from_millis(NOW_MS)
    }

    fn pauses(delivery: bool, intake: bool) -> TopicPause {
        TopicPause { delivery: delivery.then(Pause::default), intake: intake.then(Pause::default) }
    }

    fn failure() -> FailingHost {
        FailingHost { host: "h".to_owned(), answer: "http_503".to_owned(), at: now(), resting_until: None }
    }

    /// A ready job that no worker asks for.
    fn unattended<'a>(pause: &'a TopicPause, settings: &'a TopicSettings) -> Known<'a> {
        Known {
            now: now(),
            pause,
            settings,
            delayed: 0,
            ready: 1,
            reserved: 0,
            called: CalledTopic::default(),
            polls: Some(0),
            last_sign: LastSign::Never,
            minute: None,
        }
    }

    /// The cause where workers pop, with these jobs, polls and sign.
    fn of_workers(ready: u64, reserved: u64, polls: Option<u64>, last_sign: LastSign) -> Option<Cause> {
        let (pause, settings) = Default::default();
        cause(Known { ready, reserved, polls, last_sign, ..unattended(&pause, &settings) })
    }

    #[test]
    fn pauses_and_failing_calls_come_first() {
        let settings = TopicSettings::default();
        let found = |pause: TopicPause, failure: Option<FailingHost>| {
            let called = CalledTopic { of_jobs: failure, ..CalledTopic::default() };
            cause(Known { called, ..unattended(&pause, &settings) })
        };
        let delivery = Some(Cause::DeliveryPaused(Pause::default()));
        assert_eq!(found(pauses(true, true), Some(failure())), delivery);
        assert_eq!(found(pauses(false, true), Some(failure())), Some(Cause::CallbackFails(failure())));
        assert_eq!(found(pauses(false, true), None), Some(Cause::IntakePaused(Pause::default())));
        assert_eq!(found(pauses(false, false), None), Some(Cause::NoWorker));
    }

    #[test]
    fn without_polls_the_last_sign_of_the_holders_decides() {
        let found = |reserved, last_sign| of_workers(5, reserved, Some(0), last_sign);
        let busy = |since| Some(Cause::WorkersBusy { reserved: 2, since });
        let moment = |seconds: i64| Timestamp::from_millis(NOW_MS - seconds * 1_000);
        let seconds_ago = |seconds| LastSign::At(moment(seconds));
        assert_eq!(found(0, seconds_ago(1)), Some(Cause::NoWorker), "its last worker has left");
        assert_eq!(found(2, seconds_ago(59)), busy(Some(moment(59))));
        assert_eq!(found(2, LastSign::Unknown), busy(None));
        let silent = |since| Some(Cause::WorkersSilent { reserved: 2, since });
        assert_eq!(found(2, seconds_ago(60)), silent(Some(moment(60))), "for the default TTR");
        assert_eq!(found(2, LastSign::Never), silent(None));
        let ttr = |seconds| TopicSettings {
            ttr: Some(Ttr::new(SIGNS_KEPT + Duration::from_secs(seconds)).expect("a TTR")),
            ..TopicSettings::default()
        };
        let with = |settings| {
            let pause = TopicPause::default();
            cause(Known { reserved: 2, ..unattended(&pause, &settings) })
        };
        assert_eq!(with(ttr(0)), silent(None));
        assert_eq!(with(ttr(1)), busy(None), "a sign within the TTR may be forgotten");
    }

    #[test]
    fn nothing_is_said_without_ready_jobs_or_before_polls_are_known() {
        assert_eq!(of_workers(0, 3, Some(0), LastSign::Never), None);
        assert_eq!(of_workers(3, 0, None, LastSign::Never), None);
    }

    #[test]
    fn a_backlog_ends_by_what_is_done_beyond_what_is_added() {
        let minute = |added: u64, finished: u64| {
            let count = |name: &str| match name {
                "linger_jobs_added" => added,
                "linger_jobs_finished" => finished,
                _ => 0,
            };
            EventSummary::new(count, Lateness::default(), Lateness::default())
        };
        let empty_in = |added, finished| {
            let Throughput { empty_in, .. } = throughput(100, &minute(added, finished));
            empty_in.map(|empty_in| empty_in.as_secs())
        };
        assert_eq!((empty_in(60, 60), empty_in(90, 60)), (None, None));
        assert_eq!((empty_in(0, 60), empty_in(50, 60)), (Some(100), Some(600)));
        let unknown = Some(Cause::Backlog { throughput: None });
        assert_eq!(of_workers(1, 0, Some(1), LastSign::Never), unknown, "no figures are no zeros");
    }

    #[test]
    fn a_callback_needs_no_polls() {
        let target = Some(Callback::to(CallbackUrl::parse("http://h/").expect("valid")));
        let callback = TopicCallback { target, ..TopicCallback::default() };
        let settings = TopicSettings { callback, ..TopicSettings::default() };
        let pause = TopicPause::default();
        let found = cause(unattended(&pause, &settings));
        assert!(matches!(found, Some(Cause::Backlog { .. })), "{found:?}");
        let called = CalledTopic { of_topic: Some(failure()), ..CalledTopic::default() };
        let found = cause(Known { called: called.clone(), ..unattended(&pause, &settings) });
        assert_eq!(found, Some(Cause::CallbackFails(failure())));
        let workers = TopicSettings::default();
        let found = cause(Known { called: called.clone(), ..unattended(&pause, &workers) });
        assert_eq!(found, Some(Cause::NoWorker), "the callback was removed");
        let found = cause(Known { called, ready: 0, ..unattended(&pause, &settings) });
        assert_eq!(found, None, "no job waits for it");
    }
}
