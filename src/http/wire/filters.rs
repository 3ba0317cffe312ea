//! Filters of jobs: in the query of a list, and in the body of a bulk operation.

use std::sync::Arc;

use super::{
    fields::Fields,
    parameters::Query,
    values::{self, ParseResult},
};
use crate::{
    job::{JobId, Reason, State, Timestamp, Topic},
    queue::{JobFilter, Order},
};

/// The filter in the query of a list.
pub fn in_query(query: &mut Query) -> JobFilter {
    let filter = JobFilter {
        state: query.optional("state", state_text).unwrap_or(State::Delayed),
        topic: query.optional("topic", values::topic_text),
        from: query.optional("from", values::timestamp_text),
        to: query.optional("to", values::timestamp_text),
        id_prefix: query.optional("id_prefix", id_prefix_text),
        reason_prefix: query.optional("reason_prefix", reason_prefix_text),
        reserved_by: query.optional("reserved_by", values::actor_text),
    };
    if let Some((name, detail)) = contradiction(&filter) {
        query.refuse_value(name, detail);
    }
    filter
}

/// The order in the query of a list of jobs in `state`.
pub fn order_in_query(query: &mut Query, state: State) -> Order {
    let order = query.optional("order", order_text).unwrap_or_default();
    if state == State::Ready && order == Order::Descending {
        query.refuse_value("order", "must be \"asc\" for ready jobs");
    }
    order
}

/// A condition that a client has no value for must not make the filter match more jobs.
fn null_in_filter(name: &str) -> Option<&'static str> {
    let is_condition = matches!(name, "from" | "to" | "id_prefix" | "reason_prefix" | "reserved_by");
    is_condition.then_some("must not be null: leave it out if the filter is meant without it")
}

/// The fields of the filter of a bulk operation, of jobs in `default` unless it names a state.
pub fn in_body(fields: &mut Fields<'_>, default: Option<State>) -> Option<JobFilter> {
    fields.set_null_rule(null_in_filter);
    let state = |raw| state_text(&values::text(raw)?);
    let left_out = default.filter(|_| !fields.has("state"));
    let state = match default {
        Some(_) => fields.optional("state", state).or(left_out),
        None => fields.required("state", state),
    };
    let topic: Option<Topic> = fields.optional("topic", values::topic);
    let has_topic = fields.has("topic");
    let all_topics = fields.optional("all_topics", values::flag).unwrap_or(false);
    if has_topic && all_topics {
        fields.add_fault("all_topics", "must not be true together with topic");
    } else if !has_topic && !all_topics {
        fields.add_fault("topic", "is required, or \"all_topics\": true");
    }
    let filter = JobFilter {
        state: state.unwrap_or(State::Delayed),
        topic,
        from: fields.optional("from", values::timestamp),
        to: fields.optional("to", values::timestamp),
        id_prefix: fields.optional("id_prefix", |raw| id_prefix_text(&values::text(raw)?)),
        reason_prefix: fields.optional("reason_prefix", |raw| reason_prefix_text(&values::text(raw)?)),
        reserved_by: fields.optional("reserved_by", values::actor),
    };
    if let Some((name, detail)) = contradiction(&filter).filter(|_| state.is_some()) {
        fields.add_fault(name, detail);
    }
    state.map(|_| filter)
}

/// The field that contradicts another one, and how to correct it.
fn contradiction(filter: &JobFilter) -> Option<(&'static str, &'static str)> {
    if filter.reason_prefix.is_some() && filter.state != State::Dead {
        return Some(("reason_prefix", "is for dead letters only; set state to \"dead\""));
    }
    if filter.reserved_by.is_some() && filter.state != State::Reserved {
        return Some(("reserved_by", "is for reserved jobs only; set state to \"reserved\""));
    }
    let ends_first = |(from, to): (Timestamp, Timestamp)| to <= from;
    filter.from.zip(filter.to).is_some_and(ends_first).then_some(("to", "must be later than from"))
}

fn state_text(text: &str) -> ParseResult<State> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| "must be \"delayed\", \"ready\", \"reserved\" or \"dead\"".to_owned())
}

fn order_text(text: &str) -> ParseResult<Order> {
    match text {
        "asc" => Ok(Order::Ascending),
        "desc" => Ok(Order::Descending),
        _ => Err("must be \"asc\" or \"desc\"".to_owned()),
    }
}

fn id_prefix_text(text: &str) -> ParseResult<Arc<str>> {
    // Ids may begin with dots, but may not be dots alone.
    if !matches!(text, "." | "..") {
        JobId::parse(text).map_err(|error| error.to_string())?;
    }
    Ok(text.into())
}

fn reason_prefix_text(text: &str) -> ParseResult<Arc<str>> {
    if text.is_empty() || text.len() > Reason::MAX_LEN {
        return Err(format!("must be 1 to {} bytes long", Reason::MAX_LEN));
    }
    Ok(text.into())
}
