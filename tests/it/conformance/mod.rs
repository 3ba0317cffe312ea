//! The laws of `store::Store`, one case per rule, each run on every engine.
//!
//! A case gets a fresh engine on a manual clock and never sleeps; when it has ended, a verification of the
//! engine must find nothing. The naive model runs first: a case that fails there is wrong itself.

mod adding;
mod counting;
mod dead;
mod leaving;
mod pages;
mod patching;
mod pausing;
mod reserving;
mod returning;
mod telling;
mod together;
mod topics;

/// Makes a test per engine of every case named.
macro_rules! on_every_engine {
    ($($case:ident),+ $(,)?) => {
        mod naive {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{Bench, Engine};
                Bench::run(Engine::Naive, super::$case).await;
            })+
        }
        mod embedded {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{Bench, Engine};
                Bench::run(Engine::Embedded, super::$case).await;
            })+
        }
        mod redis {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{Bench, Engine};
                Bench::run(Engine::Redis, super::$case).await;
            })+
        }
        mod cluster {
            $(#[tokio::test]
            async fn $case() {
                use crate::harness::stores::{Bench, Engine};
                Bench::run(Engine::Cluster, super::$case).await;
            })+
        }
    };
}
pub(crate) use on_every_engine;
