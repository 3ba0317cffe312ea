//! The JSON of topics: counts, pauses, why jobs wait, settings.

use axum::response::Response;

use super::{
    callbacks,
    responses::{write_next_cursor, write_retry},
};
use crate::{
    http::json::{self, ObjectWriter},
    job::{Pause, Topic, TopicPause, TopicSettings},
    queue::{Cause, FailingHost, Throughput, TopicView},
};

/// One topic.
pub fn response(topic: &Topic, view: &TopicView) -> Response {
    json::object_response(|object| write_topic(object, topic, view))
}

/// A page of topics.
pub fn page(topics: &[(Topic, TopicView)], next_cursor: Option<&str>) -> Response {
    json::object_response(|object| {
        object.list("topics", topics, |(topic, view), out| {
            let mut object = ObjectWriter::new(out);
            write_topic(&mut object, topic, view);
            object.end();
        });
        write_next_cursor(object, next_cursor);
    })
}

fn write_topic(object: &mut ObjectWriter<'_>, topic: &Topic, view: &TopicView) {
    let (stats, pause) = (&view.stats, &view.stats.config.pause);
    object.text("topic", topic.as_str());
    object.object("counts", |counts| {
        counts.number("delayed", stats.delayed);
        counts.number("ready", stats.ready);
        counts.number("reserved", stats.reserved);
        counts.number("dead", stats.dead);
    });
    object.timestamp_or_null("next_due_at", stats.next_due);
    object.timestamp_or_null("oldest_overdue_at", stats.oldest_ready);
    object.number("waiting", view.waiting);
    object.number_or_null("polls", view.polls);
    object.object("paused", |paused| {
        paused.flag("delivery", pause.delivery.is_some());
        paused.flag("intake", pause.intake.is_some());
    });
    if *pause != TopicPause::default() {
        object.object("pauses", |pauses| {
            for (operation, pause) in [("delivery", &pause.delivery), ("intake", &pause.intake)] {
                if let Some(pause) = pause {
                    pauses.object(operation, |object| write_pause(object, pause));
                }
            }
        });
    }
    match &view.cause {
        Some(cause) => object.object("cause", |object| write_cause(object, cause)),
        None => object.raw("cause", b"null"),
    }
    object.object("settings", |object| write_settings(object, &stats.config.settings));
}

fn write_cause(object: &mut ObjectWriter<'_>, cause: &Cause) {
    match cause {
        Cause::DeliveryPaused(pause) => {
            object.text("kind", "delivery_paused");
            write_pause(object, pause);
        }
        Cause::CallbackFails(FailingHost { host, answer, at, resting_until }) => {
            object.text("kind", "callback_fails");
            object.text("host", host);
            object.text("answer", answer);
            object.timestamp("at", *at);
            if let Some(until) = resting_until {
                object.timestamp("resting_until", *until);
            }
        }
        Cause::IntakePaused(pause) => {
            object.text("kind", "intake_paused");
            write_pause(object, pause);
        }
        Cause::NoWorker => object.text("kind", "no_worker"),
        Cause::WorkersBusy { reserved, since } => {
            object.text("kind", "workers_busy");
            object.number("reserved", reserved);
            object.timestamp_or_null("since", *since);
        }
        Cause::WorkersSilent { reserved, since } => {
            object.text("kind", "workers_silent");
            object.number("reserved", reserved);
            object.timestamp_or_null("since", *since);
        }
        Cause::Backlog { throughput } => {
            object.text("kind", "backlog");
            if let Some(Throughput { added, finished, .. }) = throughput {
                object.number("added", added);
                object.number("finished", finished);
            }
            if let Some(empty_in) = throughput.and_then(|throughput| throughput.empty_in) {
                object.seconds("empty_in", empty_in);
            }
        }
    }
}

fn write_pause(object: &mut ObjectWriter<'_>, pause: &Pause) {
    object.timestamp_or_null("since", pause.since);
    if let Some(by) = &pause.by {
        object.text("by", by.as_str());
    }
    if let Some(reason) = &pause.reason {
        object.text("reason", reason.as_str());
    }
    if let Some(until) = pause.until {
        object.timestamp("until", until);
    }
}

/// Writes settings in the form in which they are set, so that a response can be sent back as a request. The values of
/// headers are hidden; a request with the hidden value keeps the stored one.
fn write_settings(object: &mut ObjectWriter<'_>, settings: &TopicSettings) {
    if let Some(ttr) = settings.ttr {
        object.seconds("ttr", ttr.as_duration());
    }
    if let Some(max_attempts) = settings.max_attempts {
        object.number("max_attempts", max_attempts);
    }
    if let Some(steps) = &settings.retry {
        write_retry(object, steps);
    }
    object.flag("require_receipt", settings.require_receipt);
    if let Some(late_finish) = settings.late_finish {
        object.flag("late_finish", late_finish);
    }
    if let Some(expire) = settings.expire {
        object.seconds("expire", expire.as_duration());
    }
    if let Some(on_expiry) = settings.on_expiry {
        object.text("on_expiry", on_expiry.as_str());
    }
    if let Some(window) = settings.dedup {
        object.seconds("dedup", window.as_duration());
    }
    callbacks::write_topic_callback(object, &settings.callback);
}
