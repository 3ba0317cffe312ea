//! The fuzz target of what clients of ouqiang/delay-queue send.

use super::requests;
use crate::{
    compat::names,
    job::{Delay, JobId, Timestamp},
};

/// The first byte chooses the call, the rest is its body.
pub fn fuzz(data: &[u8]) {
    let Some((call, body)) = data.split_first() else { return };
    match call % 3 {
        0 => {
            if let Ok(push) = requests::push(body, Delay::LONGEST, Timestamp::from_millis(0)) {
                check_id(&push.id);
            }
        }
        1 => {
            if let Ok(topics) = requests::pop(body) {
                assert!(!topics.is_empty());
                topics.iter().for_each(|topic| {
                    assert!(names::topic_of(&names::name_of_topic(topic)).as_ref() == Ok(topic))
                });
            }
        }
        _ => {
            if let Ok(Some(id)) = requests::id(body) {
                check_id(&id);
            }
        }
    }
}

/// The client sees the name that stands for the same id.
fn check_id(id: &JobId) {
    assert!(names::id_of(&names::name_of_id(id)).as_ref() == Ok(id), "{id}");
}
