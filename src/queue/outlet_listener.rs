//! Who hears of outlets with ready jobs, besides the waiting polls.

use crate::job::Outlet;

/// Hears of outlets that may have ready jobs for callbacks. The method must return at once.
pub trait OutletListener: Send + Sync + std::fmt::Debug {
    /// `outlet` may have ready jobs, or the delivery of its topic was resumed. Not every notified outlet goes to a callback.
    fn ready(&self, outlet: &Outlet);
}
