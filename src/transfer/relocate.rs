//! The steps of a move. Passes make the target equal to the source while that is still served; the last one closes the
//! source, makes the target equal, and opens it. Each step can be repeated after a crash, and at no moment may servers use
//! both.
//!
//! ```text
//! source   served ─► source, closed ─► moved
//!            ▲              │
//!            └── abandoned ─┘
//! target   empty ─► claimed ─► target ─► opening ─► opened
//! ```
//!
//! The mark of the source decides: `moved` and an abandoned move exclude each other, because both replace `source` in one
//! step. A target is opened only once its source is `moved`, and from then on nothing is copied to it.
//!
//! A Redis that fails over may lose what was stored last: jobs of the target, the mark or a fence of the source. So the source
//! is `moved` only if the servers of both stores are the same as before it was closed, once their replicas have everything.
//!
//! A run that wakes late finds another mark than its own. Its changes to a store on Redis are refused, because each later
//! run has set a fence with a higher number.

use std::time::Duration;

use super::{
    compare::holds_anything,
    counted,
    file::TransferError,
    pass::{PassReport, copy_differences},
    watcher::Watcher,
};
use crate::store::{self, ClockOffsets, Movable, MoveMark, MoveRole, ServerSet};

/// How much the clocks of two stores may differ: jobs become due earlier or later by as much.
const MOST_APART: Duration = Duration::from_secs(1);

/// A store, by its id and by the name of its place for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedStore {
    /// [`Movable::store_id`].
    pub id: String,
    /// Such as `embedded (/var/lib/linger)`.
    pub name: String,
}

/// The target of a move, for this run of the program.
pub struct Relocation<'a> {
    source: NamedStore,
    target: &'a dyn Movable,
    target_name: String,
    run: String,
}

/// What a target says when a run begins.
enum TargetClaim {
    /// It is ours, under this mark.
    Ours(MoveMark),
    /// It was opened.
    Opened,
}

impl<'a> Relocation<'a> {
    /// A move from `source` to `target`, which is open for a move.
    ///
    /// # Errors
    /// Both are the same store, or one is a copy of the other.
    pub fn new(
        source: NamedStore,
        target: &'a dyn Movable,
        target_name: String,
    ) -> Result<Self, TransferError> {
        if source.id == target.store_id() {
            return Err(refused(format!("{target_name} is the source itself, or a copy of it")));
        }
        Ok(Self { source, target, target_name, run: new_run() })
    }

    /// One pass, beside the servers of the source, which has this mark and these clocks. `records` begins to read the source
    /// once the target is ready.
    ///
    /// # Errors
    /// Why the target is not as the source.
    pub async fn copy<R>(
        &self,
        source_mark: Option<&MoveMark>,
        clocks: ClockOffsets,
        records: impl FnOnce() -> R,
        watcher: &mut dyn Watcher,
    ) -> Result<PassReport, TransferError>
    where
        R: Future<Output = store::Result<Box<dyn store::RecordReader>>>,
    {
        self.check_source(source_mark)?;
        let complete = || refused(format!("the move to {} is complete already", self.target_name));
        if source_mark.is_some_and(|mark| mark.role == MoveRole::Moved) {
            return Err(complete());
        }
        self.check_clocks(clocks).await?;
        let TargetClaim::Ours(mark) = self.claim().await? else { return Err(complete()) };
        let passed = copy_differences(records, self.target, false, watcher).await?;
        // Otherwise another run may have replaced what this one has copied.
        if self.target_mark().await? == Some(mark) { Ok(passed) } else { Err(taken_over(&self.target_name)) }
    }

    /// Closes the source, copies the rest, compares everything, and opens the target. `None` if that was done before. Records
    /// of the source that cannot be read end it, unless they may be left behind.
    ///
    /// # Errors
    /// Why the target is not open. The source may be closed; the next run continues.
    pub async fn complete(
        &self,
        source: &dyn Movable,
        without_broken: bool,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<PassReport>, TransferError> {
        let found = self.source_mark(source).await?;
        self.check_source(found.as_ref())?;
        if found.as_ref().is_some_and(|mark| mark.role == MoveRole::Moved) {
            self.open_target().await?;
            return Ok(None);
        }
        let clocks = source.clock_offsets().await.map_err(|error| failed(&self.source.name, &error))?;
        self.check_clocks(clocks).await?;
        let servers = self.servers(source).await?;
        let claim = self.claim().await?;
        let closed = self.close_source(source, found).await?;
        let passed = match claim {
            TargetClaim::Ours(_) => Some(self.copy_rest(source, without_broken, watcher).await?),
            // The source has lost its mark, such as in a failover. Nothing may be copied any more.
            TargetClaim::Opened => None,
        };
        self.wait_for_replicas(source).await?;
        self.check_servers(source, servers).await?;
        let moved = closed.with_role(MoveRole::Moved);
        self.replace_source_mark(source, Some(&closed), &moved).await?;
        source.wait_for_replicas().await.map_err(|error| failed(&self.source.name, &error))?;
        self.open_target().await?;
        Ok(passed)
    }

    /// The last pass, and the comparison.
    async fn copy_rest(
        &self,
        source: &dyn Movable,
        without_broken: bool,
        watcher: &mut dyn Watcher,
    ) -> Result<PassReport, TransferError> {
        let passed = copy_differences(|| source.records(), self.target, without_broken, watcher).await?;
        if passed.broken > 0 && !without_broken {
            return Err(TransferError::Failed(format!(
                "{} cannot be moved: repair what is broken, or leave it behind with --without-broken",
                counted(passed.broken, "broken record")
            )));
        }
        if !passed.changed_nothing() {
            let mut quiet = |_: &str| ();
            let compared =
                copy_differences(|| source.records(), self.target, without_broken, &mut quiet).await?;
            if !compared.changed_nothing() {
                return Err(TransferError::Failed(format!(
                    "the target differed from the source after everything was copied, such as in {}; run the command again",
                    compared.example.as_deref().unwrap_or("what only the target had")
                )));
            }
        }
        Ok(passed)
    }

    /// Waits for the replicas of both stores: whatever fails over from here on has all jobs, fences and marks.
    async fn wait_for_replicas(&self, source: &dyn Movable) -> Result<(), TransferError> {
        self.target.wait_for_replicas().await.map_err(|error| failed(&self.target_name, &error))?;
        source.wait_for_replicas().await.map_err(|error| failed(&self.source.name, &error))
    }

    /// The servers of the source, and those of the target.
    async fn servers(&self, source: &dyn Movable) -> Result<[ServerSet; 2], TransferError> {
        let of_source = source.servers().await.map_err(|error| failed(&self.source.name, &error))?;
        let of_target = self.target.servers().await.map_err(|error| failed(&self.target_name, &error))?;
        Ok([of_source, of_target])
    }

    /// Fails if a server has been replaced since: it may have lost what was copied or closed.
    async fn check_servers(&self, source: &dyn Movable, before: [ServerSet; 2]) -> Result<(), TransferError> {
        let names = [&self.source.name, &self.target_name];
        for ((now, before), name) in self.servers(source).await?.iter().zip(&before).zip(names) {
            if !now.has_stayed_since(before) {
                return Err(TransferError::Failed(format!(
                    "{name}: a server was replaced or lost a replica meanwhile, and jobs may be missing; run the command again"
                )));
            }
        }
        Ok(())
    }

    /// Opens the target, unless that was done.
    async fn open_target(&self) -> Result<(), TransferError> {
        let Some(mark) = self.target_mark().await? else { return Ok(()) };
        if mark.source != self.source.id || ![MoveRole::Target, MoveRole::Opening].contains(&mark.role) {
            return Ok(());
        }
        let opening = self.own_mark(MoveRole::Opening, Some(&mark));
        self.replace_mark(Some(&mark), &opening).await?;
        self.set_fence(opening.number, false).await?;
        self.replace_mark(Some(&opening), &opening.with_role(MoveRole::Opened)).await?;
        self.target.wait_for_replicas().await.map_err(|error| failed(&self.target_name, &error))
    }

    /// Refuses a source that takes part in another move.
    fn check_source(&self, mark: Option<&MoveMark>) -> Result<(), TransferError> {
        let Some(mark) = mark else { return Ok(()) };
        match mark.role {
            MoveRole::Opened | MoveRole::Free => Ok(()),
            MoveRole::Source | MoveRole::Moved if mark.target == self.target.store_id() => Ok(()),
            MoveRole::Source | MoveRole::Moved | MoveRole::Claimed | MoveRole::Target | MoveRole::Opening => {
                Err(refused(format!("{}: {}", self.source.name, mark.forbids().unwrap_or_default())))
            }
        }
    }

    /// Refuses stores whose clocks differ by more than a second.
    async fn check_clocks(&self, source: ClockOffsets) -> Result<(), TransferError> {
        let target = self.target.clock_offsets().await;
        let apart = source.and(target.map_err(|error| failed(&self.target_name, &error))?).apart();
        if apart <= MOST_APART {
            return Ok(());
        }
        Err(refused(format!(
            "the clocks of the servers of {} and {} differ by {:.1} s, and jobs would be due earlier or later by as much; \
             set them right first (at most 1 s is allowed)",
            self.source.name,
            self.target_name,
            apart.as_secs_f64()
        )))
    }

    /// Makes the target ours, closed to all others.
    async fn claim(&self) -> Result<TargetClaim, TransferError> {
        let found = self.target_mark().await?;
        let is_of_source = found.as_ref().is_some_and(|mark| mark.source == self.source.id);
        let role = found.as_ref().map_or(MoveRole::Free, |mark| mark.role);
        match role {
            MoveRole::Opening | MoveRole::Opened if is_of_source => Ok(TargetClaim::Opened),
            MoveRole::Target if is_of_source => {
                let own = self.own_mark(MoveRole::Target, found.as_ref());
                self.replace_mark(found.as_ref(), &own).await?;
                self.set_fence(own.number, true).await?;
                Ok(TargetClaim::Ours(own))
            }
            MoveRole::Claimed if is_of_source => self.claim_empty(found.as_ref()).await,
            MoveRole::Opened | MoveRole::Free => {
                // Before its servers, if it has any, are disturbed.
                if self.target_holds_anything().await? {
                    return Err(self.is_not_empty());
                }
                self.claim_empty(found.as_ref()).await
            }
            MoveRole::Source | MoveRole::Moved => Err(refused(format!(
                "{}: its jobs were moved away, or are being moved; a move needs a new store",
                self.target_name
            ))),
            MoveRole::Claimed | MoveRole::Target | MoveRole::Opening => {
                let other = found.map(|mark| mark.other).unwrap_or_default();
                Err(refused(format!("{}: it takes part in a move from {other}", self.target_name)))
            }
        }
    }

    /// Closes a new target, which must be empty; otherwise leaves it as it was.
    async fn claim_empty(&self, found: Option<&MoveMark>) -> Result<TargetClaim, TransferError> {
        let claimed = self.own_mark(MoveRole::Claimed, found);
        self.replace_mark(found, &claimed).await?;
        self.set_fence(claimed.number, true).await?;
        // Its servers, if it has any, can add nothing from here on.
        if self.target_holds_anything().await? {
            self.set_fence(claimed.number, false).await?;
            self.replace_mark(Some(&claimed), &claimed.with_role(MoveRole::Free)).await?;
            return Err(self.is_not_empty());
        }
        let own = claimed.with_role(MoveRole::Target);
        self.replace_mark(Some(&claimed), &own).await?;
        Ok(TargetClaim::Ours(own))
    }

    async fn target_holds_anything(&self) -> Result<bool, TransferError> {
        let records = self.target.records().await.map_err(|error| failed(&self.target_name, &error))?;
        holds_anything(records).await.map_err(|error| failed(&self.target_name, &error))
    }

    /// Closes the source, and returns its new mark.
    async fn close_source(
        &self,
        source: &dyn Movable,
        found: Option<MoveMark>,
    ) -> Result<MoveMark, TransferError> {
        let mark = MoveMark {
            role: MoveRole::Source,
            number: next_number(found.as_ref()),
            run: self.run.clone(),
            source: self.source.id.clone(),
            target: self.target.store_id(),
            other: self.target_name.clone(),
        };
        self.replace_source_mark(source, found.as_ref(), &mark).await?;
        check_done(&self.source.name, source.set_fence(mark.number, true).await)?;
        Ok(mark)
    }

    /// The target's next mark.
    fn own_mark(&self, role: MoveRole, found: Option<&MoveMark>) -> MoveMark {
        MoveMark {
            role,
            number: next_number(found),
            run: self.run.clone(),
            source: self.source.id.clone(),
            target: self.target.store_id(),
            other: self.source.name.clone(),
        }
    }

    async fn target_mark(&self) -> Result<Option<MoveMark>, TransferError> {
        self.target.move_mark().await.map_err(|error| failed(&self.target_name, &error))
    }

    async fn source_mark(&self, source: &dyn Movable) -> Result<Option<MoveMark>, TransferError> {
        source.move_mark().await.map_err(|error| failed(&self.source.name, &error))
    }

    async fn set_fence(&self, number: u64, closed: bool) -> Result<(), TransferError> {
        check_done(&self.target_name, self.target.set_fence(number, closed).await)
    }

    async fn replace_mark(&self, was: Option<&MoveMark>, mark: &MoveMark) -> Result<(), TransferError> {
        check_done(&self.target_name, self.target.set_move_mark(was, mark).await)
    }

    async fn replace_source_mark(
        &self,
        source: &dyn Movable,
        was: Option<&MoveMark>,
        mark: &MoveMark,
    ) -> Result<(), TransferError> {
        check_done(&self.source.name, source.set_move_mark(was, mark).await)
    }

    fn is_not_empty(&self) -> TransferError {
        refused(format!("{} is not empty; a move needs a new store", self.target_name))
    }
}

/// Gives a move up: opens its source again, whose name is `name`. Its target is never served. Returns whether the source was
/// closed.
///
/// # Errors
/// Why that is not possible: the move is complete, or this is not the source of a move.
pub async fn abandon(source: &dyn Movable, name: &str) -> Result<bool, TransferError> {
    let mark = source.move_mark().await.map_err(|error| failed(name, &error))?;
    let Some(mark) = mark else { return Ok(false) };
    let free = match mark.role {
        MoveRole::Source => {
            let free =
                MoveMark { role: MoveRole::Free, number: mark.number + 1, run: new_run(), ..mark.clone() };
            check_done(name, source.set_move_mark(Some(&mark), &free).await)?;
            free
        }
        // An earlier run may have left its fences.
        MoveRole::Free | MoveRole::Opened => mark.clone(),
        MoveRole::Moved | MoveRole::Claimed | MoveRole::Target | MoveRole::Opening => {
            return Err(refused(format!("{name}: {}", mark.forbids().unwrap_or_default())));
        }
    };
    check_done(name, source.set_fence(free.number, false).await)?;
    Ok(mark.role == MoveRole::Source)
}

fn new_run() -> String {
    format!("{:016x}", rand::random::<u64>())
}

fn next_number(found: Option<&MoveMark>) -> u64 {
    found.map_or(1, |mark| mark.number + 1)
}

/// Whether this run may still do what it did.
fn check_done(place: &str, done: store::Result<bool>) -> Result<(), TransferError> {
    if done.map_err(|error| failed(place, &error))? { Ok(()) } else { Err(taken_over(place)) }
}

fn taken_over(place: &str) -> TransferError {
    TransferError::Failed(format!("{place}: another run of the command took over the move meanwhile"))
}

fn failed(place: &str, error: &store::Error) -> TransferError {
    TransferError::Failed(format!("{place}: {error}"))
}

fn refused(why: String) -> TransferError {
    TransferError::Refused(why)
}
