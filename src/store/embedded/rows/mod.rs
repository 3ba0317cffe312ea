//! The rows of the database: their schema, how jobs are encoded in them, and the statements that read and write
//! them within a transaction. Knows neither memory nor operations.
//!
//! | table | contains |
//! |---|---|
//! | `rec` | every job that is not dead; `key` = due milliseconds << 15 \| position, so adds are nearly sequential and one scan gives due order |
//! | `lease` | one row beside a record exactly while it is reserved: attempts, since when, until when, by whom, receipt |
//! | `dead` | dead letters by moment of death, indexed by topic |
//! | `topic` | what is set for a topic and differs from the defaults, as tagged values |
//! | `schedule` | the schedules by name, with the next moment, by which there is an index |
//! | `remembered` | the ids of jobs that are gone, with the moments when they are forgotten |
//! | `archive` | what was done: calls and bulk operations, by id and by number |
//! | `meta` | `clock`, its high-water mark; `run`, whether the last run ended cleanly; `head`: the store's id, its commits, its jobs; the mark of a move |
//! | `broken` | records that could not be read, as they were found |
//!
//! `application_id` is `LNGR`, `user_version` is the format, 2; any other value is refused. Format 1 was never
//! released.
//!
//! # Damage
//!
//! Every record contains checksums of its head and its body (`codec.rs`), and so do the rows of the small tables
//! (`checksum.rs`). A damaged reservation ends, and its job is delivered again. A damaged topic has the
//! default settings until it is set again. Without the clock's mark the system clock is used. A missing row of
//! `meta` counts as damaged. All of this is logged, and `linger verify` lists it.
//!
//! # Later versions
//!
//! The optional fields of a job are tagged attributes in its head (`job::Attributes`), and so are the values of a
//! topic. A tag that this version does not know is kept byte for byte in every step that rewrites a record or
//! changes a topic. So a new field is a new tag and no new format.

pub(super) mod archive;
pub(super) mod checksum;
pub(super) mod codec;
pub(super) mod db;
pub(super) mod key;
mod leases;
pub(super) mod meta;
pub(super) mod records;
pub(super) mod remembered;
pub(super) mod schedules;
pub(super) mod schema;
mod text_keys;
mod topics;
