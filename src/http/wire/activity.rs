//! The JSON of workers, and of the endpoints of callbacks.

use axum::response::Response;

use super::responses::write_note;
use crate::{
    http::json::{self, ObjectWriter},
    queue::{CalledEndpoint, Rows, WorkerView},
};

/// The workers; with the addresses that they poll from, if the caller may see these.
pub fn workers(workers: &Rows<WorkerView>, with_addresses: bool) -> Response {
    json::object_response(|object| {
        object.list("workers", &workers.rows, |worker, out| write_worker(worker, with_addresses, out));
        object.flag("complete", workers.is_complete);
    })
}

fn write_worker(view: &WorkerView, with_addresses: bool, out: &mut Vec<u8>) {
    let mut object = ObjectWriter::new(out);
    object.text("topic", view.topic.as_str());
    if let Some(worker) = &view.worker {
        object.text("worker", worker.as_str());
    }
    object.number("waiting", view.waiting);
    if let Some(at) = view.polled_at {
        object.timestamp("polled_at", at);
    }
    object.number("reserved", view.reserved);
    if let Some(at) = view.oldest_reserved_at {
        object.timestamp("oldest_reserved_at", at);
    }
    if !view.notes.is_empty() {
        object.list("notes", &view.notes, |(id, note), out| {
            let mut object = ObjectWriter::new(out);
            object.text("id", id.as_str());
            write_note(&mut object, note);
            object.end();
        });
    }
    if with_addresses {
        object.list("addresses", &view.addresses, |address, out| {
            json::write_text(out, &address.to_canonical().to_string());
        });
    }
    object.end();
}

/// The endpoints that callbacks go to, with their figures.
pub fn endpoints(endpoints: &Rows<CalledEndpoint>) -> Response {
    json::object_response(|object| {
        object.list("endpoints", &endpoints.rows, write_endpoint);
        object.flag("complete", endpoints.is_complete);
    })
}

fn write_endpoint(endpoint: &CalledEndpoint, out: &mut Vec<u8>) {
    let mut object = ObjectWriter::new(out);
    object.text("topic", endpoint.topic.as_str());
    object.text("host", &endpoint.host);
    object.number("in_flight", endpoint.in_flight);
    object.number("window", endpoint.window);
    if let Some(until) = endpoint.resting_until {
        object.timestamp("resting_until", until);
    }
    if let Some((at, reason)) = &endpoint.last_failure {
        object.object("last_failure", |failure| {
            failure.timestamp("at", *at);
            failure.text("reason", reason);
        });
    }
    if let Some(minute) = endpoint.minute {
        object.object("minute", |calls| {
            calls.number("calls", minute.calls);
            calls.number("succeeded", minute.succeeded);
        });
    }
    object.end();
}
