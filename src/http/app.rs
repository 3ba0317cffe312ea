//! The state that all requests share.

use std::{ops::Deref, sync::Arc};

use super::{options::HttpOptions, refusal_log::RefusalLog};
use crate::{
    auth::Authenticator,
    clock::{Clock, PauseDetector},
    config::UiSettings,
    metrics::Metrics,
    net::byte_budget::{ByteBudget, CallerBudgets},
    push::Callbacks,
    queue::Queue,
};

/// The page of metrics may use one part in this many of the memory for all other responses, in addition to it.
const METRICS_SHARE: usize = 16;

/// The codes of problems that alerts count.
const ALERTING_CODES: [&str; 3] = ["draining", "not_durable", "store_full"];

/// The API over one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<AppState>);

/// The parts of an [`App`].
#[derive(Debug, Clone)]
pub struct AppState {
    pub(super) queue: Arc<Queue>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    pub(super) options: HttpOptions,
    pub(super) authenticator: Arc<Authenticator>,
    /// For the bodies of all requests.
    pub(super) body_budget: ByteBudget,
    /// For the bodies of each caller's requests.
    pub(super) caller_budgets: CallerBudgets,
    /// For responses that clients have not read yet.
    pub(super) response_budget: ByteBudget,
    /// For the page of metrics alone, so that slow readers of jobs cannot hide it.
    pub(super) metrics_budget: ByteBudget,
    pub(super) refusal_log: Arc<RefusalLog>,
    /// `None` if callbacks are disabled in this process.
    pub(super) callbacks: Option<Callbacks>,
    pub(super) ui: UiSettings,
    /// `None` if this process does not detect that it was paused.
    pub(super) pauses: Option<Arc<PauseDetector>>,
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl App {
    /// An API over `queue` that requires no token.
    #[must_use]
    pub fn new(queue: Arc<Queue>, clock: Arc<dyn Clock>, metrics: Metrics, options: HttpOptions) -> Self {
        options.publish(&metrics);
        ALERTING_CODES.iter().for_each(|code| metrics.http.expect_problem(code));
        Self(Arc::new(AppState {
            body_budget: ByteBudget::new(options.max_buffered_bytes),
            caller_budgets: CallerBudgets::new(options.max_buffered_bytes_per_caller),
            response_budget: ByteBudget::new(options.max_answer_bytes),
            metrics_budget: ByteBudget::new((options.max_answer_bytes / METRICS_SHARE).max(1)),
            refusal_log: Arc::default(),
            callbacks: None,
            ui: UiSettings::default(),
            pauses: None,
            authenticator: Arc::default(),
            queue,
            clock,
            metrics,
            options,
        }))
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

    /// Refuses calls that arrived while the process was paused.
    #[must_use]
    pub fn with_pause_detector(self, pauses: Arc<PauseDetector>) -> Self {
        Self(Arc::new(AppState { pauses: Some(pauses), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Requires the tokens of `authenticator`, which may change later.
    #[must_use]
    pub fn with_auth(self, authenticator: Arc<Authenticator>) -> Self {
        Self(Arc::new(AppState { authenticator, ..Arc::unwrap_or_clone(self.0) }))
    }
}
