//! The integration tests, in one binary: the conformance suite on every engine, the model test, the
//! API through its router, hostile and heavy clients, and the real program from outside.

mod api;
mod binary;
mod clients;
mod conformance;
mod harness;
mod load;
mod model;
mod processes;
mod queue;
mod redis_engine;
mod tidy;
