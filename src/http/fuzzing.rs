//! Fuzz targets for the input of clients: JSON bodies and query parameters.

use bytes::Bytes;

use super::{
    errors::Problem,
    wire::{
        parameters::{Query, decode_cursor, encode_cursor},
        requests, values,
    },
};
use crate::{
    job::{Body, NewJob},
    queue::Limits,
};

/// The first byte chooses the operation, the rest is its body.
pub fn fuzz_bodies(data: &[u8]) {
    let Some((call, body)) = data.split_first() else { return };
    let (body, limits) = (Bytes::copy_from_slice(body), Limits::default());
    match call % 14 {
        0 => check_result(requests::new_job(&body, &limits), |job| check_job(&job)),
        1 => check_result(requests::patch(&body, &limits), |patch| patch.body.iter().for_each(check_body)),
        2 => check_result(requests::new_jobs(&body, &limits), |items| {
            assert!(items.len() <= limits.max_batch);
            items.into_iter().for_each(|item| check_result(item.parsed, |job| check_job(&job)));
        }),
        3 => check_result(requests::release(&body, None, &limits), |_| ()),
        4 => check_result(requests::touch(&body, None), |_| ()),
        5 => check_result(requests::bury(&body, None), |_| ()),
        6 => check_result(requests::requeue(&body, &limits), |_| ()),
        7 => check_result(requests::requeue_dead(&body), |limit| assert!(limit > 0)),
        8 => check_result(requests::pause(&body), |_| ()),
        9 => check_result(requests::settings(&body, &limits), |_| ()),
        10 => check_result(requests::pop(&body, &limits), |pop| {
            assert!((1..=limits.max_batch_pop).contains(&pop.max));
            assert!((1..=limits.max_pop_topics).contains(&pop.topics.len()));
        }),
        11 => check_result(requests::finish(&body, None), |_| ()),
        12 => check_result(requests::finish_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| check_result(item.parsed, |_| ()));
        }),
        _ => check_result(requests::delete_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| check_result(item.parsed, |_| ()));
        }),
    }
}

/// Checks a parsed value with `check`. A refusal must be the client's fault, and must render.
fn check_result<T>(parsed: Result<T, Problem>, check: impl FnOnce(T)) {
    match parsed {
        Ok(value) => check(value),
        Err(problem) => {
            assert!(problem.status().is_client_error(), "{}", problem.code());
            let mut out = Vec::new();
            problem.write(&mut out, Some("id"));
            let written: serde_json::Value = serde_json::from_slice(&out).expect("a problem is JSON");
            assert_eq!(written["code"], problem.code());
        }
    }
}

fn check_job(job: &NewJob) {
    check_body(&job.body);
    assert_eq!(job.fingerprint(), job.clone().fingerprint());
    assert!(job.resolved_max_attempts(&Default::default()) <= crate::job::MAX_ATTEMPTS_LIMIT);
}

/// A body is exactly one JSON value.
fn check_body(body: &Body) {
    assert_eq!(Body::parse(body.as_bytes().clone()).as_ref(), Ok(body));
}

/// A query string, read as each operation with parameters reads it.
pub fn fuzz_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut query = Query::parse(text);
    query.optional("wait", values::duration_text);
    query.optional("ttr", values::ttr_text);
    query.optional("limit", |text| values::whole_number_text(text, 1, 1_000));
    query.optional("receipt", values::receipt_text);
    let confirm = query.optional_text("confirm");
    let cursor = query.optional("cursor", decode_cursor);
    if let Err(problem) = query.finish() {
        let mut out = Vec::new();
        problem.write(&mut out, None);
        assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok(), "a problem is JSON");
    }
    for text in cursor.iter().chain(&confirm).map(String::as_str).chain([text]) {
        assert_eq!(decode_cursor(&encode_cursor(text)).as_deref(), Ok(text));
    }
}
