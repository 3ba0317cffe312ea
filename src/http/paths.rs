//! Every path of the API, in one place. The router, the figures and the answers take them from here.

pub(super) const JOBS: &str = "/jobs";
pub(super) const JOB: &str = "/jobs/{id}";
pub(super) const FINISH: &str = "/jobs/{id}/finish";
pub(super) const RELEASE: &str = "/jobs/{id}/release";
pub(super) const TOUCH: &str = "/jobs/{id}/touch";
pub(super) const BURY: &str = "/jobs/{id}/bury";
pub(super) const REQUEUE: &str = "/jobs/{id}/requeue";

pub(super) const BATCH_JOBS: &str = "/batch/jobs";
pub(super) const BATCH_POP: &str = "/batch/pop";
pub(super) const BATCH_FINISH: &str = "/batch/finish";
pub(super) const BATCH_DELETE: &str = "/batch/delete";

pub(super) const TOPICS: &str = "/topics";
pub(super) const TOPIC: &str = "/topics/{topic}";
pub(super) const POP: &str = "/topics/{topic}/pop";
pub(super) const PAUSE: &str = "/topics/{topic}/pause";
pub(super) const RESUME: &str = "/topics/{topic}/resume";
pub(super) const DEAD: &str = "/topics/{topic}/dead";
pub(super) const DEAD_REQUEUE: &str = "/topics/{topic}/dead/requeue";

pub(super) const LIVEZ: &str = "/livez";
pub(super) const READYZ: &str = "/readyz";
pub(super) const VERSION: &str = "/version";
pub(super) const METRICS: &str = "/metrics";
pub(super) const OPENAPI: &str = "/openapi.yaml";

/// Calls whose bodies hold jobs, or as many ids as a batch may have.
pub(super) const LARGE_BODIES: [&str; 5] = [JOBS, JOB, BATCH_JOBS, BATCH_FINISH, BATCH_DELETE];

/// Stands for the route of a request that no path matches.
pub(super) const NO_ROUTE: &str = "none";

/// What hands out jobs.
pub(super) const DELIVERIES: [&str; 2] = [POP, BATCH_POP];

/// Pages for whoever watches over the process: open to all, by any name of the host.
pub(super) const PROBES: [&str; 2] = [LIVEZ, READYZ];

/// Pages that change nothing and show nothing of any job.
pub(super) const OPERATIONS: [&str; 5] = [LIVEZ, READYZ, VERSION, METRICS, OPENAPI];
