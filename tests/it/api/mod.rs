//! The API through its router, with each case on every engine, and through sockets (`connections`, `request_bodies`).
//!
//! A case advances a manual clock and never sleeps. `harness::openapi` checks every exchange against `openapi.yaml`.

mod adding;
mod bad_input;
mod batches;
mod browsers;
mod bulk;
mod bulk_requests;
mod callbacks;
mod calling;
mod connections;
mod contract;
mod dashboard;
mod dead;
mod endpoints;
mod failures;
mod history;
mod limits;
mod lists;
mod logs;
mod messages;
mod operations;
mod patching;
mod popping;
mod request_bodies;
mod reservations;
mod settling;
mod stats;
mod timeline;
mod topic_lists;
mod topics;
mod traces;

/// Defines one test per engine for every case.
macro_rules! on_every_engine {
    ($($case:ident),+ $(,)?) => {
        mod naive {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::harness::stores::Engine::Naive).await;
            })+
        }
        mod embedded {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::harness::stores::Engine::Embedded).await;
            })+
        }
        mod redis {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::harness::stores::Engine::Redis).await;
            })+
        }
    };
}
use on_every_engine;
