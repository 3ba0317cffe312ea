//! Adds of the model.

use linger::{
    job::{Actor, Attributes, History, HistoryEvent, IdEnd, Job, JobId, JobState, RememberedId, State},
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
        if let Some(outcome) = self.ended_before(content, &add) {
            return outcome;
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
            note: None,
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
        if job.spec.dedup.is_some() {
            content.remembered.remove(&add.id);
        }
        content.jobs.insert(add.id, entry);
        Ok(Added::Created(job))
    }

    /// Remembers the id of a job that ends, if its topic wants that.
    pub(super) fn remember_id(&self, content: &mut Content, id: &JobId, end: IdEnd) {
        let Some(Entry { job, fingerprint, .. }) = content.jobs.get(id) else { return };
        let Some(window) = job.spec.dedup else { return };
        let now = self.clock.read();
        let remembered = RememberedId {
            id: id.clone(),
            topic: job.topic.clone(),
            end,
            ended_at: now.rounded_down,
            until: now.after(window.as_duration()),
            fingerprint: *fingerprint,
            revision: job.spec.revision,
        };
        content.remembered.insert(id.clone(), remembered);
    }

    /// What an add finds whose id is remembered.
    fn ended_before(&self, content: &Content, add: &AddJob) -> Option<Outcome<Added>> {
        let now = self.clock.now();
        let found = content.remembered.get(&add.id).filter(|found| found.until > now).cloned()?;
        add.spec.dedup?;
        let (finished, same_topic) = (found.end == IdEnd::Finished, found.topic == add.topic);
        let replaces = add.if_exists != IfExists::Keep;
        Some(match (add.spec.revision, found.revision) {
            _ if !same_topic => Err(Refusal::EndedBefore(found)),
            (Some(new), Some(stored)) if replaces && new < stored => Err(Refusal::OlderRevision { stored }),
            (Some(new), Some(stored)) if replaces && new == stored => {
                if finished {
                    Ok(Added::FinishedBefore(found))
                } else {
                    Err(Refusal::EndedBefore(found))
                }
            }
            _ if replaces => return None,
            _ if finished && found.fingerprint == add.fingerprint => Ok(Added::FinishedBefore(found)),
            _ => Err(Refusal::EndedBefore(found)),
        })
    }

    /// Adds a job in the place of the one of its topic that has its id.
    fn replace_one(&self, content: &mut Content, by: Option<Actor>, add: AddJob) -> Outcome<Added> {
        let old = content.jobs.remove(&add.id).expect("the caller has seen it");
        // Of an id that has a job, only that job counts.
        let remembered = content.remembered.remove_entry(&add.id);
        let outcome = match (add.spec.revision, old.job.spec.revision) {
            (Some(new), Some(stored)) if new == stored => Ok(Added::Replayed(old.job.clone())),
            (Some(new), Some(stored)) if new < stored => Err(Refusal::OlderRevision { stored }),
            _ => self.add_one(content, AddJob { if_exists: IfExists::Keep, ..add.clone() }),
        };
        content.remembered.extend(remembered);
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
