//! The JSON of the figures of the whole queue.

use axum::response::Response;

use crate::{
    http::json::{self, ObjectWriter},
    metrics::{Event, EventSummary},
    queue::StatsView,
};

/// The figures of the whole queue, and if asked for, those of the last minute by topic.
pub fn response(stats: &StatsView, by_topic: bool) -> Response {
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
        if by_topic {
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
            object.end();
        });
    })
}

fn write_summary(object: &mut ObjectWriter<'_>, summary: &EventSummary) {
    object.number("added", summary.count(Event::Added));
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
    for (name, permille) in [("late_p50", 500), ("late_p99", 990)] {
        if let Some(late) = summary.lateness(permille) {
            object.seconds(name, late);
        }
    }
}
