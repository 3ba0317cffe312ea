//! Tests of the engine as a whole and of its heart: memory and disk saying the same, whatever happens.

mod bench;
mod faults;
mod groups;
mod heart;
mod load;
mod opening;
mod verify;
