//! The API through its real router, each case on every engine, and through real sockets (`wire`).
//!
//! A case moves a manual clock and never sleeps. Every exchange is checked against `openapi.yaml` on
//! the way (`harness::openapi`).

mod adding;
mod bad_input;
mod batches;
mod browsers;
mod contract;
mod dead;
mod failures;
mod holding;
mod limits;
mod logs;
mod messages;
mod operations;
mod patching;
mod popping;
mod sending;
mod topics;
mod wire;

/// Makes a test per engine of every case named.
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
