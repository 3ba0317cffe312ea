//! The JSON of lists of jobs, and their cursors.

use axum::response::Response;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    history, parameters,
    responses::{write_count, write_job_head, write_next_cursor},
    values::ParseResult,
};
use crate::{
    http::json::{self, ObjectWriter},
    queue::{DeadReason, DeadReasons, JobFilter, JobPage, ListPosition, ListedJob, Order},
};

/// A page of a list.
pub fn job_page(page: &JobPage, filter: &JobFilter, order: Order) -> Response {
    let cursor = page.next.as_ref().map(|position| encode_cursor(position, filter, order));
    json::object_response(|object| {
        object.list("jobs", &page.jobs, write_listed_job);
        write_next_cursor(object, cursor.as_deref());
        object.number("examined", page.examined);
    })
}

/// Writes a job with the length of its body in place of the body.
pub fn write_listed_job(listed: &ListedJob, out: &mut Vec<u8>) {
    let mut object = ObjectWriter::new(out);
    write_job_head(&mut object, &listed.job);
    history::write_reserved(&mut object, &listed.job);
    object.number("body_bytes", listed.body_bytes);
    object.end();
}

/// A cursor has a position, and a hash of the list that it belongs to.
fn encode_cursor(position: &ListPosition, filter: &JobFilter, order: Order) -> String {
    parameters::encode_cursor(&format!("{:016x}{}", hash_of(filter, order), position.0))
}

/// The position in a cursor of the same list.
pub fn decode_cursor(text: &str, filter: &JobFilter, order: Order) -> ParseResult<ListPosition> {
    let text = parameters::decode_cursor(text)?;
    let (hash, position) = text.split_at_checked(16).ok_or_else(parameters::invalid_cursor)?;
    if u64::from_str_radix(hash, 16) != Ok(hash_of(filter, order)) {
        return Err("must be the next_cursor of a page with the same filter and order".to_owned());
    }
    Ok(ListPosition(position.to_owned()))
}

fn hash_of(filter: &JobFilter, order: Order) -> u64 {
    xxh3_64(format!("{filter:?} {order:?}").as_bytes())
}

/// The reasons of dead letters, and their deaths over time.
pub fn dead_reasons(reasons: &DeadReasons) -> Response {
    json::object_response(|object| {
        object.list("reasons", &reasons.reasons, write_reason);
        object.timestamp("from", reasons.from.start());
        object.number("step", u64::from(reasons.step) * 60);
        object.list("deaths", &reasons.deaths, write_count);
        object.number("examined", reasons.examined);
        object.flag("complete", reasons.is_complete);
    })
}

fn write_reason(reason: &DeadReason, out: &mut Vec<u8>) {
    let mut object = ObjectWriter::new(out);
    object.text("topic", reason.topic.as_str());
    object.text("reason", &reason.pattern);
    object.text("prefix", &reason.prefix);
    object.number("count", reason.count);
    object.list("deaths", &reason.deaths, write_count);
    object.timestamp("first_dead_at", reason.first_dead_at);
    object.timestamp("last_dead_at", reason.last_dead_at);
    object.text("job_id", reason.last_id.as_str());
    object.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::State;

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let (filter, position) = (JobFilter::all(State::Dead), ListPosition("17 é".to_owned()));
        let cursor = encode_cursor(&position, &filter, Order::Ascending);
        assert_eq!(decode_cursor(&cursor, &filter, Order::Ascending), Ok(position));
        assert!(decode_cursor(&cursor, &filter, Order::Descending).is_err());
        assert!(decode_cursor(&cursor, &JobFilter::all(State::Ready), Order::Ascending).is_err());
        for other in ["", "00", "é", &parameters::encode_cursor("0123456789abcdeé")] {
            assert!(decode_cursor(other, &filter, Order::Ascending).is_err(), "{other}");
        }
    }
}
