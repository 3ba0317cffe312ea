//! Every operation of a store on the same small furniture, its answer and what it leaves behind in words
//! that two stores can be compared by. Receipts are random and left out.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use linger::{
    job::{
        Due, Job, JobId, Reason, Receipt, RetrySchedule, SecretId, SigningKey, Timestamp, TopicPause,
        TopicSettings,
    },
    store::{
        AddJob, AddedSecret, Deleted, FinishJob, Finished, Patch, Release, Requeued, Reservation, Result,
        Store, TopicStats,
    },
};

use crate::harness::jobs::*;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Add,
    AddDelayed,
    AddBatch,
    Reserve,
    ReserveNothing,
    Cancel,
    Finish,
    FinishBatch,
    ReleaseLater,
    ReleaseNow,
    ReleaseUsedUp,
    Touch,
    Bury,
    RequeueLater,
    RequeueNow,
    PatchInPlace,
    PatchNow,
    PatchLater,
    Delete,
    Get,
    Promote,
    PutSettings,
    AddSecret,
    DeleteSecret,
    Pause,
    Topics,
    Topic,
    Purge,
    Dead,
    RequeueDead,
    DeleteDead,
    Verify,
    Check,
}

impl Step {
    pub const ALL: [Self; 33] = [
        Self::Add,
        Self::AddDelayed,
        Self::AddBatch,
        Self::Reserve,
        Self::ReserveNothing,
        Self::Cancel,
        Self::Finish,
        Self::FinishBatch,
        Self::ReleaseLater,
        Self::ReleaseNow,
        Self::ReleaseUsedUp,
        Self::Touch,
        Self::Bury,
        Self::RequeueLater,
        Self::RequeueNow,
        Self::PatchInPlace,
        Self::PatchNow,
        Self::PatchLater,
        Self::Delete,
        Self::Get,
        Self::Promote,
        Self::PutSettings,
        Self::AddSecret,
        Self::DeleteSecret,
        Self::Pause,
        Self::Topics,
        Self::Topic,
        Self::Purge,
        Self::Dead,
        Self::RequeueDead,
        Self::DeleteDead,
        Self::Verify,
        Self::Check,
    ];

    /// Whether it fails at the first fault, by design: whoever asks wants to know how it is now.
    pub fn is_impatient(self) -> bool {
        matches!(self, Self::Verify | Self::Check)
    }
}

/// The jobs, by the last part of their ids: five to be held, the rest waiting.
const HELD: [&str; 5] = ["held", "held2", "last", "dead", "dead2"];
const WAITING: [&str; 4] = ["ready", "ready2", "delayed", "due"];
const NEW: [&str; 2] = ["new", "new2"];

/// A store with the furniture of one case: all ids begin with the name of its topic.
pub struct Side {
    /// Does the step.
    store: Arc<dyn Store>,
    /// Furnishes before and looks after it.
    keeper: Arc<dyn Store>,
    name: String,
    receipts: BTreeMap<JobId, Receipt>,
}

/// What an operation answered, and the reservations that it granted.
pub type Answer = (String, Vec<(JobId, Receipt)>);

impl Side {
    /// A secret, two jobs held, one held for the last time and not for long, two dead, two ready, one due in a
    /// second and one in a minute.
    pub async fn furnish(store: &Arc<dyn Store>, keeper: &Arc<dyn Store>, name: &str) -> Self {
        let (store, keeper) = (store.clone(), keeper.clone());
        let mut side = Self { store, keeper, name: name.to_owned(), receipts: BTreeMap::new() };
        let mut held: Vec<AddJob> = HELD.iter().map(|part| side.job(part)).collect();
        (held[2].max_attempts, held[2].ttr) = (1, ttr(1));
        side.keeper.add(held).await.expect("adds");
        let held = side.keeper.reserve(&plain(name), &[None; 6], Wait::No).await.expect("reserves");
        assert_eq!(held.len(), HELD.len());
        side.receipts = held.into_iter().map(|held| (held.job.id, held.receipt)).collect();
        for part in ["dead", "dead2"] {
            let buried = side.keeper.bury(ALL, &side.id(part), side.receipt(part), None).await;
            buried.expect("buries").expect("is held");
        }
        let mut waiting: Vec<AddJob> = WAITING.iter().map(|part| side.job(part)).collect();
        waiting[2].due = Due::After(delay(seconds(60)));
        waiting[3].due = Due::After(delay(seconds(1)));
        side.keeper.add(waiting).await.expect("adds");
        side.store.add_secret(&topic(name), OLD_SECRET, signing_key(2)).await.expect("adds");
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

    /// Does it, and tells what came of it.
    pub async fn perform(&self, step: Step) -> Result<Answer> {
        let granted = match step {
            Step::Reserve | Step::ReserveNothing => self.reserve(step).await?,
            _ => return Ok((self.change(step).await?, Vec::new())),
        };
        let told = granted.iter().map(|it| words(&(&it.job, it.late, it.waited)));
        let mut told: Vec<String> = told.collect();
        told.sort();
        Ok((told.join("\n"), granted.into_iter().map(|it| (it.job.id, it.receipt)).collect()))
    }

    async fn reserve(&self, step: Step) -> Result<Vec<Reservation>> {
        let from = if step == Step::Reserve { plain(&self.name) } else { plain("nothing-there") };
        self.store.reserve(&from, &[None, Some(ttr(7)), None], Wait::No).await.map(|mut granted| {
            // Which of them got which TTR is chance.
            granted.iter_mut().for_each(|it| it.job.reserved_until = None);
            granted
        })
    }

    async fn change(&self, step: Step) -> Result<String> {
        let (store, id) = (&self.store, |part: &str| self.id(part));
        let topic = topic(&self.name);
        let reason = Reason::new("why");
        Ok(match step {
            Step::Add => words(&store.add(vec![self.job("new")]).await?),
            Step::AddDelayed => words(&store.add(vec![self.delayed("new")]).await?),
            Step::AddBatch => words(&store.add(self.batch()).await?),
            Step::Reserve | Step::ReserveNothing => unreachable!("told elsewhere"),
            Step::Cancel => {
                let grants = ["held", "held2"].map(|part| (id(part), self.receipt(part).clone()));
                words(&store.cancel(grants.to_vec()).await?)
            }
            Step::Finish => words::<Vec<Finished>>(&store.finish(ALL, self.finishes(&["held"])).await?),
            Step::FinishBatch => {
                words(&store.finish(ALL, self.finishes(&["held", "held2", "ready", "new"])).await?)
            }
            Step::ReleaseLater | Step::ReleaseNow | Step::ReleaseUsedUp => {
                let part = if step == Step::ReleaseUsedUp { "last" } else { "held" };
                let wait = if step == Step::ReleaseNow { 0 } else { 9 };
                let release = Release { delay: Some(delay(seconds(wait))), reason };
                words(&store.release(ALL, &id(part), self.receipt(part), release).await?)
            }
            Step::Touch => words(&store.touch(ALL, &id("held"), self.receipt("held"), Some(ttr(90))).await?),
            Step::Bury => words(&store.bury(ALL, &id("held"), self.receipt("held"), reason).await?),
            Step::RequeueLater => words(&store.requeue(ALL, &id("dead"), delay(seconds(9))).await?),
            Step::RequeueNow => words::<Requeued>(&store.requeue(ALL, &id("dead"), delay(seconds(0))).await?),
            Step::PatchInPlace | Step::PatchNow | Step::PatchLater => words(
                &store
                    .patch(ALL, &id(if step == Step::PatchNow { "delayed" } else { "ready" }), patch(step))
                    .await?,
            ),
            Step::Delete => {
                let ids = ["held", "dead", "ready", "delayed", "new"].map(id).to_vec();
                words::<Vec<Deleted>>(&store.delete(ALL, ids).await?)
            }
            Step::Get => words(&store.get(ALL, &id("held")).await?),
            // Its moves are told once, also when that answer is lost: they are for the figures.
            Step::Promote => words(&store.promote(100).await.map(drop)?),
            Step::PutSettings => {
                let settings = TopicSettings { ttr: Some(ttr(9)), ..TopicSettings::default() };
                words(&store.put_settings(&topic, settings).await?)
            }
            Step::AddSecret => {
                let added = store.add_secret(&topic, NEW_SECRET, signing_key(1)).await?;
                words(&matches!(added, AddedSecret::Created(_)))
            }
            Step::DeleteSecret => words(&store.delete_secret(&topic, OLD_SECRET).await?),
            Step::Pause => {
                let pause = TopicPause { delivery: true, intake: false };
                words(&store.change_pause(&topic, pause, TopicPause::NONE).await?)
            }
            Step::Topics => {
                let topics = store.topics(None, 10).await?;
                words(&topics.iter().map(|(topic, stats)| (topic, counts(stats))).collect::<Vec<_>>())
            }
            Step::Topic => words(&without_moments(store.topic(&topic).await?)),
            Step::Purge => words(&self.purge().await?),
            Step::Dead => words(&store.dead(&topic, None, 10).await?),
            Step::RequeueDead => words(&store.requeue_dead(&topic, 10).await?),
            Step::DeleteDead => words(&store.delete_dead(&topic, 10).await?),
            Step::Verify => {
                let verified = store.verify().await?;
                words(&(verified.jobs, verified.faults))
            }
            Step::Check => words(&store.check().await?),
        })
    }

    async fn purge(&self) -> Result<usize> {
        let (mut deleted, mut cursor) = (0, None);
        loop {
            let slice = self.store.purge(&topic(&self.name), cursor, 100).await?;
            deleted += slice.deleted;
            cursor = slice.next;
            if cursor.is_none() {
                return Ok(deleted);
            }
        }
    }

    fn delayed(&self, part: &str) -> AddJob {
        AddJob { due: Due::After(delay(seconds(30))), ..self.job(part) }
    }

    /// New ones, one that is there and the same, one that is there and other.
    fn batch(&self) -> Vec<AddJob> {
        let other = AddJob { fingerprint: linger::job::Fingerprint([8; 16]), ..self.job("delayed") };
        vec![self.job("new"), self.job("ready"), other, self.delayed("new2")]
    }

    fn finishes(&self, parts: &[&str]) -> Vec<FinishJob> {
        let receipt = |part: &str| (part == "held").then(|| self.receipt(part).clone());
        parts.iter().map(|part| FinishJob { id: self.id(part), receipt: receipt(part) }).collect()
    }

    /// Each job as it stands, `None` where there is none.
    pub async fn jobs(&self) -> Vec<String> {
        let mut jobs = Vec::new();
        for id in self.ids() {
            let job: Option<Job> = self.keeper.get(ALL, &id).await.expect("gets");
            // Which of the reserved got which TTR is chance.
            let till = job.as_ref().and_then(|job| job.reserved_until).is_some();
            jobs.push(words(&(till, job.map(|job| Job { reserved_until: None, ..job }))));
        }
        jobs
    }

    /// The topic's figures and settings.
    pub async fn figures(&self) -> String {
        words(&without_moments(self.store.topic(&topic(&self.name)).await.expect("reads")))
    }

    /// Leaves nothing of the case.
    pub async fn clear(&self) {
        self.keeper.delete(ALL, self.ids().collect()).await.expect("deletes");
        let topic = topic(&self.name);
        self.store.put_settings(&topic, TopicSettings::default()).await.expect("forgets");
        for secret in [OLD_SECRET, NEW_SECRET] {
            self.store.delete_secret(&topic, secret).await.expect("deletes");
        }
        self.store.change_pause(&topic, TopicPause::NONE, TopicPause::ALL).await.expect("resumes");
        assert_eq!(self.store.topic(&topic).await.expect("reads"), None);
    }
}

const NEW_SECRET: SecretId = SecretId([1; 8]);
const OLD_SECRET: SecretId = SecretId([2; 8]);

fn signing_key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 24]).expect("valid")
}

/// The moments at which secrets were added are those of different clocks.
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
    Patch { due, ttr: Some(ttr(11)), max_attempts: Some(3), retry, body: Some(body("[1,2]")) }
}

fn counts(stats: &TopicStats) -> [u64; 4] {
    [stats.delayed, stats.ready, stats.reserved, stats.dead]
}

fn words<T: Debug>(value: &T) -> String {
    format!("{value:?}")
}
