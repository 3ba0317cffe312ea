//! The state that all requests of our own API share.

use std::{ops::Deref, sync::Arc};

use super::{
    audit::QueueAuditor,
    edge::{Auditor, Edge},
};
use crate::{config::UiSettings, queue::Queue};

/// The API over one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<AppState>);

/// The parts of an [`App`].
#[derive(Debug, Clone)]
pub struct AppState {
    pub(super) queue: Arc<Queue>,
    pub(super) edge: Edge,
    pub(super) auditor: Arc<dyn Auditor>,
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
        let auditor = Arc::new(QueueAuditor::new(queue.clone()));
        Self(Arc::new(AppState { queue, edge, auditor, ui: UiSettings::default() }))
    }

    /// Serves the dashboard with `settings` in place of the defaults.
    #[must_use]
    pub fn with_ui(self, settings: UiSettings) -> Self {
        Self(Arc::new(AppState { ui: settings, ..Arc::unwrap_or_clone(self.0) }))
    }
}
