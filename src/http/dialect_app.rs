//! What the dialects of other servers share: the state of their requests, and what is no failure there.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::{
    http::edge::Edge,
    queue::{Error, Queue, Result},
};

/// A dialect over one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DialectApp(Arc<DialectState>);

/// The parts of a [`DialectApp`].
#[derive(Debug)]
pub struct DialectState {
    pub queue: Arc<Queue>,
    pub edge: Edge,
    /// The longest wait of a pop.
    pub max_wait: Duration,
}

impl Deref for DialectApp {
    type Target = DialectState;

    fn deref(&self) -> &DialectState {
        &self.0
    }
}

impl DialectApp {
    pub fn new(queue: Arc<Queue>, edge: Edge, max_wait: Duration) -> Self {
        Self(Arc::new(DialectState { queue, edge, max_wait }))
    }
}

/// `None` for a job that does not exist, which is no failure there.
pub fn unless_gone<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Error::JobNotFound | Error::JobEnded(_)) => Ok(None),
        result => result.map(Some),
    }
}
