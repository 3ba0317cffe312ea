//! Every operation of a store on the same few jobs. Outcomes and jobs are rendered as text, so that two stores can be
//! compared. Receipts are random and left out.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use linger::{
    clock::ManualClock,
    job::{
        Due, Expire, ExpiryChange, Job, JobId, NoteText, OnExpiry, Reason, Receipt, RetrySchedule, SecretId,
        SigningKey, State, Timestamp, TopicSettings,
    },
    store::{
        AddJob, AddedSecret, ChangeJob, FinishJob, Finished, JobChange, JobFilter, ListedJob, NoticeContent,
        NoticeKind, Order, Outcome, Patch, Release, Reservation, Result, SeenJob, Steps, Store, TopicStats,
        TopicUpdates, Touch,
    },
};

pub use super::step::Step;
use crate::harness::{jobs::*, wait::TimeLimit};

/// The last parts of the ids of the jobs: six are reserved first, the others are not. The id of `kept` is remembered when it ends.
const HELD: [&str; 6] = ["held", "held2", "last", "kept", "dead", "dead2"];
const WAITING: [&str; 4] = ["ready", "ready2", "delayed", "due"];
const NEW: [&str; 2] = ["new", "new2"];

/// A store with the jobs of one case. All ids begin with the name of the topic.
pub struct StepFixture {
    /// Performs the step.
    store: Arc<dyn Store>,
    /// Prepares the jobs before the step, reads them after it and deletes them.
    observer: Arc<dyn Store>,
    name: String,
    receipts: BTreeMap<JobId, Receipt>,
    /// The jobs before the step.
    seen: Vec<SeenJob>,
}

/// The outcome of an operation as text, and the reservations that it granted.
pub type Answer = (String, Vec<(JobId, Receipt)>);

impl StepFixture {
    /// Adds a secret and ten jobs: three reserved, one reserved for a short time with its last attempt, two dead, two
    /// ready, one due in a second and one due in a minute.
    pub async fn prepare(store: &Arc<dyn Store>, observer: &Arc<dyn Store>, name: &str) -> Self {
        let (store, observer) = (store.clone(), observer.clone());
        let mut side =
            Self { store, observer, name: name.to_owned(), receipts: BTreeMap::new(), seen: Vec::new() };
        let mut held: Vec<AddJob> = HELD.iter().map(|part| side.job(part)).collect();
        (held[2].spec.max_attempts, held[2].spec.ttr) = (1, ttr(1));
        held[3] = side.kept();
        side.observer.add(held).await.expect("adds");
        // A reservation may return fewer when finding more would use up the short TTR of `last`, and none when a busy
        // machine has used it up.
        let time_limit = TimeLimit::new();
        while side.receipts.len() < HELD.len() {
            time_limit.check(|| format!("{} of {} were reserved", side.receipts.len(), HELD.len()));
            let held = side.observer.reserve(&plain(name), &claims(7), Wait::No).await.expect("reserves");
            side.receipts.extend(held.into_iter().map(|held| (held.job.id, held.receipt)));
        }
        for part in ["dead", "dead2"] {
            let buried = side.observer.bury(ALL, &side.id(part), side.receipt(part), None).await;
            buried.expect("buries").expect("is held");
        }
        let mut waiting: Vec<AddJob> = WAITING.iter().map(|part| side.job(part)).collect();
        waiting[2].due = Due::After(delay(seconds(60)));
        waiting[3].due = Due::After(delay(seconds(1)));
        side.observer.add(waiting).await.expect("adds");
        // The store under test, so that it knows the secret at once. On a busy machine its short timeouts may end first.
        let time_limit = TimeLimit::new();
        while let Err(error) =
            side.store.add_secret(&topic(name), signing_secret(OLD_SECRET, signing_key(2))).await
        {
            time_limit.check(|| error.to_string());
        }
        for id in side.ids().collect::<Vec<_>>() {
            let job = side.observer.get(ALL, &id).await.expect("gets");
            side.seen.extend(job.map(|job| SeenJob::new(&job)));
        }
        side
    }

    fn id(&self, part: &str) -> JobId {
        id(&format!("{}-{part}", self.name))
    }

    fn job(&self, part: &str) -> AddJob {
        AddJob { id: self.id(part), topic: topic(&self.name), ..job("x") }
    }

    fn receipt(&self, part: &str) -> &Receipt {
        &self.receipts[&self.id(part)]
    }

    fn ids(&self) -> impl Iterator<Item = JobId> {
        HELD.into_iter().chain(WAITING).chain(NEW).map(|part| self.id(part))
    }

    /// Performs a step and returns its outcome.
    pub async fn perform(&self, step: Step) -> Result<Answer> {
        let granted = match step {
            Step::Reserve | Step::ReserveNothing => self.reserve(step).await?,
            _ => return Ok((self.change(step).await?, Vec::new())),
        };
        let lines = granted.iter().map(|it| debug_text(&(&it.job, it.late, it.waited)));
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        Ok((lines.join("\n"), granted.into_iter().map(|it| (it.job.id, it.receipt)).collect()))
    }

    async fn reserve(&self, step: Step) -> Result<Vec<Reservation>> {
        let from = if step == Step::Reserve { plain(&self.name) } else { plain("nothing-there") };
        self.store
            .reserve(&from, &[Claim::default(), claim_for(ttr(90)), Claim::default()], Wait::No)
            .await
            .map(|mut granted| {
                // Which job gets which TTR is random.
                granted.iter_mut().for_each(|it| set_until(&mut it.job, Timestamp::MAX));
                granted
            })
    }

    async fn change(&self, step: Step) -> Result<String> {
        let (store, id) = (&self.store, |part: &str| self.id(part));
        let topic = topic(&self.name);
        let reason = Reason::new("why");
        Ok(match step {
            Step::Add => debug_text(&store.add(vec![self.job("new")]).await?),
            Step::AddDelayed => debug_text(&store.add(vec![self.delayed("new")]).await?),
            Step::AddBatch => debug_text(&store.add(self.batch()).await?),
            Step::Replace => debug_text(&store.add(self.replacements()).await?),
            Step::Reserve | Step::ReserveNothing => unreachable!("`perform` handles it"),
            Step::Cancel => {
                let grants = ["held", "held2"].map(|part| (id(part), self.receipt(part).clone()));
                debug_text(&store.cancel(grants.to_vec()).await?)
            }
            Step::Postpone => {
                let grants = ["held", "held2"].map(|part| (id(part), self.receipt(part).clone()));
                debug_text(&store.postpone(grants.to_vec(), delay(seconds(9))).await?)
            }
            Step::Finish => {
                debug_text::<Vec<Outcome<Finished>>>(&store.finish(ALL, self.finishes(&["held"])).await?)
            }
            Step::FinishBatch => {
                debug_text(&store.finish(ALL, self.finishes(&["held", "held2", "ready", "new"])).await?)
            }
            Step::FinishLate => debug_text(&store.finish(ALL, self.finishes(&["last", "last"])).await?),
            Step::FinishReplaced => debug_text(&store.finish(ALL, self.finishes(&["held", "held"])).await?),
            Step::ReleaseLater | Step::ReleaseNow | Step::ReleaseUsedUp => {
                let part = if step == Step::ReleaseUsedUp { "last" } else { "held" };
                let wait = if step == Step::ReleaseNow { 0 } else { 9 };
                let release = Release { due: Some(after(seconds(wait))), reason };
                debug_text(&store.release(ALL, &id(part), self.receipt(part), release).await?)
            }
            Step::AddRemembered => debug_text(&store.add(self.remembered()).await?),
            Step::FinishRemembered => debug_text(&store.finish(ALL, self.finishes(&["kept", "kept"])).await?),
            Step::DeleteRemembered => {
                debug_text(&store.delete(ALL, vec![id("kept"), id("new")], DeleteRule::AnyState).await?)
            }
            Step::ReleaseReplaced => {
                let release = Release::default();
                debug_text(&store.release(ALL, &id("held"), self.receipt("held"), release).await?)
            }
            Step::Touch => {
                let touch = Touch { ttr: Some(ttr(90)), note: NoteText::new("3 of 7") };
                debug_text(&store.touch(ALL, &id("held"), self.receipt("held"), touch).await?)
            }
            Step::Bury => debug_text(&store.bury(ALL, &id("held"), self.receipt("held"), reason).await?),
            Step::RequeueLater => {
                debug_text(&store.requeue(ALL, &id("dead"), after(seconds(9)), None).await?)
            }
            Step::RequeueNow => {
                debug_text::<Outcome<Job>>(&store.requeue(ALL, &id("dead"), after(seconds(0)), None).await?)
            }
            Step::PatchInPlace | Step::PatchNow | Step::PatchLater => debug_text(
                &store
                    .patch(
                        ALL,
                        &id(if step == Step::PatchNow { "delayed" } else { "ready" }),
                        patch(step),
                        None,
                    )
                    .await?,
            ),
            Step::Delete => {
                let ids = ["held", "dead", "ready", "delayed", "new"].map(id).to_vec();
                debug_text(&store.delete(ALL, ids, DeleteRule::AnyState).await?)
            }
            Step::Change => debug_text(&store.change(self.changes(), None).await?),
            Step::Get => debug_text(&store.get(ALL, &id("held")).await?),
            // The moves are left out: only metrics need them, so a repeat after a lost reply need not return them.
            Step::Promote => debug_text(&store.promote(100).await.map(drop)?),
            Step::PutSettings => {
                let settings = TopicSettings { ttr: Some(ttr(9)), ..TopicSettings::default() };
                debug_text(&store.put_settings(&topic, settings).await?)
            }
            Step::AddSecret => {
                let added = store.add_secret(&topic, signing_secret(NEW_SECRET, signing_key(1))).await?;
                debug_text(&matches!(added, AddedSecret::Created(_)))
            }
            Step::DeleteSecret => debug_text(&store.delete_secret(&topic, OLD_SECRET).await?),
            Step::Pause => {
                let pause = PausedOperations { delivery: true, intake: false };
                debug_text(&store.pause(&topic, pause, Pause::ENDLESS).await?)
            }
            Step::Topics => {
                let topics = store.topics(ALL, None, 10).await?;
                debug_text(&topics.iter().map(|(topic, stats)| (topic, counts(stats))).collect::<Vec<_>>())
            }
            Step::Topic => debug_text(&without_moments(store.topic(&topic).await?)),
            Step::Purge => debug_text(&purge_from(None, &*self.store, &topic, 100).await?.0),
            Step::ListReserved => debug_text(&self.list(State::Reserved).await?),
            Step::ListReady => debug_text(&self.list(State::Ready).await?),
            Step::ListDead => debug_text(&self.list(State::Dead).await?),
            Step::Notice => self.notice().await?,
            Step::Verify => {
                let verified = store.verify().await?;
                debug_text(&(verified.jobs, verified.faults))
            }
            Step::Check => debug_text(&store.check().await?),
        })
    }

    /// Writes, reads and deletes a notice.
    async fn notice(&self) -> Result<String> {
        let (notices, kind) = (self.store.notices(), NoticeKind::Operation);
        let text = NoticeContent::new("text").expect("is short");
        let known = notices.put_new(kind, &self.name, text).await?;
        let written = notices.get(kind, &self.name).await?.map(|notice| notice.content);
        Ok(debug_text(&(known, written, notices.delete(kind, &self.name).await?)))
    }

    /// A change of each kind, and one of a job that is not as it was seen.
    fn changes(&self) -> Vec<ChangeJob> {
        let mut changes = [
            ("due", JobChange::Delete),
            ("dead", JobChange::Requeue(after(seconds(0)).into())),
            ("dead2", JobChange::Delete),
            ("held", JobChange::Revoke { due: after(seconds(9)), reason: None }),
            ("ready", JobChange::Reschedule(Due::After(delay(seconds(9))))),
            ("ready2", JobChange::Delete),
            ("delayed", JobChange::Reschedule(Due::After(delay(seconds(0))))),
        ]
        .map(|(part, change)| {
            let seen = self.seen.iter().find(|seen| seen.id == self.id(part)).expect("was seen");
            ChangeJob { seen: seen.clone(), change }
        });
        changes[0].seen.moment = Timestamp::from_millis(0);
        changes.to_vec()
    }

    /// The jobs of the topic in a state, those of one moment sorted by their ids.
    async fn list(&self, state: State) -> Result<Vec<ListedJob>> {
        let filter = JobFilter { topic: Some(topic(&self.name)), ..JobFilter::all(state) };
        let page = self.store.list(&filter, Order::Ascending, None, 10).await?;
        assert_eq!(page.next, None);
        let mut jobs = page.jobs;
        jobs.sort_by_key(|listed| listed.job.id.to_string());
        Ok(jobs)
    }

    fn delayed(&self, part: &str) -> AddJob {
        AddJob { due: Due::After(delay(seconds(30))), ..self.job(part) }
    }

    /// Two new jobs, one that exists with the same content, and one that exists with another content.
    fn batch(&self) -> Vec<AddJob> {
        let other = AddJob { fingerprint: linger::job::Fingerprint([8; 16]), ..self.job("delayed") };
        vec![self.job("new"), self.job("ready"), other, self.delayed("new2")]
    }

    /// A new job, and one in the place of each of the others but for `last`, all of revision 2: ready or delayed, one with a
    /// callback, and one again with a lower revision.
    fn replacements(&self) -> Vec<AddJob> {
        let again = |part: &str, revision, wait| {
            let spec = JobSpec { revision: Some(revision), ..JobSpec::default() };
            AddJob { due: after(seconds(wait)), spec, if_exists: replace_by("w"), ..self.job(part) }
        };
        let mut jobs: Vec<AddJob> =
            ["new", "held", "dead", "ready", "delayed"].map(|part| again(part, 2, 0)).into();
        jobs.extend(["held2", "dead2", "ready2", "due"].map(|part| again(part, 2, 9)));
        jobs[3].spec.callback = Some(callback("http://a.example/"));
        jobs.push(again("ready2", 1, 0));
        jobs.push(self.job("due"));
        jobs
    }

    /// A job whose id is remembered when it ends.
    fn kept(&self) -> AddJob {
        AddJob { spec: JobSpec { dedup: Some(window(600)), ..JobSpec::default() }, ..self.job("kept") }
    }

    /// The request of a job that was finished, another one with its id, and a new job.
    fn remembered(&self) -> Vec<AddJob> {
        let other = AddJob { fingerprint: linger::job::Fingerprint([8; 16]), ..self.kept() };
        vec![self.kept(), other, AddJob { id: self.id("new"), ..self.kept() }]
    }

    fn finishes(&self, parts: &[&str]) -> Vec<FinishJob> {
        let receipt =
            |part: &str| matches!(part, "held" | "last" | "kept").then(|| self.receipt(part).clone());
        parts.iter().map(|part| FinishJob { id: self.id(part), receipt: receipt(part) }).collect()
    }

    /// Each job as text; `None` for a job that does not exist.
    pub async fn jobs(&self) -> Vec<String> {
        let mut jobs = Vec::new();
        for id in self.ids() {
            let mut job: Option<Job> = self.observer.get(ALL, &id).await.expect("gets");
            // Which job got which TTR is random.
            if let Some(job) = job.as_mut().filter(|job| job.reserved().is_some()) {
                set_until(job, Timestamp::MAX);
            }
            jobs.push(debug_text(&job));
        }
        jobs
    }

    /// The statistics and settings of the topic.
    pub async fn stats(&self) -> String {
        debug_text(&without_moments(self.store.topic(&topic(&self.name)).await.expect("reads")))
    }

    /// Deletes the jobs and settings of the case.
    pub async fn clear(&self) {
        self.observer.delete(ALL, self.ids().collect(), DeleteRule::AnyState).await.expect("deletes");
        let topic = topic(&self.name);
        self.observer.put_settings(&topic, TopicSettings::default()).await.expect("forgets");
        for secret in [OLD_SECRET, NEW_SECRET] {
            self.observer.delete_secret(&topic, secret).await.expect("deletes");
        }
        self.observer.resume(&topic, PausedOperations::ALL).await.expect("resumes");
        assert_eq!(self.observer.topic(&topic).await.expect("reads"), None);
    }
}

/// Does what a step needs in stores that are prepared: jobs become due, `last` times out, `held` is replaced, or `kept`
/// is finished.
pub async fn prepare_for(step: Step, clock: &ManualClock, prepared: &[&StepFixture]) {
    if matches!(step, Step::Promote | Step::FinishLate) {
        clock.advance(seconds(2));
    }
    if matches!(step, Step::FinishReplaced | Step::ReleaseReplaced) {
        for fixture in prepared {
            let newer = AddJob { if_exists: replace_by("w"), ..fixture.job("held") };
            fixture.observer.add(vec![newer]).await.expect("replaces");
        }
    }
    if step == Step::AddRemembered {
        for fixture in prepared {
            fixture.observer.finish(ALL, fixture.finishes(&["kept"])).await.expect("finishes");
        }
    }
    if step == Step::FinishLate {
        for fixture in prepared {
            fixture.observer.promote(100).await.expect("promotes");
        }
    }
}

const NEW_SECRET: SecretId = SecretId([1; 8]);
const OLD_SECRET: SecretId = SecretId([2; 8]);

fn signing_key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 24]).expect("valid")
}

/// Leaves out when secrets were added, because the stores use different clocks.
fn without_moments(mut stats: Option<TopicStats>) -> Option<TopicStats> {
    let secrets = stats.iter_mut().flat_map(|stats| &mut stats.config.secrets);
    secrets.for_each(|secret| secret.created_at = Timestamp::from_millis(0));
    stats
}

fn patch(step: Step) -> Patch {
    let due = match step {
        Step::PatchNow => Some(Due::After(delay(seconds(0)))),
        Step::PatchLater => Some(Due::After(delay(seconds(40)))),
        _ => None,
    };
    let retry = Some(RetrySchedule::new(vec![seconds(3)]).expect("valid"));
    let expiry = ExpiryChange::Set(Expire::After(delay(seconds(50))), Some(OnExpiry::Delete));
    Patch { due, ttr: Some(ttr(11)), max_attempts: Some(3), retry, expiry, body: Some(body("[1,2]")) }
}

fn counts(stats: &TopicStats) -> [u64; 4] {
    [stats.delayed, stats.ready, stats.reserved, stats.dead]
}

fn debug_text<T: Debug>(value: &T) -> String {
    format!("{value:?}")
}
