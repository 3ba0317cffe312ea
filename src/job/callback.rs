//! The callback of a job or a topic: which URL to call, how, and how often, and the form in which both engines store it.
//!
//! Knows no network and no HTTP library. The settings of the server limit further which callbacks are accepted.

use std::{fmt, num::NonZeroU32, time::Duration};

use super::{Attributes, CallHeaders, CallbackUrl, Tag, time::ceil_millis};

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CallMethod {
    /// `POST`, unless another one is given.
    #[default]
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `GET`, without a body.
    Get,
    /// `DELETE`, without a body.
    Delete,
}

impl CallMethod {
    /// All methods.
    pub const ALL: [Self; 5] = [Self::Post, Self::Put, Self::Patch, Self::Get, Self::Delete];

    /// The method as a request line has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Get => "GET",
            Self::Delete => "DELETE",
        }
    }

    /// The method that `text` names, in capitals.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }

    /// Whether a call sends the job's body.
    #[must_use]
    pub fn has_body(self) -> bool {
        match self {
            Self::Post | Self::Put | Self::Patch => true,
            Self::Get | Self::Delete => false,
        }
    }
}

/// Why the value of a callback was refused; the message says what is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// A timeout under [`Callback::MIN_TIMEOUT`] or over [`Callback::MAX_TIMEOUT`].
    #[error("must be between 1 s and 23 h")]
    TimeoutOutOfRange,
    /// A rate outside of [`CallRate`]'s range, or finer than it.
    #[error("must be from 0.01 to 10000 calls a second, with at most three decimal places")]
    Rate,
}

/// Whom to call for a job, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Callback {
    /// The URL.
    pub url: CallbackUrl,
    /// The method.
    pub method: CallMethod,
    /// Headers beside those that the server sets.
    pub headers: CallHeaders,
    /// From looking up the name of the host to the end of the answer's head. Made by [`Callback::check_timeout`].
    pub timeout: Option<Duration>,
}

/// The parts of a stored callback.
const URL: Tag = Tag(1);
/// 1 byte; left out for `POST`.
const METHOD: Tag = Tag(2);
const HEADERS: Tag = Tag(3);
/// 8 bytes, in milliseconds.
const TIMEOUT: Tag = Tag(4);

impl Callback {
    /// The timeout if none is given.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
    /// Shortest timeout.
    pub const MIN_TIMEOUT: Duration = Duration::from_secs(1);
    /// Longest timeout that any setting allows. With [`Callback::SETTLING`] it must be a valid TTR.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(23 * 3_600);
    /// How much longer than its timeout the reservation for a call lasts.
    pub const SETTLING: Duration = Duration::from_secs(10);

    /// A `POST` to `url`.
    #[must_use]
    pub fn to(url: CallbackUrl) -> Self {
        Self { url, method: CallMethod::default(), headers: CallHeaders::default(), timeout: None }
    }

    /// The timeout of a call.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Self::DEFAULT_TIMEOUT)
    }

    /// Accepts [`Callback::MIN_TIMEOUT`] to [`Callback::MAX_TIMEOUT`], rounded up to whole milliseconds.
    ///
    /// # Errors
    /// [`CallbackError::TimeoutOutOfRange`] outside of that.
    pub fn check_timeout(timeout: Duration) -> Result<Duration, CallbackError> {
        if !(Self::MIN_TIMEOUT..=Self::MAX_TIMEOUT).contains(&timeout) {
            return Err(CallbackError::TimeoutOutOfRange);
        }
        Ok(Duration::from_millis(ceil_millis(timeout).unsigned_abs()))
    }

    /// The callback as both engines store it, and as a job's fingerprint covers it: tagged values in the form of
    /// [`Attributes`]. What is left out or the default of the method takes no space, so that a new field does not change
    /// the bytes of callbacks without it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { url, method, headers, timeout } = self;
        let mut values = Attributes::default();
        values.set(URL, Some(url.as_str().as_bytes()));
        values.set(METHOD, (*method != CallMethod::Post).then_some(&[encode_method(*method)]));
        values.set(HEADERS, (!headers.is_empty()).then(|| headers.encode()).as_deref());
        let timeout = timeout.map(|timeout| u64::try_from(timeout.as_millis()).expect("a timeout is short"));
        values.set(TIMEOUT, timeout.map(u64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        values.as_bytes().to_vec()
    }

    /// Reads a stored callback; `None` when it is malformed. Values of later versions are ignored.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let values = Attributes::decode(bytes)?;
        let timeout = |bytes: &[u8]| {
            let ms = u64::from_be_bytes(bytes.try_into().ok()?);
            Self::check_timeout(Duration::from_millis(ms)).ok()
        };
        Some(Self {
            url: CallbackUrl::parse(std::str::from_utf8(values.get(URL)?).ok()?).ok()?,
            method: values.get(METHOD).map_or(Some(CallMethod::Post), decode_method)?,
            headers: CallHeaders::decode(values.get(HEADERS).unwrap_or_default())?,
            timeout: values.get(TIMEOUT).map_or(Some(None), |bytes| timeout(bytes).map(Some))?,
        })
    }
}

fn encode_method(method: CallMethod) -> u8 {
    match method {
        CallMethod::Post => 0,
        CallMethod::Put => 1,
        CallMethod::Patch => 2,
        CallMethod::Get => 3,
        CallMethod::Delete => 4,
    }
}

fn decode_method(bytes: &[u8]) -> Option<CallMethod> {
    CallMethod::ALL.into_iter().find(|method| bytes == [encode_method(*method)])
}

/// Calls a second: 0.01 to 10,000, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallRate(u32);

impl CallRate {
    const MIN_MILLI: u32 = 10;
    const MAX_MILLI: u32 = 10_000_000;

    /// Accepts whole thousandths of a call a second.
    ///
    /// # Errors
    /// [`CallbackError::Rate`] outside of the range.
    pub fn from_milli(milli: u32) -> Result<Self, CallbackError> {
        if (Self::MIN_MILLI..=Self::MAX_MILLI).contains(&milli) {
            Ok(Self(milli))
        } else {
            Err(CallbackError::Rate)
        }
    }

    /// Accepts a number of calls a second with at most three decimal places.
    ///
    /// # Errors
    /// [`CallbackError::Rate`] for any other number.
    pub fn new(a_second: f64) -> Result<Self, CallbackError> {
        let milli = (a_second * 1e3).round();
        // Both are the number nearest to the same decimal, or the given one has more places.
        if milli / 1e3 != a_second || !(0.0..=f64::from(u32::MAX)).contains(&milli) {
            return Err(CallbackError::Rate);
        }
        Self::from_milli(milli as u32)
    }

    /// Thousandths of a call a second.
    #[must_use]
    pub fn as_milli(self) -> u32 {
        self.0
    }

    /// The time from one call to the next in even spacing.
    #[must_use]
    pub fn spacing(self) -> Duration {
        Duration::from_secs(1_000) / self.0
    }
}

/// Calls a second, as a decimal number without trailing zeros.
impl fmt::Display for CallRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1e3)
    }
}

impl fmt::Debug for CallRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallRate({self})")
    }
}

/// What a topic sets for calls. Without a target its jobs go to workers, and the limits hold for the own callbacks of
/// its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicCallback {
    /// Whom to call for jobs without a callback of their own.
    pub target: Option<Callback>,
    /// Most calls a second over all processes.
    pub rate: Option<CallRate>,
    /// Most calls at a time, in each process.
    pub concurrency: Option<NonZeroU32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn callback(url: &str) -> Callback {
        Callback::to(CallbackUrl::parse(url).expect("valid"))
    }

    proptest! {
        #[test]
        fn callbacks_are_decoded_as_they_were_encoded(
            path in "[a-z/?&=]{0,40}",
            method in prop::sample::select(CallMethod::ALL.to_vec()),
            headers in prop::collection::btree_map("x[a-z]{0,20}", "[!-~][ -~]{0,20}[!-~]", 0..16),
            timeout_ms in prop::option::of(1_000u64..=82_800_000),
        ) {
            let callback = Callback {
                method,
                headers: CallHeaders::new(headers.into_iter().collect()).expect("valid"),
                timeout: timeout_ms.map(Duration::from_millis),
                ..callback(&format!("https://shop.example/{path}"))
            };
            let mut bytes = callback.encode();
            prop_assert_eq!(Callback::decode(&bytes), Some(callback.clone()));
            bytes.extend(b"\xc8\0\x05later");
            prop_assert_eq!(Callback::decode(&bytes), Some(callback));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Callback::decode(&bytes);
            let _ = CallHeaders::decode(&bytes);
        }

        #[test]
        fn rates_are_exact(milli in 10u32..=10_000_000) {
            let rate = CallRate::from_milli(milli).expect("valid");
            let text = rate.to_string();
            prop_assert_eq!(CallRate::new(text.parse().expect("a number")), Ok(rate), "{}", text);
        }
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let callback = Callback {
            method: CallMethod::Put,
            headers: CallHeaders::new(vec![("A".to_owned(), "bc".to_owned())]).expect("valid"),
            timeout: Some(Duration::from_millis(1_500)),
            ..callback("http://a/")
        };
        let expected =
            b"\x01\0\x09http://a/\x02\0\x01\x01\x03\0\x06\x01a\0\x02bc\x04\0\x08\0\0\0\0\0\0\x05\xdc";
        assert_eq!(callback.encode(), expected);
    }

    #[test]
    fn malformed_callbacks_are_refused() {
        for bytes in [
            &b""[..],
            b"\x01\0\x01x",
            b"\x01\0\x09http://a/\x02\0\x01\x05",
            b"\x01\0\x09http://a/\x02\0\0",
            b"\x01\0\x09http://a/\x03\0\x02\x01a",
            b"\x01\0\x09http://a/\x04\0\x01\x01",
            b"\x01\0\x09http://a/\x04\0\x08\0\0\0\0\0\0\0\x01",
        ] {
            assert_eq!(Callback::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn debug_shows_no_credentials() {
        let headers = CallHeaders::new(vec![("authorization".to_owned(), "s3cret".to_owned())]);
        let callback = Callback { headers: headers.expect("valid"), ..callback("http://a/s3cret?k=s3cret") };
        let shown = format!("{callback:?}");
        assert!(shown.contains("authorization") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn ranges_are_those_of_the_contract() {
        for (a_second, milli) in
            [(0.01, 10), (0.3, 300), (50.0, 50_000), (1_234.567, 1_234_567), (1e4, 10_000_000)]
        {
            assert_eq!(CallRate::new(a_second).map(CallRate::as_milli), Ok(milli), "{a_second}");
        }
        for a_second in [0.0, -1.0, 0.009, 0.0101, 1.2345, 10_000.001, 1e300, f64::NAN, f64::INFINITY] {
            assert_eq!(CallRate::new(a_second), Err(CallbackError::Rate), "{a_second}");
        }
        assert!(Callback::check_timeout(Duration::from_millis(999)).is_err());
        assert_eq!(
            Callback::check_timeout(Duration::from_micros(1_000_001)),
            Ok(Duration::from_millis(1_001))
        );
        assert!(Callback::check_timeout(Callback::MAX_TIMEOUT + Duration::from_millis(1)).is_err());
        assert!(super::super::Ttr::new(Callback::MAX_TIMEOUT + Callback::SETTLING).is_ok());
    }
}
