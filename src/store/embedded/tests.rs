//! Tests of the engine as a whole, and that memory and rows agree after every operation and fault.

mod faults;
mod fixture;
mod groups;
mod load;
mod opening;
mod snapshot;
mod state_machine;
mod verify;
