//! The harness of the tests: engines on a manual clock, servers of their own, clients, and functions for jobs.

pub mod api;
pub mod blocking_http;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod failing;
pub mod jobs;
pub mod lists;
pub mod monitor;
pub mod naive;
pub mod network;
pub mod not_here;
pub mod openapi;
pub mod pages;
pub mod process;
pub mod process_stats;
pub mod prometheus;
pub mod receiver;
pub mod records;
pub mod redis;
pub mod resolver;
pub mod resp;
pub mod sentinel;
pub mod socket;
pub mod stores;
pub mod wait;
