//! The steps of a move. Passes make the target equal to the source while that is still served; the last one closes the source,
//! makes the target equal, and opens it. Each step can be repeated after a crash, and at no moment may servers use both.
//!
//! ```text
//! target   (none) ─► claimed ─► target ─► opening ─► opened
//!                                  └──► abandoned ─► target (when the move begins again)
//! source   (none) ─► source, closed ─► (none), when the move is abandoned
//! ```
//!
//! The mark of the target decides: `opening` and `abandoned` exclude each other, because each replaces `target` in one step.

use super::{
    compare::Contents,
    file::TransferError,
    pass::{Passed, copy_differences},
};
use crate::store::{self, Movable, MoveMark, MoveRole};

/// A store, by its id and by the name of its place for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// [`Movable::store_id`].
    pub id: String,
    /// Such as `embedded (/var/lib/linger)`.
    pub name: String,
}

/// The target of a move, for this run of the program.
pub struct Relocation<'a> {
    source: Place,
    target: &'a dyn Movable,
    target_name: String,
    run: String,
}

/// What a target says when a run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Claim {
    /// It is ours, under this mark.
    Ours(MoveMark),
    /// The move is complete.
    Opened,
}

impl<'a> Relocation<'a> {
    /// A move from `source` to `target`, which is open for a move.
    ///
    /// # Errors
    /// Both are the same store, or one is a copy of the other.
    pub fn new(source: Place, target: &'a dyn Movable, target_name: String) -> Result<Self, TransferError> {
        if source.id == target.store_id() {
            return Err(refused(format!("{target_name} is the source itself, or a copy of it")));
        }
        Ok(Self { source, target, target_name, run: format!("{:016x}", rand::random::<u64>()) })
    }

    /// Refuses a source that takes part in another move.
    ///
    /// # Errors
    /// Which one.
    pub fn check_source(&self, mark: Option<&MoveMark>) -> Result<(), TransferError> {
        match mark {
            None => Ok(()),
            Some(MoveMark { role: MoveRole::Opened, .. }) => Ok(()),
            Some(mark) if mark.role == MoveRole::Source && mark.target == self.target.store_id() => Ok(()),
            Some(mark) => {
                Err(refused(format!("{}: {}", self.source.name, mark.forbids().unwrap_or_default())))
            }
        }
    }

    /// One pass, beside the servers of the source. `records` begins to read the source once the target is ready.
    ///
    /// # Errors
    /// Why the target is not as the source.
    pub async fn copy<R>(
        &self,
        records: impl FnOnce() -> R,
        named: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Passed, TransferError>
    where
        R: Future<Output = store::Result<Box<dyn store::RecordReader>>>,
    {
        match self.claim().await? {
            Claim::Opened => Err(refused(format!("the move to {} is complete already", self.target_name))),
            Claim::Ours(_) => copy_differences(unread(records().await)?, self.target, named).await,
        }
    }

    /// Closes the source, copies the rest, compares everything, and opens the target. `None` if that was done before.
    ///
    /// # Errors
    /// Why the target is not open. The source may be closed; the next run continues.
    pub async fn complete(
        &self,
        source: &dyn Movable,
        named: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Option<Passed>, TransferError> {
        let Claim::Ours(mark) = self.claim().await? else { return Ok(None) };
        self.close_source(source).await?;
        let passed = copy_differences(unread(source.records().await)?, self.target, named).await?;
        if !passed.changed_nothing() {
            let compared =
                copy_differences(unread(source.records().await)?, self.target, &mut |_| ()).await?;
            if !compared.changed_nothing() {
                return Err(TransferError::Failed(
                    "the target differed from the source after everything was copied; run the command again"
                        .to_owned(),
                ));
            }
        }
        let opening = mark.with_role(MoveRole::Opening);
        self.replace_mark(Some(&mark), Some(&opening)).await?;
        self.finish_opening(&opening).await?;
        Ok(Some(passed))
    }

    /// Takes the source back: servers may use it again, and none will ever use the target as it is.
    ///
    /// # Errors
    /// Why that is not possible: the target is open.
    pub async fn abandon(&self, source: &dyn Movable) -> Result<(), TransferError> {
        match self.target_mark().await? {
            Some(mark) if mark.source != self.source.id => return Err(self.takes_part_in_another(&mark)),
            Some(MoveMark { role: MoveRole::Opening | MoveRole::Opened, .. }) => {
                return Err(refused(format!(
                    "the move to {} is complete, so that its servers may have changed the jobs already; move them back \
                     instead",
                    self.target_name
                )));
            }
            Some(mark) => {
                let abandoned = MoveMark { run: self.run.clone(), ..mark.with_role(MoveRole::Abandoned) };
                self.replace_mark(Some(&mark), Some(&abandoned)).await?;
            }
            None if !Contents::read(unread(self.target.records().await)?).await?.is_empty() => {
                return Err(refused(format!(
                    "{} holds jobs and does not take part in this move",
                    self.target_name
                )));
            }
            None => {}
        }
        let mark = source.move_mark().await.map_err(|error| failed(&self.source.name, &error))?;
        match mark {
            Some(mark) if mark.role == MoveRole::Source => {
                let is_to_target = mark.target == self.target.store_id() || mark.other == self.target_name;
                if !is_to_target {
                    return Err(refused(format!(
                        "{}: its jobs are moved to {}",
                        self.source.name, mark.other
                    )));
                }
                source.set_fence(false).await.map_err(|error| failed(&self.source.name, &error))?;
                self.replace_source_mark(source, Some(&mark), None).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Makes the target ours, closed to all others.
    async fn claim(&self) -> Result<Claim, TransferError> {
        let found = self.target_mark().await?;
        let own = MoveMark {
            role: MoveRole::Target,
            source: self.source.id.clone(),
            target: self.target.store_id(),
            other: self.source.name.clone(),
            run: self.run.clone(),
        };
        match found {
            Some(mark) if mark.source != self.source.id => return Err(self.takes_part_in_another(&mark)),
            Some(mark) if mark.role == MoveRole::Opened => return Ok(Claim::Opened),
            Some(mark) if mark.role == MoveRole::Opening => {
                self.finish_opening(&mark).await?;
                return Ok(Claim::Opened);
            }
            Some(mark) if mark.role != MoveRole::Claimed => {
                self.replace_mark(Some(&mark), Some(&own)).await?;
                self.set_fence(true).await?;
            }
            claimed_or_new => {
                let claimed = own.with_role(MoveRole::Claimed);
                self.replace_mark(claimed_or_new.as_ref(), Some(&claimed)).await?;
                self.claim_empty(&claimed).await?;
                self.replace_mark(Some(&claimed), Some(&own)).await?;
            }
        }
        Ok(Claim::Ours(own))
    }

    /// Closes a new target, which must be empty; otherwise leaves it as it was.
    async fn claim_empty(&self, claimed: &MoveMark) -> Result<(), TransferError> {
        // Before it is looked at: its servers, if it has any, can add nothing from then on.
        self.set_fence(true).await?;
        if Contents::read(unread(self.target.records().await)?).await?.is_empty() {
            return Ok(());
        }
        self.set_fence(false).await?;
        self.replace_mark(Some(claimed), None).await?;
        Err(refused(format!("{} is not empty; a move needs a new store", self.target_name)))
    }

    async fn close_source(&self, source: &dyn Movable) -> Result<(), TransferError> {
        let found = source.move_mark().await.map_err(|error| failed(&self.source.name, &error))?;
        self.check_source(found.as_ref())?;
        let mark = MoveMark {
            role: MoveRole::Source,
            source: self.source.id.clone(),
            target: self.target.store_id(),
            other: self.target_name.clone(),
            run: self.run.clone(),
        };
        self.replace_source_mark(source, found.as_ref(), Some(&mark)).await?;
        source.set_fence(true).await.map_err(|error| failed(&self.source.name, &error))
    }

    async fn finish_opening(&self, opening: &MoveMark) -> Result<(), TransferError> {
        self.set_fence(false).await?;
        self.replace_mark(Some(opening), Some(&opening.with_role(MoveRole::Opened))).await
    }

    async fn target_mark(&self) -> Result<Option<MoveMark>, TransferError> {
        self.target.move_mark().await.map_err(|error| failed(&self.target_name, &error))
    }

    async fn set_fence(&self, closed: bool) -> Result<(), TransferError> {
        self.target.set_fence(closed).await.map_err(|error| failed(&self.target_name, &error))
    }

    async fn replace_mark(
        &self,
        was: Option<&MoveMark>,
        mark: Option<&MoveMark>,
    ) -> Result<(), TransferError> {
        let replaced = self.target.set_move_mark(was, mark).await;
        check_replaced(&self.target_name, replaced)
    }

    async fn replace_source_mark(
        &self,
        source: &dyn Movable,
        was: Option<&MoveMark>,
        mark: Option<&MoveMark>,
    ) -> Result<(), TransferError> {
        check_replaced(&self.source.name, source.set_move_mark(was, mark).await)
    }

    fn takes_part_in_another(&self, mark: &MoveMark) -> TransferError {
        let MoveMark { role, other, .. } = mark;
        refused(match role {
            MoveRole::Source => format!("{}: its jobs are moved to {other}", self.target_name),
            _ => format!("{}: it takes part in a move from {other}", self.target_name),
        })
    }
}

fn check_replaced(place: &str, replaced: store::Result<bool>) -> Result<(), TransferError> {
    if replaced.map_err(|error| failed(place, &error))? {
        return Ok(());
    }
    Err(TransferError::Failed(format!("{place}: another run of the command took over the move meanwhile")))
}

fn unread<T>(records: store::Result<T>) -> Result<T, TransferError> {
    records.map_err(|error| TransferError::Failed(format!("the records cannot be read: {error}")))
}

fn failed(place: &str, error: &store::Error) -> TransferError {
    TransferError::Failed(format!("{place}: {error}"))
}

fn refused(why: String) -> TransferError {
    TransferError::Refused(why)
}
