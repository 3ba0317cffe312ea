//! What the middleware of one route knows.

use std::sync::Arc;

use super::{dialect::Dialect, route::RouteSpec, state::Edge};

/// A route of a dialect at the edge.
pub struct RouteContext {
    pub edge: Edge,
    pub dialect: Arc<dyn Dialect>,
    pub route: RouteSpec,
}
