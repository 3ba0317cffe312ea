//! The integration tests, in one binary: the conformance suite on every engine, the model test, the
//! API through its router, hostile and heavy clients, and the real program from outside.

mod api;
mod auth;
mod backup;
mod bench;
mod binary;
mod callbacks;
mod canary;
mod checker;
mod cli;
mod client;
mod clients;
mod clocks;
mod cluster;
mod conformance;
mod disk;
mod docs;
mod examples;
mod fleet;
mod formats;
mod harness;
mod image;
mod load;
mod model;
mod monitoring;
mod processes;
mod prove;
mod queue;
mod redis_engine;
mod sentinel;
mod simulation;
mod tidy;
mod tls;
mod transfer;
mod verify;
mod work;
