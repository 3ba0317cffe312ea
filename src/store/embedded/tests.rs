//! Tests of the engine as a whole and of its heart: memory and disk saying the same, whatever happens.

mod faults;
mod fixture;
mod groups;
mod load;
mod opening;
mod state_machine;
mod verify;
