//! The data directory and the space on its disk: the lock and the commit mark, the ballast file, and what free
//! space allows. Knows no row and no job.

pub(super) mod ballast;
pub(super) mod commit_mark;
pub(super) mod data_dir;
pub(super) mod disk_space;
mod growth_limit;
