//! A client that changes to another server of a store when one does not answer.

use std::{net::SocketAddr, time::Duration};

use hyper::Method;
use linger::clock::{Clock, SystemClock};
use serde_json::Value;

use crate::{
    checker::{Action, History, Outcome},
    harness::client::{Client, Response, Unknown},
};

const PAUSE: Duration = Duration::from_millis(5);
/// Longer than any call may take.
const LONGEST_CALL: Duration = Duration::from_secs(120);
/// So many failed calls take at least two minutes.
const UNKNOWN_LIMIT: usize = 24_000;

/// A client of several servers. It changes to the next server whenever the present one does not answer.
pub struct Caller {
    addresses: Vec<SocketAddr>,
    current: usize,
    client: Client,
    /// The number of consecutive calls with an unknown outcome.
    unknown: usize,
}

impl Caller {
    pub fn new(addresses: &[SocketAddr], number: usize) -> Self {
        let current = number % addresses.len();
        Self { addresses: addresses.to_vec(), current, client: Client::new(addresses[current]), unknown: 0 }
    }

    /// Calls the present server. Returns `None` if the outcome is unknown, and panics if that lasts for minutes.
    pub async fn call(&mut self, method: Method, path: &str, json: Option<&Value>) -> Option<Response> {
        let answered = tokio::time::timeout(LONGEST_CALL, self.client.send(method, path, json)).await;
        let refused = match answered {
            Ok(Ok(answer)) if answer.status < 500 => {
                self.unknown = 0;
                return Some(answer);
            }
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(Unknown)) | Err(_) => {
                self.current = (self.current + 1) % self.addresses.len();
                self.client = Client::new(self.addresses[self.current]);
                None
            }
        };
        self.unknown += 1;
        assert!(
            self.unknown < UNKNOWN_LIMIT,
            "{path}: the outcome is unknown for too long; last response: {refused:?}"
        );
        SystemClock::new().sleep(PAUSE).await;
        None
    }
}

/// Sends a call for a job until its outcome is known, and records every sending.
pub async fn call_until_known(
    history: &History,
    caller: &mut Caller,
    method: Method,
    id: &str,
    rest: &str,
    json: Option<Value>,
    action: Action,
) -> Outcome {
    loop {
        let sent = history.sent_now();
        let answer = caller.call(method.clone(), &format!("/jobs/{id}{rest}"), json.as_ref()).await;
        let outcome = match answer.as_ref().map(|answer| answer.status) {
            None => Outcome::Unknown,
            Some(200 | 204) => Outcome::Done,
            Some(404) => Outcome::Gone,
            Some(409) => Outcome::Refused,
            Some(_) => panic!("{action:?}: {answer:?}"),
        };
        history.record(id, sent, action.clone(), outcome);
        if outcome != Outcome::Unknown {
            return outcome;
        }
    }
}
