//! The JSON of what happened to a job, and of who has it.

use crate::{
    http::json::ObjectWriter,
    job::{Actor, HistoryEntry, HistoryEvent, Job, Timestamp},
};

/// Writes when and by whom a reserved job was reserved.
pub fn write_reserved(object: &mut ObjectWriter<'_>, job: &Job) {
    if let Some(at) = job.reserved_at() {
        object.timestamp("reserved_at", at);
        write_actor(object, "reserved_by", job.holder());
    }
}

/// Writes the history of a job that has one.
pub fn write_history(object: &mut ObjectWriter<'_>, job: &Job) {
    let entries: Vec<HistoryEntry> = job.history.entries().collect();
    if !entries.is_empty() {
        object.list("history", &entries, |entry, out| {
            let mut object = ObjectWriter::new(out);
            write_entry(&mut object, job, entry);
            object.end();
        });
    }
}

fn write_entry(object: &mut ObjectWriter<'_>, job: &Job, HistoryEntry { at, by, event }: &HistoryEntry) {
    match event {
        HistoryEvent::Attempt { number, took, end, reason } => {
            object.text("kind", "attempt");
            object.number("n", *number);
            object.timestamp("at", *at);
            object.seconds("took", *took);
            object.text("ended", end.as_str());
            write_actor(object, "by", by.clone().or_else(|| job.callback_endpoint()));
            if let Some(reason) = reason {
                object.text("reason", reason.as_str());
            }
        }
        HistoryEvent::Requeued => write_change(object, "requeued", *at, by.clone()),
        HistoryEvent::Rescheduled(due) => {
            write_change(object, "rescheduled", *at, by.clone());
            if let Some(due) = due {
                object.timestamp("from", due.from);
                object.timestamp("to", due.to);
            }
        }
        HistoryEvent::Replaced => write_change(object, "replaced", *at, by.clone()),
    }
}

fn write_change(object: &mut ObjectWriter<'_>, kind: &str, at: Timestamp, by: Option<Actor>) {
    object.text("kind", kind);
    object.timestamp("at", at);
    write_actor(object, "by", by);
}

fn write_actor(object: &mut ObjectWriter<'_>, name: &'static str, actor: Option<Actor>) {
    if let Some(actor) = actor {
        object.text(name, actor.as_str());
    }
}
