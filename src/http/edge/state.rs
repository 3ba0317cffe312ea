//! What all requests share at the edge, whatever their dialect: limits, budgets, tokens, and the log of refusals.

use std::{ops::Deref, sync::Arc};

use super::{options::HttpOptions, refusal_log::RefusalLog};
use crate::{
    auth::Authenticator,
    clock::{Clock, PauseDetector},
    metrics::Metrics,
    net::byte_budget::{ByteBudget, CallerBudgets},
};

/// The page of metrics may use one part in this many of the memory for all other responses, in addition to it.
const METRICS_SHARE: usize = 16;

/// The codes of problems that alerts count.
const ALERTING_CODES: [&str; 3] = ["draining", "not_durable", "store_full"];

/// The edge of a server, which all its dialects share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Edge(Arc<EdgeState>);

/// The parts of an [`Edge`].
#[derive(Debug)]
pub struct EdgeState {
    pub(in crate::http) clock: Arc<dyn Clock>,
    pub(in crate::http) metrics: Metrics,
    pub(in crate::http) options: HttpOptions,
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
    /// `None` if this process does not detect that it was paused.
    pub(super) pauses: Option<Arc<PauseDetector>>,
}

impl Deref for Edge {
    type Target = EdgeState;

    fn deref(&self) -> &EdgeState {
        &self.0
    }
}

impl Edge {
    /// An edge that requires no token. Publishes the limits as metrics.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, metrics: Metrics, options: HttpOptions) -> Self {
        options.publish(&metrics);
        ALERTING_CODES.iter().for_each(|code| metrics.http.expect_problem(code));
        Self(Arc::new(EdgeState {
            body_budget: ByteBudget::new(options.max_buffered_bytes),
            caller_budgets: CallerBudgets::new(options.max_buffered_bytes_per_caller),
            response_budget: ByteBudget::new(options.max_answer_bytes),
            metrics_budget: ByteBudget::new((options.max_answer_bytes / METRICS_SHARE).max(1)),
            refusal_log: Arc::default(),
            pauses: None,
            authenticator: Arc::default(),
            clock,
            metrics,
            options,
        }))
    }

    /// Requires the tokens of `authenticator`, which may change later.
    #[must_use]
    pub fn with_auth(mut self, authenticator: Arc<Authenticator>) -> Self {
        self.state_mut().authenticator = authenticator;
        self
    }

    /// Refuses calls that arrived while the process was paused.
    #[must_use]
    pub fn with_pause_detector(mut self, pauses: Arc<PauseDetector>) -> Self {
        self.state_mut().pauses = Some(pauses);
        self
    }

    fn state_mut(&mut self) -> &mut EdgeState {
        Arc::get_mut(&mut self.0).expect("an edge is complete before it is shared")
    }
}
