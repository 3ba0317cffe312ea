//! Tests of the engine as a whole, and that memory and rows agree after every operation and fault.

mod archive;
mod damaged_rows;
mod faults;
pub(super) mod fixture;
mod groups;
mod id_index;
mod later_versions;
mod lists;
mod load;
mod moments;
mod opening;
mod promoting;
mod schedules;
mod snapshot;
mod state_machine;
mod verify;
