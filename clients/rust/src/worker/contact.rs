//! Whether the server answers, and how long a worker waits before it calls again. Pure: the time is given.

use std::time::Duration;

use super::moment::BootTime;
use crate::error::Error;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whether the server answers.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    away: Option<Away>,
}

#[derive(Debug)]
struct Away {
    since: BootTime,
    last: Error,
}

impl Contact {
    /// A call had no answer, or a 5xx. Returns whether the server answered before.
    pub fn failed(&mut self, error: &Error, now: BootTime) -> bool {
        let since = self.away.as_ref().map_or(now, |away| away.since);
        self.away.replace(Away { since, last: error.clone() }).is_none()
    }

    /// A call was answered. Returns how long none was, if there was such a time.
    pub fn answered(&mut self, now: BootTime) -> Option<Duration> {
        self.away.take().map(|away| away.since.until(now))
    }

    /// When the server has been away for `limit`.
    pub fn away_for(&self, limit: Duration) -> Option<BootTime> {
        self.away.as_ref().map(|away| away.since + limit)
    }

    /// The last failure, while the server is away.
    pub fn last_error(&self) -> Option<&Error> {
        self.away.as_ref().map(|away| &away.last)
    }
}

/// The pause after a number of failures in a row: it doubles, and `random`, from 0 to 1, spreads the workers that failed
/// together. As long as the server asks for, within the longest pause.
pub(crate) fn pause(failures: u32, error: &Error, random: f64) -> Duration {
    let doubled =
        FIRST_PAUSE.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    let spread = doubled.min(LONGEST_PAUSE).mul_f64(0.5 + random / 2.0);
    let wanted = error.refusal().and_then(|refusal| refusal.retry_after).unwrap_or_default();
    spread.max(wanted).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

/// Whether a failure says that the server is away for now, and not what it thinks of the call.
pub(crate) fn is_away(error: &Error) -> bool {
    match error {
        Error::Refused { refusal, .. } => {
            // Too many requests, a slow body; and whatever a proxy in between answers in the server's place.
            refusal.status >= 500 || matches!(refusal.status, 408 | 429) || !refusal.is_own()
        }
        Error::NotConnected { .. }
        | Error::WrongScheme { .. }
        | Error::Untrusted { .. }
        | Error::Cut { .. }
        | Error::TimedOut { .. }
        | Error::Foreign { .. }
        | Error::Unreadable { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::error::Refusal;

    fn refused(status: u16, retry_after: Option<u64>, document: &str) -> Error {
        let document = Bytes::copy_from_slice(document.as_bytes());
        let refusal = Refusal::new(status, retry_after.map(Duration::from_secs), document);
        Error::Refused { call: "pop", refusal: Box::new(refusal) }
    }

    #[test]
    fn pauses_grow_from_a_tenth_of_a_second_to_five() {
        let error = refused(500, None, "");
        let paused = |failures, random| pause(failures, &error, random).as_millis();
        let longest: Vec<_> = (1..=8).map(|failures| paused(failures, 1.0)).collect();
        assert_eq!(longest, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        let shortest: Vec<_> = [1, 2, 3, 8, 40].map(|failures| paused(failures, 0.0)).into();
        assert_eq!(shortest, [100, 100, 200, 2_500, 2_500]);
        assert_eq!(pause(1, &refused(503, Some(2), ""), 0.0), Duration::from_secs(2));
        assert_eq!(pause(1, &refused(503, Some(60), ""), 0.0), LONGEST_PAUSE);
    }

    #[test]
    fn the_server_goes_once_and_comes_once() {
        let at = |second| BootTime::since_boot(Duration::from_secs(second));
        let (mut contact, error) = (Contact::default(), refused(503, None, ""));
        assert_eq!((contact.answered(at(1)), contact.away_for(Duration::ZERO)), (None, None));
        assert!(contact.failed(&error, at(2)));
        assert!(!contact.failed(&error, at(4)));
        assert_eq!(contact.away_for(Duration::from_secs(3)), Some(at(5)));
        assert!(contact.last_error().is_some());
        assert_eq!(contact.answered(at(9)), Some(Duration::from_secs(7)));
        assert_eq!((contact.answered(at(9)), contact.last_error().is_some()), (None, false));
    }

    #[test]
    fn only_an_answer_of_the_server_itself_counts_as_one() {
        let own = |status| {
            refused(status, None, &format!(r#"{{"status":{status},"code":"of_linger","detail":"x"}}"#))
        };
        let of_login = r#"{"code":"token_not_valid","detail":"Given token not valid for any token type"}"#;
        for (error, away) in [
            (refused(503, None, ""), true),
            (refused(507, None, ""), true),
            (refused(429, None, ""), true),
            (refused(404, None, "<html>"), true),
            (refused(302, None, ""), true),
            (refused(401, None, "<html>"), true),
            (refused(403, None, r#"{"detail":"maintenance"}"#), true),
            (refused(401, None, of_login), true),
            (refused(403, None, r#"{"status":401,"code":"of_linger","detail":"x"}"#), true),
            (own(404), false),
            (own(403), false),
            (own(409), false),
            (own(422), false),
            (Error::Foreign { call: "finish", reason: String::new() }, true),
            (Error::Cut { call: "pop", reason: String::new() }, true),
        ] {
            assert_eq!(is_away(&error), away, "{error:?}");
        }
    }
}
