//! The events of jobs that are counted.

/// An event of a job. Each has its own counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Added; a repeated add does not count.
    Added,
    /// Replaced by a newer version.
    Replaced,
    /// Delivered to a worker.
    Delivered,
    /// Finished.
    Finished,
    /// Finished after its reservation had timed out; it counts as finished, too.
    FinishedLate,
    /// Released by a worker, or taken back from it.
    Released,
    /// Its reservation ended by its TTR.
    TimedOut,
    /// Expired: became a dead letter, or was deleted.
    Expired,
    /// Became a dead letter.
    Buried,
    /// Deleted, purged or past its retention.
    Deleted,
    /// Requeued from the dead letters.
    Requeued,
    /// Returned uncounted because the client disconnected.
    Cancelled,
    /// Came due: its delay ended, or it is ready at once after an add, a replacement, a release, the end of its TTR, a requeue or a
    /// change of its due time.
    Due,
}

impl Event {
    /// The name of its metric.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub(super) const ALL: [(Self, &'static str, &'static str); 13] = [
        (Self::Added, "linger_jobs_added", "Jobs added"),
        (Self::Replaced, "linger_jobs_replaced", "Jobs replaced by a newer version"),
        (Self::Delivered, "linger_jobs_delivered", "Reservations delivered"),
        (Self::Finished, "linger_jobs_finished", "Jobs finished"),
        (
            Self::FinishedLate,
            "linger_jobs_finished_late",
            "Jobs finished after their reservation had timed out, which are among those finished",
        ),
        (Self::Released, "linger_jobs_released", "Jobs released by workers, or taken back from them"),
        (Self::TimedOut, "linger_jobs_timed_out", "Reservations ended by their TTR"),
        (Self::Expired, "linger_jobs_expired", "Jobs that expired"),
        (Self::Buried, "linger_jobs_buried", "Jobs that became dead letters"),
        (Self::Deleted, "linger_jobs_deleted", "Jobs deleted, purged or past their retention"),
        (Self::Requeued, "linger_jobs_requeued", "Dead letters requeued"),
        (Self::Cancelled, "linger_jobs_cancelled", "Reservations cancelled because the client disconnected"),
        (Self::Due, "linger_jobs_due", "Jobs that came due, each time that they did"),
    ];
}
