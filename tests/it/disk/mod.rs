//! The embedded engine against the disk: power cuts, calls that fail, a full file system, damaged files.
//! Real program, real files; what is held against it afterwards is what its clients were told.
//!
//! Short in the normal run. `LINGER_PROVE_CUTS` sets how many power cuts there are. Each test prints one
//! line of figures that begins with `proof:`, or says why it cannot run here.

mod bay;
mod cuts;
mod ledger;
mod worker;

/// A count from the environment, or the short run's.
fn asked(name: &str, default: usize) -> usize {
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}: a number"));
    std::env::var(name).map_or(default, number)
}
