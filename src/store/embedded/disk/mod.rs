//! The data directory and the space on its disk: the lock and the commit mark, the ballast file, and what free
//! space allows. Knows no row and no job.
//!
//! Both the lock file and the directory itself are locked; `data_dir.rs` says why not the database. A second
//! process may read the database all the same: the lock guards only serving and restoring.

pub(super) mod ballast;
pub(super) mod commit_mark;
pub(super) mod data_dir;
pub(super) mod disk_space;
mod growth_limit;
