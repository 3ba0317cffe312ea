//! The audit list.

use axum::extract::State;

use super::HandlerResult;
use crate::{
    http::{
        access::{self, Authenticated},
        app::App,
        wire::{audit, parameters::Query, values},
    },
    queue::AuditFilter,
};

const DEFAULT_PAGE: usize = 50;
const MAX_PAGE: usize = 1_000;

/// `GET /audit`.
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    mut query: Query,
) -> HandlerResult {
    let topic = query.optional("topic", values::topic_text);
    let by = query.optional("by", |text| Ok(text.to_owned()));
    let limit = query.optional("limit", |text| values::whole_number_text(text, 1, MAX_PAGE));
    let before = query.optional("cursor", audit::decode_cursor);
    query.finish()?;
    if let Some(topic) = &topic {
        access::check_topic(&caller, topic)?;
    }
    let filter = AuditFilter { scope: caller.topics, own: caller.name.to_string(), topic, by };
    let page = app.queue.audit(&filter, before, limit.unwrap_or(DEFAULT_PAGE)).await?;
    Ok(audit::page(&page))
}
