//! The operations that callers queue: a closure for the writer, and the channel for its result.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::write_queue::{Operation, WriteQueue};
use crate::store::{
    Error, Reservation, Result, Step, StepAction,
    embedded::{
        ops::{self, write_txn::WriteTxn},
        rows::db::SqlResult,
    },
};

/// A call of the store that the writer runs.
pub(crate) struct WriteRequest<T, F> {
    change: F,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> WriteRequest<T, F> {
    pub fn new(change: F) -> (Box<Self>, oneshot::Receiver<Result<T>>) {
        let (reply, receiver) = oneshot::channel();
        (Box::new(Self { change, result: None, reply }), receiver)
    }
}

impl<T, F> Operation for WriteRequest<T, F>
where
    T: Send,
    F: FnMut(&mut WriteTxn<'_>) -> SqlResult<Result<T>> + Send,
{
    fn run(&mut self, txn: &mut WriteTxn<'_>) -> SqlResult<()> {
        self.result = Some((self.change)(txn)?);
        Ok(())
    }

    fn reply(self: Box<Self>, committed: std::result::Result<(), Error>) {
        let Self { result, reply, .. } = *self;
        let result = committed.and_then(|()| result.expect("an operation ran before its commit"));
        // The caller may have gone; the change stays, as after a lost connection.
        let _ = reply.send(result);
    }
}

/// A call of `reserve`. If its caller goes away before it has the reservations, they are cancelled, so that no job
/// waits for the end of its TTR and no attempt is wasted.
pub(crate) struct ReserveRequest<F> {
    change: F,
    granted: Vec<Reservation>,
    reply: oneshot::Sender<Result<Vec<Reservation>>>,
    queue: Arc<WriteQueue>,
}

/// The caller's side of a [`ReserveRequest`].
pub(crate) struct PendingReservations {
    receiver: oneshot::Receiver<Result<Vec<Reservation>>>,
    queue: Arc<WriteQueue>,
}

impl<F> ReserveRequest<F> {
    pub fn new(queue: &Arc<WriteQueue>, change: F) -> (Box<Self>, PendingReservations) {
        let (reply, receiver) = oneshot::channel();
        let call = Self { change, granted: Vec::new(), reply, queue: queue.clone() };
        (Box::new(call), PendingReservations { receiver, queue: queue.clone() })
    }
}

impl<F> Operation for ReserveRequest<F>
where
    F: FnMut(&mut WriteTxn<'_>) -> SqlResult<Vec<Reservation>> + Send,
{
    fn run(&mut self, txn: &mut WriteTxn<'_>) -> SqlResult<()> {
        self.granted.clear();
        if !self.reply.is_closed() {
            self.granted = (self.change)(txn)?;
        }
        Ok(())
    }

    fn reply(self: Box<Self>, committed: std::result::Result<(), Error>) {
        let Self { granted, reply, queue, .. } = *self;
        if let Err(Ok(unseen)) = reply.send(committed.map(|()| granted)) {
            cancel_unseen(&queue, unseen);
        }
    }
}

impl PendingReservations {
    /// Waits for the reservations; `None` when the writer is gone.
    pub async fn receive(mut self) -> Option<Result<Vec<Reservation>>> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for PendingReservations {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(Ok(unseen)) = self.receiver.try_recv() {
            cancel_unseen(&self.queue, unseen);
        }
    }
}

fn cancel_unseen(queue: &WriteQueue, unseen: Vec<Reservation>) {
    if unseen.is_empty() {
        return;
    }
    let cancel = |grant: Reservation| Step::unscoped(grant.job.id, StepAction::Cancel(grant.receipt), None);
    let steps: Vec<Step> = unseen.into_iter().map(cancel).collect();
    let (call, _) = WriteRequest::new(move |txn: &mut WriteTxn<'_>| ops::apply(txn, &steps));
    queue.push_internal(call);
}
