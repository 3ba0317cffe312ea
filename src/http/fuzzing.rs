//! Fuzz targets of what clients send: JSON bodies and query parameters.

use bytes::Bytes;

use super::{
    errors::Problem,
    wire::{
        parameters::{Query, cursor, read_cursor},
        requests, values,
    },
};
use crate::{
    job::{Body, NewJob},
    queue::Limits,
};

/// The first byte chooses the call, the rest is its body.
pub fn fuzz_bodies(data: &[u8]) {
    let Some((call, body)) = data.split_first() else { return };
    let (body, limits) = (Bytes::copy_from_slice(body), Limits::default());
    match call % 14 {
        0 => sound(requests::new_job(&body, &limits), |job| job_is_sound(&job)),
        1 => sound(requests::patch(&body, &limits), |patch| patch.body.iter().for_each(body_is_sound)),
        2 => sound(requests::new_jobs(&body, &limits), |items| {
            assert!(items.len() <= limits.max_batch);
            items.into_iter().for_each(|item| sound(item.read, |job| job_is_sound(&job)));
        }),
        3 => sound(requests::release(&body, None, &limits), |_| ()),
        4 => sound(requests::touch(&body, None), |_| ()),
        5 => sound(requests::bury(&body, None), |_| ()),
        6 => sound(requests::requeue(&body, &limits), |_| ()),
        7 => sound(requests::requeue_dead(&body), |limit| assert!(limit > 0)),
        8 => sound(requests::pause(&body), |_| ()),
        9 => sound(requests::settings(&body, &limits), |_| ()),
        10 => sound(requests::pop(&body, &limits), |pop| {
            assert!((1..=limits.max_batch_pop).contains(&pop.max));
            assert!((1..=limits.max_pop_topics).contains(&pop.topics.len()));
        }),
        11 => sound(requests::finish(&body, None), |_| ()),
        12 => sound(requests::finish_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| sound(item.read, |_| ()));
        }),
        _ => sound(requests::delete_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| sound(item.read, |_| ()));
        }),
    }
}

/// What was read holds what `check` says; a refusal is one of the client's faults, and can be written.
fn sound<T>(read: Result<T, Problem>, check: impl FnOnce(T)) {
    match read {
        Ok(read) => check(read),
        Err(problem) => {
            assert!(problem.status().is_client_error(), "{}", problem.code());
            let mut out = Vec::new();
            problem.write(&mut out, Some("id"));
            let written: serde_json::Value = serde_json::from_slice(&out).expect("a problem is JSON");
            assert_eq!(written["code"], problem.code());
        }
    }
}

fn job_is_sound(job: &NewJob) {
    body_is_sound(&job.body);
    assert_eq!(job.fingerprint(), job.clone().fingerprint());
    assert!(job.resolved_max_attempts(&Default::default()) <= crate::job::MAX_ATTEMPTS_LIMIT);
}

/// A body is JSON as it stands, nothing more and nothing less.
fn body_is_sound(body: &Body) {
    assert_eq!(Body::parse(body.as_bytes().clone()).as_ref(), Ok(body));
}

/// A query string, read as each call with parameters reads it.
pub fn fuzz_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut query = Query::parse(text);
    query.take("wait", values::duration_text);
    query.take("ttr", values::ttr_text);
    query.take("limit", |text| values::whole_text(text, 1, 1_000));
    query.take("receipt", values::receipt_text);
    let confirm = query.text("confirm");
    let read = query.take("cursor", read_cursor);
    if let Err(problem) = query.end() {
        let mut out = Vec::new();
        problem.write(&mut out, None);
        assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok(), "a problem is JSON");
    }
    for text in read.iter().chain(&confirm).map(String::as_str).chain([text]) {
        assert_eq!(read_cursor(&cursor(text)).as_deref(), Ok(text));
    }
}
