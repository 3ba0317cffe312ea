//! Signatures of calls, as Standard Webhooks 1.0 defines them: HMAC-SHA-256 over id, time and body.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of `webhook-signature`: one signature for each key, separated by spaces.
pub(super) fn signature<'a>(
    keys: impl Iterator<Item = &'a [u8]>,
    id: &str,
    timestamp: i64,
    body: &[u8],
) -> String {
    let head = format!("{id}.{timestamp}.");
    let signatures = keys.map(|key| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(head.as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    });
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const EXPECTED: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

    #[test]
    fn the_signature_is_that_of_the_standard() {
        let key = STANDARD.decode("C2FVsBQIhrscChlQIMV+b5sSYspob7oD").expect("is base64");
        let signed = |keys: &[&[u8]], timestamp, body| signature(keys.iter().copied(), ID, timestamp, body);
        assert_eq!(signed(&[&key], 1_649_367_553, BODY), EXPECTED);
        let both = signed(&[b"another key of twenty-four", &key], 1_649_367_553, BODY);
        assert!(both.starts_with("v1,") && both.ends_with(&format!(" {EXPECTED}")), "{both}");
        for other in [
            signed(&[&key], 1_649_367_554, BODY),
            signed(&[&key], 1_649_367_553, b""),
            signed(&[b"x"], 1, BODY),
        ] {
            assert_ne!(other, EXPECTED);
        }
    }
}
