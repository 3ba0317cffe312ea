//! The data directory and the space on its disk: the locked directory, the ballast file, and what free space
//! allows. Knows no row and no job.

pub(super) mod ballast;
pub(super) mod data_dir;
pub(super) mod disk_space;
