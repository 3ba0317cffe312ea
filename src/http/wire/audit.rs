//! The JSON of the audit list.

use axum::response::Response;

use super::{parameters, values::ParseResult};
use crate::{
    http::json::{self, ObjectWriter},
    queue::{AuditEntry, AuditPage},
};

/// A page of the list.
pub fn page(page: &AuditPage) -> Response {
    json::object_response(|object| {
        object.list("calls", &page.entries, write_entry);
        if let Some(next) = page.next {
            object.text("next_cursor", &parameters::encode_cursor(&next.to_string()));
        }
    })
}

/// The number before which the next page begins.
pub fn decode_cursor(text: &str) -> ParseResult<u64> {
    parameters::decode_cursor(text)?.parse().map_err(|_| parameters::invalid_cursor())
}

fn write_entry(entry: &AuditEntry, out: &mut Vec<u8>) {
    let AuditEntry { number, at, call } = entry;
    let mut object = ObjectWriter::new(out);
    object.number("number", number);
    object.timestamp("at", *at);
    object.text("by", &call.by);
    if let Some(address) = call.address {
        object.text("address", &address.to_string());
    }
    object.flag("from_browser", call.from_browser);
    object.text("method", &call.method);
    object.text("path", &call.path);
    if let Some(topic) = &call.topic {
        object.text("topic", topic);
    }
    if let Some(request) = &call.request {
        object.raw("request", request.get().as_bytes());
    }
    if let Some(status) = call.status {
        object.number("status", status);
    }
    object.end();
}
