//! The client that a worker uses at the moment, and when it is made anew with a token that was read again.

use std::sync::{Mutex, MutexGuard};

use super::host::Host;
use crate::{client::Client, error::Error};

/// A client, and how many there were before it.
#[derive(Clone)]
pub(crate) struct Current {
    pub client: Client,
    generation: u64,
}

/// The present client and its successors.
pub(crate) struct Session {
    state: Mutex<State>,
    /// Held while the token is read, so that calls that fail together read it once.
    reading: tokio::sync::Mutex<()>,
}

struct State {
    current: Current,
    /// The call for whose refusal the token was read again. A second refusal is final until such a call is allowed.
    refused: Option<&'static str>,
}

impl Session {
    pub fn new(client: Client) -> Self {
        let current = Current { client, generation: 0 };
        Self { state: Mutex::new(State { current, refused: None }), reading: tokio::sync::Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the session")
    }

    pub fn current(&self) -> Current {
        self.lock().current.clone()
    }

    /// The token allowed a call of this name, whatever else the answer says.
    pub fn allowed(&self, call: &'static str) {
        let mut state = self.lock();
        if state.refused == Some(call) {
            state.refused = None;
        }
    }

    /// The token of `current` does not allow a call of this name. Reads it once more. Returns whether the call is to be
    /// sent again.
    pub async fn refused(&self, current: &Current, call: &'static str, host: &impl Host) -> bool {
        let _reading = self.reading.lock().await;
        {
            let state = self.lock();
            if state.current.generation > current.generation {
                return true;
            }
            if state.refused == Some(call) {
                return false;
            }
        }
        let is_new = self.read(host).await;
        self.lock().refused = Some(call);
        is_new
    }

    /// Reads the token again because the user wants it.
    pub async fn renew(&self, host: &impl Host) {
        let _reading = self.reading.lock().await;
        if self.read(host).await {
            self.lock().refused = None;
        }
    }

    async fn read(&self, host: &impl Host) -> bool {
        let Some(client) = host.connect().await else { return false };
        let mut state = self.lock();
        state.current = Current { client, generation: state.current.generation + 1 };
        true
    }
}

/// Whether the token does not allow a call.
pub(crate) fn is_refused(error: &Error) -> bool {
    error.refusal().is_some_and(|refusal| matches!(refusal.status, 401 | 403))
}
