//! Schedules, which add jobs again and again: their types, and the calls for them.

use std::time::Duration;

use hyper::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    client::Client,
    durations::{duration, some_duration, some_moment, some_seconds},
    error::Error,
    jobs::absent,
    model::Added,
    new_job::NewJob,
    request::{Repeat, Request, Response, segment},
};

/// A schedule to make, or what one is to be from now on. What is left out gets the server's default. Times are precise to the
/// millisecond.
#[derive(Debug, Clone, Serialize)]
pub struct NewSchedule {
    /// When it runs.
    #[serde(flatten)]
    pub recurrence: Recurrence,
    /// No run is before this moment.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_moment")]
    pub start: Option<Timestamp>,
    /// No run is after this moment.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_moment")]
    pub end: Option<Timestamp>,
    /// Runs are due up to so long after their moment, each by an offset of its own; exactly then when left out.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub jitter: Option<Duration>,
    /// What happens if the job of the previous run is not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Which of the runs take place that an outage has made late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// How late they may be.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub missed_within: Option<Duration>,
    /// The job of each run, without an id and a due time.
    pub job: NewJob,
}

/// The rule by which a schedule runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Recurrence {
    /// By the wall clock.
    Cron {
        /// A pattern of five fields, or of six with seconds first, or a name such as `@daily`.
        cron: String,
        /// The IANA name of the zone of the clock; `UTC` when left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        time_zone: Option<String>,
    },
    /// At an interval, by the time that has passed since `start`, or since 1970.
    Every {
        /// The interval; at least a second.
        #[serde(serialize_with = "duration")]
        every: Duration,
    },
}

/// What a schedule does if the job of its previous run is not over; a dead letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The run is left out.
    Skip,
    /// The run takes place beside the other one.
    Allow,
    /// The run takes the place of a job that waits; one that is reserved is left alone.
    Replace,
}

/// Which runs take place that an outage has made late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// The latest.
    One,
    /// All, at most 1,000; only with [`Overlap::Allow`].
    All,
    /// None.
    None,
}

impl NewSchedule {
    /// A schedule by the wall clock in UTC.
    #[must_use]
    pub fn cron(pattern: impl Into<String>, job: NewJob) -> Self {
        Self::new(Recurrence::Cron { cron: pattern.into(), time_zone: None }, job)
    }

    /// A schedule at an interval.
    #[must_use]
    pub fn every(interval: Duration, job: NewJob) -> Self {
        Self::new(Recurrence::Every { every: interval }, job)
    }

    /// A schedule by this rule, with the server's defaults.
    #[must_use]
    pub fn new(recurrence: Recurrence, job: NewJob) -> Self {
        Self {
            recurrence,
            start: None,
            end: None,
            jitter: None,
            overlap: None,
            missed: None,
            missed_within: None,
            job,
        }
    }
}

/// A schedule as the server has it.
#[derive(Debug, Clone, Deserialize)]
pub struct Schedule {
    /// The name.
    pub name: String,
    /// The pattern, if it runs by the wall clock.
    pub cron: Option<String>,
    /// The zone of the pattern.
    pub time_zone: Option<String>,
    /// The interval, if it runs at one.
    #[serde(default, deserialize_with = "some_seconds")]
    pub every: Option<Duration>,
    /// No run is before this moment.
    pub start: Option<Timestamp>,
    /// No run is after this moment.
    pub end: Option<Timestamp>,
    /// Runs are due up to so long after their moment.
    #[serde(default, deserialize_with = "some_seconds")]
    pub jitter: Option<Duration>,
    /// `skip`, `allow` or `replace`; later servers may have more.
    pub overlap: String,
    /// `one`, `all` or `none`; later servers may have more.
    pub missed: String,
    /// How late runs may be that an outage has made late.
    #[serde(default, deserialize_with = "some_seconds")]
    pub missed_within: Option<Duration>,
    /// The job of each run, as it was sent.
    pub job: Box<RawValue>,
    /// Counts the changes by clients, from 1.
    pub revision: u64,
    /// `active`, `paused`, `waiting`, `ahead` or `ended`; later servers may have more.
    pub state: String,
    /// The moments of the next runs, at most three, also while it is paused.
    pub next: Vec<Timestamp>,
    /// The moment of the last run, also of one that was left out.
    pub last: Option<Timestamp>,
    /// The id of the job of the last run.
    pub last_job: Option<String>,
    /// Set while a run is due that cannot be added.
    pub waiting: Option<Waiting>,
    /// How many runs there were.
    pub runs: RunCounts,
}

/// Why a run that is due has not been added.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Waiting {
    /// When it could not be added for the first time.
    pub since: Timestamp,
    /// `store_full`, `intake_paused`, or another code with which an add would be refused.
    pub reason: String,
}

/// How many runs had which end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct RunCounts {
    /// A job was added.
    pub fired: u64,
    /// Left out because of the previous run.
    pub overlap: u64,
    /// Left out after an outage.
    pub missed: u64,
}

/// A page of schedules.
#[derive(Debug, Clone, Deserialize)]
pub struct SchedulePage {
    /// The schedules, by name.
    pub schedules: Vec<Schedule>,
    /// Where the next page begins; none after the last.
    pub next_cursor: Option<String>,
}

/// The answer to a put.
#[derive(Debug, Clone)]
pub struct PutSchedule {
    /// The schedule.
    pub schedule: Schedule,
    /// Whether there was none of this name; false also if an earlier attempt of the call made it.
    pub is_new: bool,
}

/// The calls as data, for callers that send them with [`Client::send`] and read the response themselves.
impl Request {
    /// Lists up to 100 schedules, by name.
    #[must_use]
    pub fn schedules(limit: usize, cursor: Option<&str>) -> Self {
        let cursor = cursor.map_or(String::new(), |cursor| format!("&cursor={}", segment(cursor)));
        Self::get("schedules", format!("/schedules?limit={}{cursor}", limit.clamp(1, 100)))
    }

    /// Reads a schedule.
    #[must_use]
    pub fn schedule(name: &str) -> Self {
        Self::get("schedule", path(name, ""))
    }

    /// Reads the moments of up to 1,000 next runs of a schedule.
    #[must_use]
    pub fn next_runs(name: &str, count: usize) -> Self {
        Self::get("next runs", path(name, &format!("/next?count={}", count.clamp(1, 1_000))))
    }

    /// Makes or replaces a schedule: a [`NewSchedule`], or another JSON object. `revision` is the one that it must have, 0 if
    /// there must be none.
    #[must_use]
    pub fn put_schedule(name: &str, schedule: &impl Serialize, revision: Option<u64>) -> Self {
        let put = Self::new("put schedule", Method::PUT, path(name, "")).json(schedule);
        Self { if_revision: revision, ..put }
    }

    /// Deletes a schedule.
    #[must_use]
    pub fn delete_schedule(name: &str) -> Self {
        Self::new("delete schedule", Method::DELETE, path(name, "")).repeat(Repeat::SafeUntilGone)
    }

    /// Pauses a schedule.
    #[must_use]
    pub fn pause_schedule(name: &str) -> Self {
        Self::post("pause schedule", path(name, "/pause"))
    }

    /// Resumes a schedule.
    #[must_use]
    pub fn resume_schedule(name: &str) -> Self {
        Self::post("resume schedule", path(name, "/resume"))
    }

    /// Adds a job of a schedule now. The server recognises a repeat by the id of the run.
    #[must_use]
    pub fn run_schedule(name: &str, id: &str) -> Self {
        #[derive(Serialize)]
        struct Run<'a> {
            id: &'a str,
        }
        Self::post("run schedule", path(name, "/run")).json(&Run { id })
    }
}

fn path(name: &str, rest: &str) -> String {
    format!("/schedules/{}{rest}", segment(name))
}

/// Every call fails with [`Error`]; all of them are safe to repeat.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// A page of up to 100 schedules.
    pub async fn schedules(&self, limit: usize, cursor: Option<&str>) -> Result<SchedulePage, Error> {
        self.send(&Request::schedules(limit, cursor)).await?.read()
    }

    /// The schedule as it is now; none when there is no such schedule.
    pub async fn schedule(&self, name: &str) -> Result<Option<Schedule>, Error> {
        let answer = self.send(&Request::schedule(name)).await;
        absent(answer, "schedule_not_found")?.map(|response| response.read()).transpose()
    }

    /// The moments of up to 1,000 next runs, also while the schedule is paused.
    pub async fn next_runs(&self, name: &str, count: usize) -> Result<Vec<Timestamp>, Error> {
        #[derive(Deserialize)]
        struct Next {
            next: Vec<Timestamp>,
        }
        Ok(self.send(&Request::next_runs(name, count)).await?.read::<Next>()?.next)
    }

    /// Makes or replaces a schedule: a [`NewSchedule`], or another JSON object. With a `revision` it must have that one, or must
    /// not exist if that is 0; then a repeat may be refused with 412 for what the first attempt did.
    pub async fn put_schedule(
        &self,
        name: &str,
        schedule: &impl Serialize,
        revision: Option<u64>,
    ) -> Result<PutSchedule, Error> {
        let response = self.send(&Request::put_schedule(name, schedule, revision)).await?;
        Ok(PutSchedule { schedule: response.read()?, is_new: response.status == 201 })
    }

    /// Deletes a schedule, but not the jobs of its runs; whether there was one. After a lost answer a missing schedule counts as
    /// deleted.
    pub async fn delete_schedule(&self, name: &str) -> Result<bool, Error> {
        let deleted = absent(self.send(&Request::delete_schedule(name)).await, "schedule_not_found")?;
        Ok(deleted.map(Response::done).transpose()?.is_some())
    }

    /// Pauses a schedule: it has no runs until it is resumed.
    pub async fn pause_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.send(&Request::pause_schedule(name)).await?.read()
    }

    /// Resumes a schedule, without the runs that it would have had meanwhile.
    pub async fn resume_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.send(&Request::resume_schedule(name)).await?.read()
    }

    /// Adds a job of a schedule now; the schedule does not change. A second run with the same `id` adds nothing; without one the
    /// run gets a new id.
    pub async fn run_schedule(&self, name: &str, id: Option<&str>) -> Result<Added, Error> {
        let id = id.map_or_else(|| format!("{:032x}", rand::random::<u128>()), str::to_owned);
        Added::read(&self.send(&Request::run_schedule(name, &id)).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{CUT, TestServer, answer};

    const SCHEDULE: &str = r#"{"name":"a","every":900.5,"overlap":"skip","missed":"all","missed_within":86400,
        "job":{"topic":"t","body":{"n":  1.0}},"revision":2,"state":"waiting","next":["2026-11-26T08:30:00.000Z"],
        "last":"2026-11-26T08:15:00.000Z","last_job":"cron:a:20261126T081500Z.0","new":1,
        "waiting":{"since":"2026-11-26T08:15:01.000Z","reason":"store_full"},
        "runs":{"fired":7,"overlap":1,"missed":0}}"#;
    const GONE: &str = r#"{"status":404,"code":"schedule_not_found","detail":"no schedule has this name"}"#;

    #[test]
    fn a_schedule_is_written_with_what_was_given_and_no_more() {
        let json = |schedule: &NewSchedule| serde_json::to_string(schedule).expect("is JSON");
        let interval = NewSchedule::every(Duration::from_millis(1_500), NewJob::new("t"));
        assert_eq!(json(&interval), r#"{"every":"1500ms","job":{"topic":"t"}}"#);
        let body = RawValue::from_string(r#"{"n": 1e400}"#.to_owned()).expect("is JSON");
        let moment = |text: &str| Some(text.parse().expect("is a moment"));
        let whole = NewSchedule {
            start: moment("2026-11-26T00:00:00Z"),
            end: moment("2027-11-26T00:00:00.25Z"),
            jitter: Some(Duration::from_secs(300)),
            overlap: Some(Overlap::Allow),
            missed: Some(Missed::All),
            missed_within: Some(Duration::from_secs(60)),
            ..NewSchedule::new(
                Recurrence::Cron {
                    cron: "30 9 * * *".to_owned(),
                    time_zone: Some("Europe/Berlin".to_owned()),
                },
                NewJob::new("t").body(body),
            )
        };
        assert_eq!(
            json(&whole),
            r#"{"cron":"30 9 * * *","time_zone":"Europe/Berlin","start":"2026-11-26T00:00:00.000Z","end":"2027-11-26T00:00:00.250Z","jitter":"300000ms","overlap":"allow","missed":"all","missed_within":"60000ms","job":{"topic":"t","body":{"n": 1e400}}}"#
        );
    }

    #[test]
    fn a_schedule_is_read_with_its_job_as_it_was_sent() {
        let schedule: Schedule = serde_json::from_str(SCHEDULE).expect("is readable");
        assert_eq!((schedule.every, schedule.cron), (Some(Duration::from_millis(900_500)), None));
        assert_eq!(schedule.job.get(), r#"{"topic":"t","body":{"n":  1.0}}"#);
        assert_eq!(schedule.waiting.map(|waiting| waiting.reason).as_deref(), Some("store_full"));
        assert_eq!(schedule.runs, RunCounts { fired: 7, overlap: 1, missed: 0 });
    }

    #[tokio::test]
    async fn a_schedule_that_is_gone_after_a_lost_answer_was_deleted_by_it() {
        let not_found = || answer(404, "", GONE);
        let server = TestServer::start(vec![CUT.to_owned(), not_found(), not_found(), not_found()]).await;
        let client = server.client();
        assert!(client.delete_schedule("a").await.expect("is answered"), "the first attempt deleted it");
        assert!(!client.delete_schedule("a").await.expect("is answered"));
        assert!(client.schedule("a").await.expect("is answered").is_none());
    }

    #[tokio::test]
    async fn changes_of_a_schedule_are_repeated_until_they_are_answered() {
        let answers = (0..3).flat_map(|_| [CUT.to_owned(), answer(200, "", SCHEDULE)]);
        let server = TestServer::start(answers.collect()).await;
        let client = server.client();
        let put = client.put_schedule("a+b", &NewSchedule::cron("@daily", NewJob::new("t")), None).await;
        assert!(!put.expect("the second attempt is answered").is_new);
        assert_eq!(client.pause_schedule("a+b").await.expect("is answered").revision, 2);
        assert_eq!(client.resume_schedule("a+b").await.expect("is answered").revision, 2);
        let lines = ["PUT /schedules/a%2Bb", "POST /schedules/a%2Bb/pause", "POST /schedules/a%2Bb/resume"];
        let twice = lines.iter().flat_map(|line| [format!("{line} HTTP/1.1"), format!("{line} HTTP/1.1")]);
        assert_eq!(server.lines(), twice.collect::<Vec<_>>());
    }
}
