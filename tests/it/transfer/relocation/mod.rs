//! Moves between stores: every engine to every other, an error at each step, and what servers are told meanwhile.

mod program;
mod steps;
