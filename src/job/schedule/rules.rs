//! What a schedule does if its last run is not over, and about runs that an outage has missed.

use std::time::Duration;

use super::ScheduleError;

/// What happens if the job of the previous run still lives, dead letters aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overlap {
    /// The occurrence does not run.
    #[default]
    Skip,
    /// It runs beside it.
    Allow,
    /// It takes the place of a job that waits. One that is reserved is left alone.
    Replace,
}

impl Overlap {
    /// All, by their names in the API.
    pub const ALL: [Self; 3] = [Self::Skip, Self::Allow, Self::Replace];

    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Allow => "allow",
            Self::Replace => "replace",
        }
    }
}

/// Which runs take place that an outage has made over a minute late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Missed {
    /// The latest.
    #[default]
    One,
    /// All, at most 1,000.
    All,
    /// None.
    None,
}

impl Missed {
    /// All, by their names in the API.
    pub const ALL: [Self; 3] = [Self::One, Self::All, Self::None];

    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::All => "all",
            Self::None => "none",
        }
    }
}

/// Which late runs take place, and how late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MissedRule {
    missed: Missed,
    within: Option<Duration>,
}

impl MissedRule {
    /// The tolerance: a run that is later than this is late, and its schedule had an outage; a schedule that is further ahead of
    /// the clock has seen a wrong one.
    pub const LATE: Duration = Duration::from_secs(60);
    /// Most runs that `all` makes up for.
    pub const MAX_RUNS: usize = 1_000;
    /// How late runs may be that `all` makes up for, if nothing is said.
    pub const DEFAULT_WITHIN_OF_ALL: Duration = Duration::from_secs(86_400);

    /// Accepts a rule that suits the rule about overlaps.
    ///
    /// # Errors
    /// [`ScheduleError`] for `all` if runs may not overlap, and for a window that is too short or has no meaning.
    pub fn new(missed: Missed, within: Option<Duration>, overlap: Overlap) -> Result<Self, ScheduleError> {
        if missed == Missed::All && overlap != Overlap::Allow {
            let problem = "must not be \"all\" unless overlap is \"allow\": the runs would stop each other";
            return Err(ScheduleError::new("missed", problem));
        }
        let problem = match within {
            Some(_) if missed == Missed::None => "has no meaning if missed is \"none\"; leave it out",
            Some(within) if within < Self::LATE => "must be at least 1 minute",
            Some(_) | None => return Ok(Self { missed, within }),
        };
        Err(ScheduleError::new("missed_within", problem))
    }

    /// Which late runs take place.
    #[must_use]
    pub fn missed(self) -> Missed {
        self.missed
    }

    /// What was said about how late they may be.
    #[must_use]
    pub fn within(self) -> Option<Duration> {
        self.within
    }

    /// How late a run may be; `None` for any time.
    #[must_use]
    pub fn window(self) -> Option<Duration> {
        match self.missed {
            Missed::One => self.within,
            Missed::All => self.within.or(Some(Self::DEFAULT_WITHIN_OF_ALL)),
            Missed::None => Some(Self::LATE),
        }
    }
}
