//! Adds of the model.

use linger::{
    job::{Actor, Attributes, History, HistoryEvent, Job, JobState, State},
    store::{AddJob, Added, IfExists, Outcome, Refusal},
};

use super::{Content, Entry, Naive, copied};

impl Naive {
    pub(super) fn add_one(&self, content: &mut Content, add: AddJob) -> Outcome<Added> {
        if let IfExists::Replace { by } = &add.if_exists
            && content.jobs.get(&add.id).is_some_and(|entry| entry.job.topic == add.topic)
        {
            return self.replace_one(content, by.clone(), add);
        }
        if let Some(entry) = content.jobs.get(&add.id) {
            let job = entry.job.clone();
            return if entry.fingerprint == add.fingerprint {
                Ok(Added::Replayed(job))
            } else {
                Err(Refusal::Exists { state: job.state(), topic: job.topic, due_at: job.due_at })
            };
        }
        if add.is_paused {
            return Err(Refusal::IntakePaused);
        }
        let now = self.clock.read();
        content.arrivals += 1;
        let job = Job {
            id: add.id.clone(),
            topic: add.topic,
            state: JobState::Delayed,
            created_at: now.rounded_down,
            due_at: now.rounded_down,
            expires_at: None,
            spec: add.spec,
            attempts: 0,
            reason: None,
            history: History::default(),
            body: copied(&add.body),
        };
        let arrival = content.arrivals;
        let mut entry = Entry {
            job,
            fingerprint: add.fingerprint,
            receipt: None,
            timed_out: None,
            ready_at: now.rounded_down,
            arrival,
            other: Attributes::default(),
        };
        let due_at = add.due.resolve(now);
        if Self::expires_first(&mut entry.job, due_at) {
            return Err(Refusal::ExpiresFirst);
        }
        self.wait_until(&mut entry, due_at);
        let job = entry.job.clone();
        content.jobs.insert(add.id, entry);
        Ok(Added::Created(job))
    }

    /// Adds a job in the place of the one of its topic that has its id.
    fn replace_one(&self, content: &mut Content, by: Option<Actor>, add: AddJob) -> Outcome<Added> {
        let old = content.jobs.remove(&add.id).expect("the caller has seen it");
        let outcome = match (add.spec.revision, old.job.spec.revision) {
            (Some(new), Some(stored)) if new == stored => Ok(Added::Replayed(old.job.clone())),
            (Some(new), Some(stored)) if new < stored => Err(Refusal::OlderRevision { stored }),
            _ => self.add_one(content, AddJob { if_exists: IfExists::Keep, ..add.clone() }),
        };
        let Ok(Added::Created(_)) = outcome else {
            content.jobs.insert(add.id, old);
            return outcome;
        };
        let entry = content.jobs.get_mut(&add.id).expect("was added");
        entry.job.history = old.job.history.clone();
        self.remember(&mut entry.job, HistoryEvent::Replaced, by.as_ref());
        if old.job.state() == State::Reserved {
            (entry.job.state, entry.receipt) = (old.job.state, old.receipt);
        }
        Ok(Added::Replaced(entry.job.clone()))
    }
}
