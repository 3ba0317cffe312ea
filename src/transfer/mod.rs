//! Moving jobs between stores of any engine: exports, imports, and the passes and steps of a move. Works on the
//! traits of the store alone, and knows neither HTTP nor the queue's rules.
//!
//! A few operations of the store copy it. `records` returns a reader of whole records; `put`, `put_topic`, `put_schedules` and `put_remembered`
//! store them as they were and never replace others. A `JobRecord` is the job that callers see and what only a store
//! knows: receipt, fingerprint, attributes of later versions. An import has no transaction over its batches; it is
//! repeated until it is complete.
//!
//! A move (`relocate.rs`) makes the target equal to the source in passes, which compare digests, and then opens it
//! in the source's place.

mod compare;
mod copy;
mod file;
mod job_line;
mod line;
mod pass;
mod relocate;
mod remembered_line;
mod schedule_line;
mod topic_line;
mod watcher;

pub use copy::{Exported, Imported, export, import};
pub use file::{CheckedExport, ExportFile, TransferError, check, remove_incomplete};
pub use pass::PassReport;
pub use relocate::{NamedStore, Relocation, abandon};
pub use watcher::Watcher;

/// A number of things in words, such as "1 job" or "2 jobs".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What a store or a file has, in words. Schedules and remembered ids are named if there are any.
pub(crate) fn contents_in_words(jobs: u64, topics: u64, schedules: u64, remembered: u64) -> String {
    let mut parts = vec![counted(jobs, "job"), counted(topics, "topic")];
    for (count, noun) in [(schedules, "schedule"), (remembered, "remembered id")] {
        parts.extend((count > 0).then(|| counted(count, noun)));
    }
    let last = parts.pop().unwrap_or_default();
    format!("{} and {last}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0, 1, 2].map(|count| super::counted(count, "job")), ["0 jobs", "1 job", "2 jobs"]);
    }
}
