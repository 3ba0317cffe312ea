//! The laws of `store::Store`, one case per rule, each run on every engine.
//!
//! A case gets a new engine on a manual clock and never sleeps; after it, a verification of the engine must find
//! nothing. The naive model runs first: a case that fails there is wrong itself.

mod adding;
mod archive;
mod changing;
mod concurrent;
mod counting;
mod dead;
mod ending;
mod expiring;
mod expiry_changes;
mod guards;
mod history;
mod late_finishes;
mod listing;
mod notes;
mod notices;
mod notifying;
mod outlets;
mod pages;
mod patching;
mod pausing;
mod racing_versions;
mod rates;
mod records;
mod remembering;
mod replaced_holders;
mod replacing;
mod reserving;
mod returning;
mod revoking;
mod schedules;
mod secrets;
mod steps;
mod timeline;
mod topics;
mod walking;

/// Makes a test of each case for one engine.
macro_rules! on_engine {
    ($module:ident, $engine:ident, $($case:ident),* $(,)?) => {
        mod $module {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{Engine, StoreFixture};
                StoreFixture::run(Engine::$engine, super::$case).await;
            })*
        }
    };
}
pub(crate) use on_engine;

/// Makes a test of each case for each engine. The cases after the semicolon are about single jobs, which are on one shard:
/// on a Cluster they prove nothing that a single Redis does not, so that only `scripts/test --all` runs them there.
macro_rules! on_every_engine {
    ($($case:ident),* $(,)? $(; $($single:ident),+ $(,)?)?) => {
        $crate::conformance::on_engine!(naive, Naive, $($case,)* $($($single),+)?);
        $crate::conformance::on_engine!(embedded, Embedded, $($case,)* $($($single),+)?);
        $crate::conformance::on_engine!(redis, Redis, $($case,)* $($($single),+)?);
        $crate::conformance::on_engine!(cluster, Cluster, $($case),*);
        $(mod repeated {
            use super::{$($single),+};
            $crate::conformance::on_engine!(cluster, Cluster, $($single),+);
        })?
    };
}
pub(crate) use on_every_engine;
