//! What the middleware of one route knows.

use std::sync::Arc;

use super::{audit::Auditor, dialect::Dialect, route::RouteSpec, state::Edge};

/// A route of a dialect at the edge.
pub struct RouteContext {
    pub edge: Edge,
    pub dialect: Arc<dyn Dialect>,
    pub route: RouteSpec,
    /// Notes the calls that are audited; `None` in a dialect that has none.
    pub auditor: Option<Arc<dyn Auditor>>,
}
