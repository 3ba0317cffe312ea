//! The state that all requests of our own API share.

use std::{ops::Deref, sync::Arc};

use super::edge::Edge;
use crate::{config::UiSettings, push::Callbacks, queue::Queue};

/// The API over one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<AppState>);

/// The parts of an [`App`].
#[derive(Debug, Clone)]
pub struct AppState {
    pub(super) queue: Arc<Queue>,
    pub(super) edge: Edge,
    /// `None` if callbacks are disabled in this process.
    pub(super) callbacks: Option<Callbacks>,
    pub(super) ui: UiSettings,
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl App {
    /// An API over `queue`.
    #[must_use]
    pub fn new(queue: Arc<Queue>, edge: Edge) -> Self {
        Self(Arc::new(AppState { queue, edge, callbacks: None, ui: UiSettings::default() }))
    }

    /// Shows the figures of `callbacks`.
    #[must_use]
    pub fn with_callbacks(self, callbacks: Callbacks) -> Self {
        Self(Arc::new(AppState { callbacks: Some(callbacks), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Serves the dashboard with `settings` in place of the defaults.
    #[must_use]
    pub fn with_ui(self, settings: UiSettings) -> Self {
        Self(Arc::new(AppState { ui: settings, ..Arc::unwrap_or_clone(self.0) }))
    }
}
