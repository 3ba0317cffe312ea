//! Until when a certificate is valid. Reads only as much of its DER (X.690, RFC 5280) as that takes.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
/// The version of a certificate, `[0]`.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The moment after which the certificate is no longer valid, in seconds since the Unix epoch. `None` if it cannot be
/// read.
pub fn not_after(der: &[u8]) -> Option<i64> {
    let (_, certificate, _) = value(der, &[SEQUENCE])?;
    let (_, signed, _) = value(certificate, &[SEQUENCE])?;
    let (tag, _, after_version) = value(signed, &[VERSION, INTEGER])?;
    let serial_and_rest = if tag == VERSION { after_version } else { signed };
    let (_, _, algorithm_and_rest) = value(serial_and_rest, &[INTEGER])?;
    let (_, _, issuer_and_rest) = value(algorithm_and_rest, &[SEQUENCE])?;
    let (_, _, validity_and_rest) = value(issuer_and_rest, &[SEQUENCE])?;
    let (_, validity, _) = value(validity_and_rest, &[SEQUENCE])?;
    let (_, _, end) = value(validity, &[UTC_TIME, GENERALIZED_TIME])?;
    let (tag, text, _) = value(end, &[UTC_TIME, GENERALIZED_TIME])?;
    let text = std::str::from_utf8(text).ok()?;
    if tag == UTC_TIME {
        // RFC 5280, 4.1.2.5.1: two digits mean the years from 1950 to 2049.
        let century = if text.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" };
        time(&format!("{century}{text}"))
    } else {
        time(text)
    }
}

/// Splits the first value off `der`: its tag, which must be one of `tags`, its content, and the rest.
fn value<'a>(der: &'a [u8], tags: &[u8]) -> Option<(u8, &'a [u8], &'a [u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let push = |len: usize, byte: &u8| len.checked_mul(256)?.checked_add(usize::from(*byte));
            (bytes.iter().try_fold(0, push)?, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(len)?;
    tags.contains(&tag).then_some((tag, content, rest))
}

/// The seconds of a time such as `20261122061000Z`.
fn time(text: &str) -> Option<i64> {
    let time = DateTime::strptime("%Y%m%d%H%M%S", text.strip_suffix('Z')?).ok()?;
    let moment: Timestamp = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(moment.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that is valid until the end of a day.
    fn valid_until(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params =
            rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a certificate's name");
        params.not_after = rcgen::date_time_ymd(year, month, day);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn the_end_is_read_in_both_notations() {
        assert_eq!(not_after(&valid_until(2026, 12, 24)), Some(1_798_070_400));
        assert_eq!(
            not_after(&valid_until(1999, 12, 31)),
            Some(946_598_400),
            "two digits of the last century"
        );
        assert_eq!(not_after(&valid_until(2050, 1, 1)), Some(2_524_608_000), "four digits");
    }

    #[test]
    fn a_certificate_that_is_cut_off_has_no_end() {
        let whole = valid_until(2026, 12, 24);
        for len in 0..whole.len() {
            assert_eq!(not_after(&whole[..len]), None, "{len} bytes");
        }
        assert_eq!(not_after(&[SEQUENCE, 0x88, 255, 255, 255, 255, 255, 255, 255, 255]), None);
    }
}
