//! The JSON of what runs here: versions, durability, and the limits that callers meet.

use axum::response::Response;

use crate::{
    http::{
        edge::{HttpOptions, MAX_SMALL_REQUEST_BYTES, MIN_BODY_RATE},
        json,
    },
    job::schedule::zone_database_version,
    queue::{EngineInfo, Limits},
};

/// The versions that run here, the durability of acknowledged changes, and the limits. A limit that is a setting has its name.
pub fn response(engine: &EngineInfo, queue: &Limits, server: &HttpOptions) -> Response {
    json::object_response(|object| {
        object.text("name", env!("CARGO_PKG_NAME"));
        object.text("version", env!("CARGO_PKG_VERSION"));
        object.text("engine", engine.engine);
        object.text("engine_version", &engine.version);
        object.text("durability", &engine.durability);
        object.text("zone_database", zone_database_version());
        object.object("limits", |limits| {
            limits.object("queue", |limits| {
                limits.number("max_body", queue.max_body);
                limits.number("max_batch", queue.max_batch);
                limits.number("max_batch_pop", queue.max_batch_pop);
                limits.number("max_delivery", queue.max_delivery);
                limits.number("max_pop_topics", Limits::MAX_POP_TOPICS);
                limits.seconds("max_delay", queue.max_delay.as_duration());
                limits.seconds("max_wait", queue.max_wait);
                limits.number("max_waiting", queue.max_waiting);
                limits.number("max_looks", queue.max_looks);
                if let Some(kept) = queue.dead_retention {
                    limits.seconds("dead_retention", kept);
                }
            });
            limits.object("server", |limits| {
                limits.number("max_request_bytes", server.max_request_bytes);
                limits.number("max_small_request_bytes", MAX_SMALL_REQUEST_BYTES);
                limits.number("max_buffered_bytes", server.max_buffered_bytes);
                limits.number("max_buffered_bytes_per_caller", server.max_buffered_bytes_per_caller);
                limits.number("max_answer_bytes", server.max_answer_bytes);
                limits.seconds("body_timeout", server.body_timeout);
                limits.number("min_body_rate", MIN_BODY_RATE);
            });
        });
    })
}
