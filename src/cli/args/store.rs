//! The commands of `linger store`.

use clap::{Args, Subcommand};

use super::{DirectoryFlag, EngineFlags, FileFlag, help};

/// The commands of `linger store`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StoreCommand {
    /// Set the embedded engine's clock back to that of this machine, after it went by a clock that was far ahead
    #[command(after_help = help::ACCEPT_CLOCK)]
    AcceptClock(StoreArgs),
    /// Confirm that the jobs of a Redis that was emptied or replaced are lost
    #[command(after_help = help::STORE_ACCEPT)]
    Accept(AcceptArgs),
}

/// Arguments of `linger store accept`.
#[derive(Debug, Args)]
pub(in crate::cli) struct AcceptArgs {
    #[command(flatten)]
    pub(super) file: FileFlag,
    #[command(flatten)]
    pub(super) directory: DirectoryFlag,
    #[command(flatten)]
    pub(super) engine: EngineFlags,
}

/// Arguments of `linger store accept-clock`.
#[derive(Debug, Args)]
pub(in crate::cli) struct StoreArgs {
    #[command(flatten)]
    pub(super) file: FileFlag,
    #[command(flatten)]
    pub(super) directory: DirectoryFlag,
}
