//! The fuzz target of what clients of lmstfy send.

use axum::http::{HeaderMap, Method, Uri};
use bytes::Bytes;

use super::{
    bulk,
    queue_path::QueuePath,
    requests::{self, Parameters, Publish},
};
use crate::{
    compat::encoding,
    job::{Delay, Timestamp},
};

const MAX_BODY: usize = 1_000;

/// The first byte chooses between the address of a call and the body of a bulk.
pub fn fuzz(data: &[u8]) {
    match data.split_first() {
        Some((0, address)) => fuzz_address(address),
        Some((_, body)) => fuzz_bulk(&Bytes::copy_from_slice(body)),
        None => {}
    }
}

fn fuzz_address(address: &[u8]) {
    let Ok(uri) = Uri::try_from(address) else { return };
    let (path, now) = (QueuePath::parse(&uri), Timestamp::from_millis(0));
    for method in [Method::GET, Method::PUT] {
        // A path that is in order names topics.
        if path.check(&method).is_ok() {
            assert!(path.topics().is_ok(), "{uri}");
        }
    }
    let query = Parameters::in_query(&uri);
    if let (Ok(publish), Ok(topic)) =
        (Publish::parse(&query, &HeaderMap::new(), Delay::LONGEST, now), path.topic())
    {
        let job = publish.job(&topic, &Bytes::from_static(b"x"), now);
        assert!(job.max_attempts > Some(0), "{uri}");
    }
    if let Ok(consume) = requests::consume(&query) {
        assert!((1..=100).contains(&consume.count), "{uri}");
    }
    if let Ok((limit, _)) = requests::respawn(&query, now) {
        assert!(limit > 0, "{uri}");
    }
}

/// Each payload comes back byte for byte.
fn fuzz_bulk(body: &Bytes) {
    let Ok(payloads) = bulk::payloads(body, MAX_BODY) else { return };
    assert!((1..=64).contains(&payloads.len()));
    for payload in payloads {
        assert!(payload.len() <= MAX_BODY);
        assert_eq!(encoding::payload_of(&encoding::body_of(&payload)), payload);
    }
}
