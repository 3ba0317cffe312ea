//! Schedules, which add jobs again and again: the calls for them. `model.rs` has their types.

mod model;

use hyper::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use model::*;

use crate::{
    client::Client,
    error::Error,
    jobs::absent,
    model::Added,
    request::{Repeat, Request, Response, segment},
};

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

    /// Checks a schedule as [`put_schedule`](Self::put_schedule) would, and makes nothing. The answer has the next `count` runs.
    #[must_use]
    pub fn preview_schedule(name: &str, schedule: &impl Serialize, count: usize) -> Self {
        let rest = format!("?dry_run=true&count={}", count.clamp(1, 1_000));
        Self::new("preview schedule", Method::PUT, path(name, &rest)).json(schedule)
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

    /// The schedule that [`put_schedule`](Self::put_schedule) would make, with its next `count` runs. Nothing is made.
    pub async fn preview_schedule(
        &self,
        name: &str,
        schedule: &impl Serialize,
        count: usize,
    ) -> Result<Schedule, Error> {
        self.send(&Request::preview_schedule(name, schedule, count)).await?.read()
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
    use std::time::Duration;

    use serde_json::value::RawValue;

    use super::*;
    use crate::{
        new_job::NewJob,
        test_server::{CUT, TestServer, answer},
    };

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
