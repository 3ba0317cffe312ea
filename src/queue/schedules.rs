//! Schedules as clients see and change them. `runner.rs` runs them, `upcoming.rs` plans their runs shortly before, and
//! `content.rs` has what the store keeps of one.
//!
//! A change reads a schedule, computes the new one and replaces it by comparison; it begins again if another process was faster.

pub(super) mod content;
pub(super) mod runner;
pub(super) mod upcoming;

use super::{
    error::{Error, Result},
    jobs::AddOutcome,
    limits::Limits,
    service::Queue,
};
use content::Content;
pub use upcoming::UpcomingRuns;

use crate::{
    job::{
        Due, JobId, NewJob, ScheduleName, Timestamp, TopicFilter,
        schedule::{self, PutResult, ScheduleSpec, ScheduleState, zone_database_version},
    },
    store::{ScheduleChange, ScheduleContent, SchedulePage, StoredSchedule},
};

/// Reads the template of a schedule's jobs: the fields of an add but id, delay and at. The error is a sentence.
pub type TemplateReader = fn(&str, &Limits) -> std::result::Result<NewJob, String>;

/// Most schedules of a store.
pub const MAX_SCHEDULES: usize = 10_000;
/// The longest template, in bytes.
pub const MAX_TEMPLATE: usize = 64 << 10;
/// How many schedules one call of the store reads, and about how many a list examines.
const PAGE: usize = 100;
const MAX_EXAMINED: usize = 1_000;
/// How often a change is tried before it fails because others were faster each time.
const MAX_TRIES: usize = 100;

/// A schedule at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleView {
    /// Its name.
    pub name: ScheduleName,
    /// What a client asked.
    pub spec: ScheduleSpec,
    /// What it remembers.
    pub state: ScheduleState,
    /// When it was read, by the store's clock.
    pub now: Timestamp,
}

/// A page of schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleList {
    /// The schedules of the caller's topics, by name.
    pub schedules: Vec<ScheduleView>,
    /// The name behind which the next page begins; `None` on the last one.
    pub next: Option<ScheduleName>,
}

/// What a PUT did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutEffect {
    /// The schedule is new.
    Created,
    /// It was changed.
    Changed,
    /// It had been so already.
    Unchanged,
}

/// What a change makes of a schedule: the new content, or `None` to leave it.
type Changed = Option<(ScheduleSpec, ScheduleState)>;

impl Queue {
    /// A schedule of the caller's topics.
    ///
    /// # Errors
    /// [`Error::ScheduleNotFound`], or the store's.
    pub async fn schedule(&self, scope: &TopicFilter, name: &ScheduleName) -> Result<ScheduleView> {
        let page = self.store.schedule(name).await?;
        let now = page.now;
        let view = views(page).next().transpose()?.filter(|view| scope.allows(&view.spec.topic));
        view.map(|view| ScheduleView { now, ..view }).ok_or(Error::ScheduleNotFound)
    }

    /// Up to `limit` schedules by name, behind `after`. The call ends when it has examined about a thousand: a page may be short or
    /// empty, and only one without [`next`](ScheduleList::next) is the last.
    ///
    /// # Errors
    /// The store's. A schedule that cannot be read is left out; `linger verify` names it.
    pub async fn schedules(
        &self,
        scope: &TopicFilter,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<ScheduleList> {
        let (mut schedules, mut after, mut examined) = (Vec::new(), after.cloned(), 0);
        loop {
            let page = self.store.schedules(after.as_ref(), PAGE).await?;
            let (is_last, count) = (page.is_last || page.schedules.is_empty(), page.schedules.len());
            let names: Vec<ScheduleName> = page.schedules.iter().map(|stored| stored.name.clone()).collect();
            for (name, view) in names.into_iter().zip(views(page)) {
                if let Some(view) = view.ok().filter(|view| scope.allows(&view.spec.topic)) {
                    if schedules.len() == limit {
                        return Ok(ScheduleList { schedules, next: after });
                    }
                    schedules.push(view);
                }
                after = Some(name);
            }
            examined += count;
            if is_last || examined >= MAX_EXAMINED {
                return Ok(ScheduleList { schedules, next: after.filter(|_| !is_last) });
            }
        }
    }

    /// Makes or changes a schedule. `template` is what the job of `spec` says; `expected` is the revision that it must have.
    ///
    /// # Errors
    /// [`Error::ScheduleExists`], [`Error::RevisionDiffers`], [`Error::TooManySchedules`], those of an add about the template, or
    /// the store's.
    pub async fn put_schedule(
        &self,
        scope: &TopicFilter,
        name: &ScheduleName,
        spec: &ScheduleSpec,
        template: NewJob,
        expected: Option<u64>,
    ) -> Result<(ScheduleView, PutEffect)> {
        self.check_put(name, template).await?;
        let mut effect = PutEffect::Unchanged;
        let put = |old: Option<&ScheduleView>, now| -> Result<Changed> {
            let state;
            (effect, state) = put_to(scope, old, spec, expected, now)?;
            Ok(state.map(|state| (spec.clone(), state)))
        };
        let view = self.change_schedule(scope, name, put).await?;
        Ok((view, effect))
    }

    /// The schedule that [`put_schedule`](Self::put_schedule) would make, without making it.
    ///
    /// # Errors
    /// Those of `put_schedule`.
    pub async fn preview_schedule(
        &self,
        scope: &TopicFilter,
        name: &ScheduleName,
        spec: &ScheduleSpec,
        template: NewJob,
        expected: Option<u64>,
    ) -> Result<ScheduleView> {
        self.check_put(name, template).await?;
        let page = self.store.schedule(name).await?;
        let now = page.now;
        let old = readable(scope, page)?;
        match put_to(scope, old.as_ref(), spec, expected, now)?.1 {
            None => old.ok_or(Error::ScheduleNotFound),
            Some(state) => Ok(ScheduleView { name: name.clone(), spec: spec.clone(), state, now }),
        }
    }

    /// Checks what a PUT says, but for the rule of the schedule.
    async fn check_put(&self, name: &ScheduleName, template: NewJob) -> Result<()> {
        self.check_template(template)?;
        let is_new = self.store.schedule(name).await?.schedules.is_empty();
        if is_new && self.store.schedule_count().await? >= MAX_SCHEDULES {
            return Err(Error::TooManySchedules { limit: MAX_SCHEDULES });
        }
        Ok(())
    }

    /// Deletes a schedule. The jobs of its runs stay.
    ///
    /// # Errors
    /// [`Error::ScheduleNotFound`], or the store's.
    pub async fn delete_schedule(&self, scope: &TopicFilter, name: &ScheduleName) -> Result<()> {
        for _ in 0..MAX_TRIES {
            let page = self.store.schedule(name).await?;
            let stored = page.schedules.first().map(|schedule| schedule.content.clone());
            if let Some(view) = readable(scope, page)? {
                in_scope(scope, Some(&view))?;
            }
            let Some(stored) = stored else { return Err(Error::ScheduleNotFound) };
            if self.replace_schedule(name, Some(stored), None).await? {
                return Ok(());
            }
        }
        Err(Error::keeps_changing(name))
    }

    /// Pauses a schedule: it has no runs until it is resumed.
    ///
    /// # Errors
    /// [`Error::ScheduleNotFound`], or the store's.
    pub async fn pause_schedule(&self, scope: &TopicFilter, name: &ScheduleName) -> Result<ScheduleView> {
        self.change_schedule(scope, name, |old, _| {
            let old = in_scope(scope, old)?;
            Ok(schedule::pause(&old.state).map(|state| (old.spec.clone(), state)))
        })
        .await
    }

    /// Resumes a schedule, without the runs that it would have had while it was paused.
    ///
    /// # Errors
    /// [`Error::ScheduleNotFound`], or the store's.
    pub async fn resume_schedule(&self, scope: &TopicFilter, name: &ScheduleName) -> Result<ScheduleView> {
        self.change_schedule(scope, name, |old, now| {
            let old = in_scope(scope, old)?;
            let resumed = schedule::resume(name, &old.spec, &old.state, now, zone_database_version());
            Ok(resumed.map(|state| (old.spec.clone(), state)))
        })
        .await
    }

    /// Adds a job of a schedule now: `run:<name>:<id>`. The schedule does not change.
    ///
    /// # Errors
    /// [`Error::ScheduleNotFound`], those of an add, or the store's.
    pub async fn run_schedule(
        &self,
        scope: &TopicFilter,
        name: &ScheduleName,
        id: &JobId,
        read: TemplateReader,
    ) -> Result<AddOutcome> {
        let ScheduleView { spec, .. } = self.schedule(scope, name).await?;
        let template = read(&spec.template, &self.limits).map_err(Error::TemplateRefused)?;
        let id = JobId::parse(&format!("run:{name}:{id}")).map_err(|_| {
            Error::Damaged(format!("schedule {name} has a run of a longer id than there may be"))
        })?;
        self.add(scope, NewJob { id: Some(id), due: Due::default(), ..template }, None).await
    }

    /// Checks what an add would check about a template.
    fn check_template(&self, template: NewJob) -> Result<()> {
        // With an id, a paused intake is no reason to refuse.
        self.resolve(NewJob { id: Some(JobId::generate()), ..template }, None).map(drop)
    }

    /// Replaces a schedule by what `change` makes of it, which may be called again. Returns it as it is now.
    async fn change_schedule(
        &self,
        scope: &TopicFilter,
        name: &ScheduleName,
        mut change: impl FnMut(Option<&ScheduleView>, Timestamp) -> Result<Changed>,
    ) -> Result<ScheduleView> {
        for _ in 0..MAX_TRIES {
            let page = self.store.schedule(name).await?;
            let now = page.now;
            let stored = page.schedules.first().map(|schedule| schedule.content.clone());
            let old = readable(scope, page)?;
            let Some((spec, state)) = change(old.as_ref(), now)? else {
                return old.ok_or(Error::ScheduleNotFound);
            };
            let content = Content { spec: spec.clone(), state: state.clone() }.encode(name, now);
            if self.replace_schedule(name, stored, Some(content)).await? {
                return Ok(ScheduleView { name: name.clone(), spec, state, now });
            }
        }
        Err(Error::keeps_changing(name))
    }

    /// Replaces the content of a schedule. Returns `false` if it is another one than expected.
    async fn replace_schedule(
        &self,
        name: &ScheduleName,
        expected: Option<ScheduleContent>,
        content: Option<ScheduleContent>,
    ) -> Result<bool> {
        let change = ScheduleChange { name: name.clone(), expected, content, run: None };
        let outcomes = self.store.change_schedules(vec![change]).await?;
        self.schedule_changed.notify_one();
        Ok(outcomes.first().is_some_and(std::result::Result::is_ok))
    }
}

/// What a PUT of `spec` does to a schedule, and the new state if it changes something.
fn put_to(
    scope: &TopicFilter,
    old: Option<&ScheduleView>,
    spec: &ScheduleSpec,
    expected: Option<u64>,
    now: Timestamp,
) -> Result<(PutEffect, Option<ScheduleState>)> {
    if old.is_some_and(|old| !scope.allows(&old.spec.topic)) {
        return Err(Error::ScheduleExists);
    }
    let revision = old.map_or(0, |old| old.state.revision);
    if let Some(expected) = expected.filter(|expected| *expected != revision) {
        return Err(Error::RevisionDiffers { expected, revision });
    }
    let before = old.map(|old| (&old.spec, &old.state));
    Ok(match schedule::put(before, spec, now, zone_database_version()) {
        PutResult::Unchanged => (PutEffect::Unchanged, None),
        PutResult::Created(state) => (PutEffect::Created, Some(state)),
        PutResult::Changed(state) => (PutEffect::Changed, Some(state)),
    })
}

fn in_scope<'a>(scope: &TopicFilter, old: Option<&'a ScheduleView>) -> Result<&'a ScheduleView> {
    old.filter(|old| scope.allows(&old.spec.topic)).ok_or(Error::ScheduleNotFound)
}

/// The schedule of a page, if there is one. A caller of all topics may replace one that cannot be read.
fn readable(scope: &TopicFilter, page: SchedulePage) -> Result<Option<ScheduleView>> {
    match views(page).next() {
        Some(Err(_)) if scope.is_all() => Ok(None),
        read => read.transpose(),
    }
}

/// The schedules of a page as clients see them.
fn views(page: SchedulePage) -> impl Iterator<Item = Result<ScheduleView>> {
    let now = page.now;
    page.schedules.into_iter().map(move |StoredSchedule { name, content }| {
        let Content { spec, state } = Content::decode(&content)
            .map_err(|problem| Error::Damaged(format!("schedule {name} {problem}")))?;
        Ok(ScheduleView { name, spec, state, now })
    })
}
