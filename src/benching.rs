//! What the component benchmarks (`bench/benches`) measure: parts that are otherwise private to the crate. Built for
//! tests and with the feature `benching` only.

pub use crate::{
    http::benching::{read_new_job, write_job},
    store::embedded::benching::{Codec, DueOrder, IdMap},
};

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::job::{Body, JobId, Topic};

    #[test]
    fn the_parts_do_what_is_measured() {
        let job = Bytes::from_static(br#"{"topic":"t","id":"a","delay":60,"body":{"n":1}}"#);
        assert!(read_new_job(&job));
        assert!(!read_new_job(&job.slice(1..)));
        let body = Body::parse(Bytes::from_static(b"[1]")).expect("is JSON");
        let (id, topic) = (JobId::parse("a").expect("is an id"), Topic::parse("t").expect("is a topic"));
        let codec = Codec::new(id, topic, body);
        assert!(codec.encode() > 0);
        assert_eq!(codec.decode(), 0);
        let mut ids = IdMap::with_jobs(10);
        ids.turn_over();
        assert!(!ids.find(0) && ids.find(1) && ids.find(10) && !ids.find(11));
        let mut due = DueOrder::with_jobs(10, 3);
        (0..25).for_each(|_| due.turn_over());
    }
}
