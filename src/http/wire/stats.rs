//! The JSON of the figures of the whole queue.

use axum::response::Response;

use crate::{
    http::json::{self, ObjectWriter},
    job::Timestamp,
    metrics::{Event, EventSummary, PastHour},
    queue::{LastBackup, ProcessLoad, StatsView},
};

const MINUTE_MS: i64 = 60_000;

/// What an answer has beside the figures of the whole queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsDetail {
    /// Those of the last minute by topic.
    ByTopic,
    /// Those of the last hour by the minute.
    ByMinute,
}

/// The figures of the whole queue.
pub fn response(stats: &StatsView, detail: Option<StatsDetail>) -> Response {
    json::object_response(|object| {
        object.timestamp("now", stats.now);
        object.object("counts", |counts| {
            counts.number("delayed", stats.totals.delayed);
            counts.number("ready", stats.totals.ready);
            counts.number("reserved", stats.totals.reserved);
            counts.number("dead", stats.totals.dead);
        });
        object.object("minute", |object| write_summary(object, &stats.minute));
        object.object("hour", |object| write_summary(object, &stats.hour));
        if detail == Some(StatsDetail::ByMinute) {
            object.object("minutes", |object| write_past(object, &stats.past));
        }
        if detail == Some(StatsDetail::ByTopic) {
            object.list("topics", &stats.by_topic.topics, |(topic, minute), out| {
                let mut object = ObjectWriter::new(out);
                object.text("topic", topic);
                object.object("minute", |object| write_summary(object, minute));
                object.end();
            });
            object.flag("topics_complete", stats.by_topic.is_complete);
        }
        object.list("processes", &stats.processes, |process, out| {
            let mut object = ObjectWriter::new(out);
            object.text("name", &process.name);
            object.text("version", &process.version);
            object.timestamp("started_at", process.started_at);
            object.timestamp("seen_at", process.seen_at);
            let ProcessLoad { resident_bytes, operations, failing_topics } = process.load;
            write_known(
                &mut object,
                [
                    ("resident_bytes", resident_bytes),
                    ("operations", operations),
                    ("failing_topics", failing_topics),
                ],
            );
            object.end();
        });
        object.object("store", |store| {
            let space = stats.space;
            write_known(store, [("used_bytes", space.used_bytes), ("free_bytes", space.free_bytes)]);
            match stats.last_backup {
                LastBackup::Foreign => {}
                LastBackup::Unknown => store.timestamp_or_null("backup_at", None),
                LastBackup::At(began_at) => store.timestamp("backup_at", began_at),
            }
        });
    })
}

/// Leaves out what is not known.
fn write_known<const N: usize>(object: &mut ObjectWriter<'_>, figures: [(&'static str, Option<u64>); N]) {
    for (name, figure) in figures {
        if let Some(figure) = figure {
            object.number(name, figure);
        }
    }
}

fn write_past(object: &mut ObjectWriter<'_>, past: &PastHour) {
    object.timestamp("from", Timestamp::from_millis(past.first() * MINUTE_MS));
    let events = [
        ("added", Event::Added),
        ("due", Event::Due),
        ("delivered", Event::Delivered),
        ("finished", Event::Finished),
        ("died", Event::Buried),
    ];
    for (name, event) in events {
        object
            .list(name, past.counts(event), |count, out| out.extend_from_slice(count.to_string().as_bytes()));
    }
}

fn write_summary(object: &mut ObjectWriter<'_>, summary: &EventSummary) {
    object.number("added", summary.count(Event::Added));
    object.number("due", summary.count(Event::Due));
    object.number("delivered", summary.count(Event::Delivered));
    object.number("finished", summary.count(Event::Finished));
    object.number("finished_late", summary.count(Event::FinishedLate));
    object.number("released", summary.count(Event::Released));
    object.number("timed_out", summary.count(Event::TimedOut));
    object.number("died", summary.count(Event::Buried));
    object.number("expired", summary.count(Event::Expired));
    object.number("requeued", summary.count(Event::Requeued));
    object.number("deleted", summary.count(Event::Deleted));
    object.number("cancelled", summary.count(Event::Cancelled));
    let quantiles = [
        ("late_p50", summary.ready_late.quantile(500)),
        ("late_p99", summary.ready_late.quantile(990)),
        ("delivered_late_p50", summary.delivered_late.quantile(500)),
        ("delivered_late_p99", summary.delivered_late.quantile(990)),
    ];
    for (name, late) in quantiles.into_iter().filter_map(|(name, late)| Some((name, late?))) {
        object.seconds(name, late);
    }
}
