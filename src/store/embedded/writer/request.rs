//! A caller's side of an operation: the closure that does it, and the way its answer goes back.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::write_queue::{Intake, Operation};
use crate::{
    job::{JobId, Receipt},
    store::{
        Error, Reservation, Result,
        embedded::{
            ops::{self, write_txn::Work},
            rows::records::Sql,
        },
    },
};

/// One call of the store on its way through the writer.
pub(crate) struct Call<T, F> {
    change: F,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Call<T, F> {
    pub fn new(change: F) -> (Box<Self>, oneshot::Receiver<Result<T>>) {
        let (reply, receiver) = oneshot::channel();
        (Box::new(Self { change, answer: None, reply }), receiver)
    }
}

impl<T, F> Operation for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Work<'_>) -> Sql<Result<T>> + Send,
{
    fn run(&mut self, work: &mut Work<'_>) -> Sql<()> {
        self.answer = Some((self.change)(work)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), Error>) {
        let Self { answer, reply, .. } = *self;
        let answer = committed.and_then(|()| answer.expect("an operation has run when it is committed"));
        // Whoever asked may have gone; the change stands, as after a cut connection.
        let _ = reply.send(answer);
    }
}

/// A reservation on its way: if the one who asked goes away before the grants are in hand, they are taken
/// back, so that no job waits for its TTR and no attempt is spent on nobody.
pub(crate) struct Reserve<F> {
    change: F,
    granted: Vec<Reservation>,
    reply: oneshot::Sender<Result<Vec<Reservation>>>,
    intake: Arc<Intake>,
}

/// The asking side of [`Reserve`].
pub(crate) struct Grants {
    receiver: oneshot::Receiver<Result<Vec<Reservation>>>,
    intake: Arc<Intake>,
}

impl<F> Reserve<F> {
    pub fn new(intake: &Arc<Intake>, change: F) -> (Box<Self>, Grants) {
        let (reply, receiver) = oneshot::channel();
        let call = Self { change, granted: Vec::new(), reply, intake: intake.clone() };
        (Box::new(call), Grants { receiver, intake: intake.clone() })
    }
}

impl<F> Operation for Reserve<F>
where
    F: FnMut(&mut Work<'_>) -> Sql<Vec<Reservation>> + Send,
{
    fn run(&mut self, work: &mut Work<'_>) -> Sql<()> {
        self.granted.clear();
        if !self.reply.is_closed() {
            self.granted = (self.change)(work)?;
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), Error>) {
        let Self { granted, reply, intake, .. } = *self;
        if let Err(Ok(unseen)) = reply.send(committed.map(|()| granted)) {
            take_back(&intake, unseen);
        }
    }
}

impl Grants {
    /// Waits for the answer; `None` when the writer is gone.
    pub async fn receive(mut self) -> Option<Result<Vec<Reservation>>> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Grants {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(Ok(unseen)) = self.receiver.try_recv() {
            take_back(&self.intake, unseen);
        }
    }
}

fn take_back(intake: &Intake, unseen: Vec<Reservation>) {
    if unseen.is_empty() {
        return;
    }
    let grants: Vec<(JobId, Receipt)> =
        unseen.into_iter().map(|grant| (grant.job.id, grant.receipt)).collect();
    let (call, _) = Call::new(move |work: &mut Work<'_>| ops::cancel(work, &grants).map(Ok));
    intake.push_own(call);
}
