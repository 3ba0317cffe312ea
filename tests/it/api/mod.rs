//! The API through its router, with each case on every engine, and through sockets (`connections`, `request_bodies`).
//!
//! A case advances a manual clock and never sleeps. `harness::openapi` checks every exchange against `openapi.yaml`.

mod activity;
mod adding;
mod audit;
mod bad_input;
mod batches;
mod browsers;
mod bulk;
mod bulk_requests;
mod bulk_revoke;
mod callbacks;
mod calling;
mod causes;
mod compression;
mod connections;
mod contract;
mod dashboard;
mod dead;
mod endpoints;
mod entity_tags;
mod expiring;
mod failures;
mod history;
mod late_finishing;
mod limits;
mod lists;
mod logs;
mod messages;
mod neighbors;
mod nulls;
mod operations;
mod patching;
mod popping;
mod remembering;
mod replacing;
mod request_bodies;
mod reservations;
mod schedule_requests;
mod schedules;
mod settling;
mod stats;
mod timeline;
mod topic_lists;
mod topics;
mod traces;
mod unexpected_bodies;

/// Makes a test of each case for one engine.
macro_rules! on_engine {
    ($module:ident, $engine:ident, $($case:ident),* $(,)?) => {
        mod $module {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::harness::stores::Engine::$engine).await;
            })*
        }
    };
}
use on_engine;

/// Makes a test of each case for each engine. The cases after the semicolon end before the store is asked: on further
/// engines they prove nothing more, so that only `scripts/test --all` runs them there.
macro_rules! on_every_engine {
    ($($case:ident),* $(,)? $(; $($before_the_store:ident),+ $(,)?)?) => {
        super::on_engine!(naive, Naive, $($case,)* $($($before_the_store),+)?);
        super::on_engine!(embedded, Embedded, $($case),*);
        super::on_engine!(redis, Redis, $($case),*);
        $(mod repeated {
            use super::{$($before_the_store),+};
            super::super::on_engine!(embedded, Embedded, $($before_the_store),+);
            super::super::on_engine!(redis, Redis, $($before_the_store),+);
        })?
    };
}
use on_every_engine;
