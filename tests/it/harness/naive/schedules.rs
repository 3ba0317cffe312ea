//! The schedules of the model.

use std::time::Duration;

use async_trait::async_trait;
use linger::{
    job::{Due, JobId, ScheduleName, State, TopicFilter},
    store::{
        PreviousRun, Result, ScheduleChange, ScheduleChanged, ScheduleContent, ScheduleOutcome, SchedulePage,
        ScheduleRefusal, ScheduleRun, ScheduleStore, StoredSchedule,
    },
};

use super::{Content, Naive};

impl Naive {
    fn schedule_page<'a>(
        &self,
        found: impl Iterator<Item = (&'a ScheduleName, &'a ScheduleContent)>,
    ) -> SchedulePage {
        let found =
            found.map(|(name, content)| StoredSchedule { name: name.clone(), content: content.clone() });
        SchedulePage { schedules: found.collect(), now: self.clock.now(), is_last: true, next_in: None }
    }

    fn change_schedule(&self, content: &mut Content, change: ScheduleChange) -> ScheduleOutcome {
        if content.schedules.get(&change.name) != change.expected.as_ref() {
            return Err(ScheduleRefusal::Differs);
        }
        let (mut stored, mut changed) = (change.content, ScheduleChanged::Done { gave_way: false });
        if let Some(ScheduleRun { job, previous }) = change.run {
            let Due::At(due) = job.due else { panic!("a run is due at a moment") };
            if due > self.clock.now() {
                return Err(ScheduleRefusal::Early);
            }
            let state = |content: &mut Content, id: &JobId| {
                content.find(&TopicFilter::ALL, id).map(|entry| entry.job.state())
            };
            match previous {
                Some(PreviousRun::Skips(id, instead))
                    if state(content, &id).is_some_and(|state| state != State::Dead) =>
                {
                    (stored, changed) = (Some(instead), ScheduleChanged::Skipped);
                }
                previous => {
                    if !content.jobs.contains_key(&job.id) {
                        let id = job.id.clone();
                        self.add_one(content, job).map_err(ScheduleRefusal::Job)?;
                        content.jobs.get_mut(&id).expect("was added").job.due_at = due;
                    }
                    if let Some(PreviousRun::GivesWay(id)) = previous
                        && matches!(state(content, &id), Some(State::Delayed | State::Ready))
                    {
                        content.jobs.remove(&id);
                        changed = ScheduleChanged::Done { gave_way: true };
                    }
                }
            }
        }
        match stored {
            Some(stored) => drop(content.schedules.insert(change.name, stored)),
            None => drop(content.schedules.remove(&change.name)),
        }
        Ok(changed)
    }
}

#[async_trait]
impl ScheduleStore for Naive {
    async fn schedule(&self, name: &ScheduleName) -> Result<SchedulePage> {
        let content = self.content();
        Ok(self.schedule_page(content.schedules.get_key_value(name).into_iter()))
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage> {
        let content = self.content();
        let behind = content.schedules.iter().filter(|(name, _)| after.is_none_or(|after| *name > after));
        let page = self.schedule_page(behind.take(limit));
        Ok(SchedulePage { is_last: page.schedules.len() < limit, ..page })
    }

    async fn schedule_count(&self) -> Result<usize> {
        Ok(self.content().schedules.len())
    }

    async fn due_schedules(&self, within: Duration, limit: usize) -> Result<SchedulePage> {
        let (content, now) = (self.content(), self.clock.now());
        let until = now.after(within);
        let mut agenda: Vec<_> =
            content.schedules.iter().filter_map(|schedule| Some((schedule.1.next?, schedule))).collect();
        agenda.sort_by_key(|(next, _)| *next);
        let later = agenda.iter().find(|(next, _)| *next > until).map(|(next, _)| next.since(now));
        let due = agenda.into_iter().take_while(|(next, _)| *next <= until).take(limit);
        Ok(SchedulePage { next_in: later, ..self.schedule_page(due.map(|(_, schedule)| schedule)) })
    }

    async fn change_schedules(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleOutcome>> {
        let mut content = self.content();
        Ok(changes.into_iter().map(|change| self.change_schedule(&mut content, change)).collect())
    }
}
