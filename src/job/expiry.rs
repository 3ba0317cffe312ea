//! When a job expires: from that moment on it is not delivered any more. As it is stored with a job: what was asked, and the
//! moment that follows from it.

use super::{Delay, DueKind, Timestamp};

/// Set if the job is deleted when it expires.
const DELETES: u8 = 1;
/// Set if a moment was asked.
const MOMENT: u8 = 2;
const MILLIS_BYTES: usize = 6;

/// When a job expires, as its client or its topic asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expire {
    /// This long after it is due.
    After(Delay),
    /// At this moment.
    At(Timestamp),
}

/// What happens to a job that expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnExpiry {
    /// It becomes a dead letter.
    #[default]
    Dead,
    /// It is deleted.
    Delete,
}

impl OnExpiry {
    /// Both, by their names in the API.
    pub const ALL: [Self; 2] = [Self::Dead, Self::Delete];

    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Delete => "delete",
        }
    }
}

/// What was asked about the expiry of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expiry {
    /// When.
    pub expire: Expire,
    /// What happens then.
    pub on_expiry: OnExpiry,
}

/// A change of what was asked about the expiry of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExpiryChange {
    /// It stays.
    #[default]
    Keep,
    /// The job does not expire any more.
    Clear,
    /// It is this; what happens at the expiry stays if that is `None`.
    Set(Expire, Option<OnExpiry>),
}

impl ExpiryChange {
    /// What is asked after the change.
    #[must_use]
    pub fn apply_to(self, expiry: Option<Expiry>) -> Option<Expiry> {
        match self {
            Self::Keep => expiry,
            Self::Clear => None,
            Self::Set(expire, on_expiry) => {
                let before = expiry.map(|expiry| expiry.on_expiry);
                Some(Expiry { expire, on_expiry: on_expiry.or(before).unwrap_or_default() })
            }
        }
    }
}

/// The moment at which a job expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpiresAt {
    /// By the store's clock, or the machine's if it is a moment.
    pub moment: Timestamp,
    /// Which clock decides.
    pub kind: DueKind,
}

impl Expiry {
    /// When a job expires that is due at this moment of this kind. A duration counts by the clock of the due time.
    #[must_use]
    pub fn resolve(&self, due_at: Timestamp, kind: DueKind) -> ExpiresAt {
        match self.expire {
            Expire::After(delay) => ExpiresAt { moment: due_at.after(delay.as_duration()), kind },
            Expire::At(moment) => ExpiresAt { moment, kind: DueKind::Moment },
        }
    }

    /// As it is stored: flags, and a duration or moment in milliseconds in 6 bytes, big-endian.
    #[must_use]
    pub fn encode(&self) -> [u8; 1 + MILLIS_BYTES] {
        let (is_moment, millis) = match self.expire {
            Expire::After(delay) => (0, i64::try_from(delay.as_duration().as_millis()).unwrap_or(i64::MAX)),
            Expire::At(moment) => (MOMENT, moment.as_millis()),
        };
        let deletes = if self.on_expiry == OnExpiry::Delete { DELETES } else { 0 };
        let mut bytes = [0; 1 + MILLIS_BYTES];
        bytes[0] = deletes | is_moment;
        bytes[1..].copy_from_slice(&millis.to_be_bytes()[8 - MILLIS_BYTES..]);
        bytes
    }

    /// Reads a stored one; `None` when it is malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&flags, millis) = bytes.split_first().filter(|(_, millis)| millis.len() == MILLIS_BYTES)?;
        let millis = millis.iter().fold(0, |sum, byte| sum << 8 | i64::from(*byte));
        let expire = match flags & MOMENT {
            0 => Expire::After(Delay::new(std::time::Duration::from_millis(millis.unsigned_abs())).ok()?),
            _ => Expire::At(Timestamp::from_millis(millis)),
        };
        let on_expiry = if flags & DELETES == 0 { OnExpiry::Dead } else { OnExpiry::Delete };
        (flags <= (DELETES | MOMENT)).then_some(Self { expire, on_expiry })
    }
}

impl ExpiresAt {
    /// The same moment as the machine's clock shows it, which is ahead of the store's by `wall_ahead_ms`.
    #[must_use]
    pub fn shown(self, wall_ahead_ms: i64) -> Timestamp {
        match self.kind {
            DueKind::Elapsed => self.moment.shifted(wall_ahead_ms),
            DueKind::Moment => self.moment,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn expiries_read_back(ms in 0u64..=315_576_000_000, is_moment in any::<bool>(), deletes in any::<bool>()) {
            let moment = Timestamp::from_millis(ms.cast_signed());
            let delay = Delay::new(Duration::from_millis(ms)).expect("valid");
            let expire = if is_moment { Expire::At(moment) } else { Expire::After(delay) };
            let on_expiry = if deletes { OnExpiry::Delete } else { OnExpiry::Dead };
            let expiry = Expiry { expire, on_expiry };
            prop_assert_eq!(Expiry::decode(&expiry.encode()), Some(expiry));
        }
    }

    #[test]
    fn malformed_expiries_are_refused() {
        for bytes in [&[][..], &[0; 6], &[0; 8], &[4, 0, 0, 0, 0, 0, 0], &[0, 255, 0, 0, 0, 0, 0]] {
            assert_eq!(Expiry::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_duration_counts_from_the_due_time_and_by_its_clock() {
        let (due, delay) =
            (Timestamp::from_millis(5_000), Delay::new(Duration::from_secs(2)).expect("valid"));
        let after = Expiry { expire: Expire::After(delay), on_expiry: OnExpiry::Dead };
        let at = Expiry { expire: Expire::At(due), ..after };
        let moment = Timestamp::from_millis(7_000);
        for kind in [DueKind::Elapsed, DueKind::Moment] {
            assert_eq!(after.resolve(due, kind), ExpiresAt { moment, kind });
            assert_eq!(at.resolve(moment, kind), ExpiresAt { moment: due, kind: DueKind::Moment });
        }
    }
}
