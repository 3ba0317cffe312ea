//! Section `[traces]`: which endpoints are accepted.

use super::*;

#[test]
fn spans_are_sent_nowhere_unless_an_endpoint_is_set() {
    let config = load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config;
    assert_eq!(config.traces, TraceSettings { endpoint: None });
    let endpoint = |text: &str| load_with("", &[("LINGER__TRACES__ENDPOINT", text)], &[]);
    let accepted = endpoint("http://localhost:4318/v1/traces").expect("is valid").config.traces.endpoint;
    assert_eq!(accepted.expect("is set").as_str(), "http://localhost:4318/v1/traces");
    for refused in ["localhost:4318", "/v1/traces", "http://user@collector/"] {
        let found = faults("", &[("LINGER__TRACES__ENDPOINT", refused)]);
        assert!(matches!(&found[..], [one] if one.starts_with("traces.endpoint: ")), "{refused}: {found:?}");
    }
}
