//! The laws of `store::Store`, one case per rule, each run on every engine.
//!
//! A case gets a new engine on a manual clock and never sleeps; after it, a verification of the engine must find
//! nothing. The naive model runs first: a case that fails there is wrong itself.

mod adding;
mod changing;
mod concurrent;
mod counting;
mod dead;
mod ending;
mod guards;
mod history;
mod listing;
mod notices;
mod notifying;
mod outlets;
mod pages;
mod patching;
mod pausing;
mod rates;
mod records;
mod reserving;
mod returning;
mod secrets;
mod timeline;
mod topics;
mod walking;

/// Makes a test of each case for each engine.
macro_rules! on_every_engine {
    ($($case:ident),+ $(,)?) => {
        mod naive {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{StoreFixture, Engine};
                StoreFixture::run(Engine::Naive, super::$case).await;
            })+
        }
        mod embedded {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{StoreFixture, Engine};
                StoreFixture::run(Engine::Embedded, super::$case).await;
            })+
        }
        mod redis {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{StoreFixture, Engine};
                StoreFixture::run(Engine::Redis, super::$case).await;
            })+
        }
        mod cluster {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{StoreFixture, Engine};
                StoreFixture::run(Engine::Cluster, super::$case).await;
            })+
        }
    };
}
pub(crate) use on_every_engine;
