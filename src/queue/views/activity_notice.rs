//! What a process publishes of its activity for the others: a notice of its own, which is JSON of which unknown fields are ignored.

use std::{cmp::Reverse, net::IpAddr};

use serde::{Deserialize, Serialize};

use super::process_activity::Activity;
use crate::{
    job::{Actor, Timestamp, Topic},
    queue::{
        callbacks::called_endpoint::{CalledEndpoint, CallsOfMinute},
        pop::pollers::Poller,
    },
    store::{Notice, NoticeContent},
};

/// How many bytes the pollers take in a notice: some 400 with names of usual length.
const POLLERS_LEN: usize = 40 << 10;
/// The same for the endpoints: some 130.
const ENDPOINTS_LEN: usize = 23 << 10;

#[derive(Serialize, Deserialize)]
struct StoredActivity {
    pollers: Vec<StoredPoller>,
    endpoints: Vec<StoredEndpoint>,
    is_complete: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredPoller {
    topic: String,
    worker: Option<String>,
    address: Option<IpAddr>,
    waiting: u32,
    polled_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredEndpoint {
    topic: String,
    host: String,
    in_flight: u32,
    window: u32,
    resting_until_ms: Option<i64>,
    failed_ms: Option<i64>,
    failure: Option<String>,
    /// The calls of the last minute, and those of them that succeeded.
    minute: Option<(u64, u64)>,
}

/// The notice of this activity: the latest polls and the endpoints with most calls if there is no room for all.
pub fn content(activity: Activity) -> NoticeContent {
    let Activity { mut pollers, mut endpoints, is_complete } = activity;
    pollers.sort_by_key(|poller| Reverse((poller.waiting > 0, poller.polled_at)));
    endpoints.sort_by_key(|endpoint| Reverse((endpoint.last_failure.is_some(), endpoint.in_flight)));
    let (count, others) = (pollers.len(), endpoints.len());
    let pollers = fitting(pollers.into_iter().map(StoredPoller::new), POLLERS_LEN);
    let endpoints = fitting(endpoints.into_iter().map(StoredEndpoint::new), ENDPOINTS_LEN);
    let is_complete = is_complete && pollers.len() == count && endpoints.len() == others;
    let stored = StoredActivity { pollers, endpoints, is_complete };
    let text = serde_json::to_vec(&stored).expect("every value is a text or a number, or several");
    NoticeContent::new(text).expect("pollers and endpoints leave 1 KiB for the rest")
}

/// As many items as have room in so many bytes of JSON.
fn fitting<T: Serialize>(items: impl Iterator<Item = T>, bytes: usize) -> Vec<T> {
    let mut left = bytes;
    let has_room = |item: &T| {
        let text = serde_json::to_vec(item).expect("every value is a text or a number");
        left.checked_sub(text.len() + 1).map(|rest| left = rest).is_some()
    };
    items.take_while(has_room).collect()
}

/// Reads a notice. `None` when another version wrote something that this one cannot read.
pub fn read(notice: &Notice) -> Option<Activity> {
    let StoredActivity { pollers, endpoints, is_complete } = serde_json::from_slice(&notice.content).ok()?;
    let pollers: Option<Vec<Poller>> = pollers.into_iter().map(StoredPoller::read).collect();
    let endpoints: Option<Vec<CalledEndpoint>> = endpoints.into_iter().map(StoredEndpoint::read).collect();
    Some(Activity { pollers: pollers?, endpoints: endpoints?, is_complete })
}

impl StoredPoller {
    fn new(Poller { topic, worker, address, waiting, polled_at }: Poller) -> Self {
        let (topic, worker) = (topic.to_string(), worker.map(|worker| worker.to_string()));
        Self { topic, worker, address, waiting, polled_ms: polled_at.as_millis() }
    }

    fn read(self) -> Option<Poller> {
        Some(Poller {
            topic: Topic::parse(&self.topic).ok()?,
            worker: self.worker.map(|worker| Actor::parse(&worker)).transpose().ok()?,
            address: self.address,
            waiting: self.waiting,
            polled_at: Timestamp::from_millis(self.polled_ms),
        })
    }
}

impl StoredEndpoint {
    fn new(endpoint: CalledEndpoint) -> Self {
        let CalledEndpoint { topic, host, in_flight, window, resting_until, last_failure, minute } = endpoint;
        let (failed_at, failure) = last_failure.unzip();
        Self {
            topic: topic.to_string(),
            host,
            in_flight,
            window,
            resting_until_ms: resting_until.map(Timestamp::as_millis),
            failed_ms: failed_at.map(Timestamp::as_millis),
            failure,
            minute: minute.map(|CallsOfMinute { calls, succeeded }| (calls, succeeded)),
        }
    }

    fn read(self) -> Option<CalledEndpoint> {
        Some(CalledEndpoint {
            topic: Topic::parse(&self.topic).ok()?,
            host: self.host,
            in_flight: self.in_flight,
            window: self.window,
            resting_until: self.resting_until_ms.map(Timestamp::from_millis),
            last_failure: self.failed_ms.map(Timestamp::from_millis).zip(self.failure),
            minute: self.minute.map(|(calls, succeeded)| CallsOfMinute { calls, succeeded }),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn activity(count: usize) -> Activity {
        let topic = |n: usize| Topic::parse(&format!("{}{n}", "t".repeat(100))).expect("valid");
        let at = |n: usize| Timestamp::from_millis(1_792_000_000_000 + i64::try_from(n).expect("is small"));
        let poller = |n| Poller {
            topic: topic(n),
            worker: Actor::parse(&"😀".repeat(Actor::MAX_CHARS)).ok().filter(|_| n % 2 == 0),
            address: Some(IpAddr::from([10, 0, 0, 7])),
            waiting: 0,
            polled_at: at(n),
        };
        let endpoint = |n| CalledEndpoint {
            topic: topic(n),
            host: "https://partner.example:8443".to_owned(),
            in_flight: 3,
            window: 64,
            resting_until: Some(at(n)),
            last_failure: (n % 2 == 0).then(|| (at(n), "http_503".to_owned())),
            minute: (n % 3 > 0).then_some(CallsOfMinute { calls: 120, succeeded: 118 }),
        };
        let (pollers, endpoints) = ((0..count).map(poller).collect(), (0..count).map(endpoint).collect());
        Activity { pollers, endpoints, is_complete: true }
    }

    fn reread(activity: Activity) -> Activity {
        let content = content(activity).as_bytes().to_vec().into();
        read(&Notice { id: "1".to_owned(), content, age: Duration::ZERO }).expect("is a notice")
    }

    #[test]
    fn an_activity_reads_back_with_the_latest_first() {
        let known = reread(activity(2));
        let mut expected = activity(2);
        expected.pollers.reverse();
        assert_eq!(known, expected);
    }

    #[test]
    fn what_has_no_room_is_left_out_and_said_to_be_missing() {
        let known = reread(activity(2_000));
        assert!(!known.is_complete);
        assert!(known.pollers.len() > 50 && known.endpoints.len() > 50, "{known:?}");
        assert_eq!(known.pollers[0].polled_at, activity(2_000).pollers[1_999].polled_at);
        assert!(known.endpoints.iter().all(|endpoint| endpoint.last_failure.is_some()));
    }
}
