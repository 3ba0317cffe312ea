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
/// How long a load may go without a success: several times the longest outage of any load, and longer than two calls that
/// hang.
pub const LONGEST_OUTAGE: Duration = Duration::from_secs(300);

/// A client of several servers. It changes to the next server whenever the present one does not answer.
pub struct Caller {
    addresses: Vec<SocketAddr>,
    current: usize,
    client: Client,
    clock: SystemClock,
    /// Since when, by the clock, every call had an unknown outcome.
    unknown_since_us: Option<i64>,
}

impl Caller {
    pub fn new(addresses: &[SocketAddr], number: usize) -> Self {
        let current = number % addresses.len();
        let client = Client::new(addresses[current]);
        let (addresses, clock) = (addresses.to_vec(), SystemClock::new());
        Self { addresses, current, client, clock, unknown_since_us: None }
    }

    /// Calls the present server. Returns `None` if the outcome is unknown, and panics if that lasts longer than any outage.
    pub async fn call(&mut self, method: Method, path: &str, json: Option<&Value>) -> Option<Response> {
        let began_us = self.clock.now_micros();
        let answered = tokio::time::timeout(LONGEST_CALL, self.client.send(method, path, json)).await;
        let refused = match answered {
            Ok(Ok(answer)) if answer.status < 500 => {
                self.unknown_since_us = None;
                return Some(answer);
            }
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(Unknown)) | Err(_) => {
                self.current = (self.current + 1) % self.addresses.len();
                self.client = Client::new(self.addresses[self.current]);
                None
            }
        };
        let since_us = *self.unknown_since_us.get_or_insert(began_us);
        let lasts = Duration::from_micros((self.clock.now_micros() - since_us).unsigned_abs());
        assert!(
            lasts < LONGEST_OUTAGE,
            "{path}: no outcome is known for {lasts:?}; the last response: {refused:?}"
        );
        self.clock.sleep(PAUSE).await;
        None
    }
}

/// Reads a job until the outcome is known. Returns its state; `None` if it does not exist.
pub async fn read_until_known(history: &History, caller: &mut Caller, id: &str) -> Option<String> {
    loop {
        let sent = history.sent_now();
        let answer = caller.call(Method::GET, &format!("/jobs/{id}"), None).await;
        let outcome = match answer.as_ref().map(|answer| answer.status) {
            None => Outcome::Unknown,
            Some(200) => Outcome::Done,
            Some(404) => Outcome::Gone,
            Some(_) => panic!("{id}: {answer:?}"),
        };
        history.record(id, sent, Action::Read, outcome);
        if outcome != Outcome::Unknown {
            return answer.filter(|answer| answer.status == 200).map(|answer| answer.text("state"));
        }
    }
}

/// Sends a call for a job once, and records it.
pub async fn call_once(
    history: &History,
    caller: &mut Caller,
    method: Method,
    path: &str,
    id: &str,
    json: Option<&Value>,
    action: Action,
) -> Outcome {
    let sent = history.sent_now();
    let answer = caller.call(method, path, json).await;
    let outcome = match answer.as_ref().map(|answer| answer.status) {
        None => Outcome::Unknown,
        Some(200 | 204) => Outcome::Done,
        Some(404) => Outcome::Gone,
        Some(409) => Outcome::Refused,
        Some(_) => panic!("{action:?}: {answer:?}"),
    };
    history.record(id, sent, action, outcome);
    outcome
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
    let path = format!("/jobs/{id}{rest}");
    loop {
        let outcome =
            call_once(history, caller, method.clone(), &path, id, json.as_ref(), action.clone()).await;
        if outcome != Outcome::Unknown {
            return outcome;
        }
    }
}
