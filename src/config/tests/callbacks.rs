//! Section `[callbacks]`: its defaults, and what `auto` means.

use super::*;

#[test]
fn callbacks_have_the_defaults_of_the_contract() {
    let callbacks =
        load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config.callbacks;
    assert_eq!(callbacks, CallbackSettings::default());
    assert_eq!((callbacks.max_calls, callbacks.max_calls_per_host), (512, 64));
    assert_eq!(callbacks.max_timeout, Duration::from_secs(600));
    let steps = [15, 180, 600, 1_800, 1_800, 3_600, 7_200, 21_600, 54_000].map(Duration::from_secs);
    assert_eq!(callbacks.retry.steps(), steps);
    assert!(callbacks.allow_http && callbacks.in_jobs);
    assert_eq!((callbacks.allow_hosts.len(), callbacks.ca_file), (0, None));
}

#[test]
fn auto_allows_all_words_only_on_loopback_without_tokens() {
    let networks =
        |file: &str| load_with(file, &[], &[]).expect("is valid").config.callbacks.networks.to_string();
    assert_eq!(networks(""), "public, private, loopback");
    assert_eq!(networks("[server]\nlisten = '[::1]:1'"), "public, private, loopback");
    assert_eq!(networks("[auth]\ntokens_file = 'tokens'"), "public");
    assert_eq!(networks("[server]\nlisten = '0.0.0.0:1'\n[auth]\nallow_anonymous = true"), "public");
    let open = "[server]\nlisten = '0.0.0.0:1'\n[auth]\ntokens_file = 'tokens'\n[callbacks]\n";
    assert_eq!(networks(&format!("{open}deny_networks = ['8.8.8.8']")), "public except 8.8.8.8/32");
    assert_eq!(
        networks(&format!("{open}allow_networks = ['10.0.0.0/8', 'loopback']")),
        "10.0.0.0/8, loopback"
    );
    assert_eq!(networks(&format!("{open}allow_networks = []")), "none");
    for (file, is_auto) in [("", true), ("[callbacks]\nallow_networks = 'public, private, loopback'", false)]
    {
        let callbacks = load_with(file, &[], &[]).expect("is valid").config.callbacks;
        assert_eq!(callbacks.has_auto_networks, is_auto, "{file}");
    }
}

#[test]
fn settings_of_callbacks_come_from_the_environment_and_are_checked() {
    let environment = [
        ("LINGER__CALLBACKS__ALLOW_NETWORKS", "public, private"),
        ("LINGER__CALLBACKS__RETRY", "1s, 0.5,2m"),
        ("LINGER__CALLBACKS__CA_FILE", "ca.pem"),
        ("LINGER__CALLBACKS__MAX_CALLS", "0"),
    ];
    let callbacks = load_with("", &environment, &[]).expect("is valid").config.callbacks;
    assert_eq!(callbacks.networks.to_string(), "public, private");
    assert_eq!(callbacks.retry.steps(), [1_000, 500, 120_000].map(Duration::from_millis));
    assert_eq!((callbacks.ca_file, callbacks.max_calls), (Some("ca.pem".into()), 0));
    for (wrong, expected) in [
        ("allow_networks = ['auto', 'public']", "allow_networks: \"auto\" must stand alone"),
        (
            "allow_networks = 'intranet'",
            "allow_networks: \"intranet\" is not \"public\", \"private\", \"loopback\" or",
        ),
        (
            "deny_networks = ['10.0.0.1/8']",
            "deny_networks: \"10.0.0.1/8\" has bits beyond its prefix; the network is 10",
        ),
        ("deny_networks = ['auto']", "deny_networks: \"auto\" is not"),
        ("allow_hosts = ['a:80']", "allow_hosts: \"a:80\" is not the name of a host"),
        ("retry = []", "retry: must have at least one step"),
        ("retry = ['soon']", "retry: \"soon\" "),
        ("max_timeout = '0s'", "max_timeout: \"0s\" must be from 1s"),
        ("max_calls_per_host = 0", "max_calls_per_host: 0 must be a whole number from 1"),
    ] {
        let found = faults(&format!("[callbacks]\n{wrong}"), &[]);
        assert!(
            matches!(&found[..], [one] if one.starts_with(&format!("callbacks.{expected}"))),
            "{wrong}: {found:?}"
        );
    }
    let shown = load_with("[callbacks]\nretry = [1, '2s']\nallow_networks = ['10.0.0.0/8']", &[], &[]);
    let shown = shown.expect("is valid").show();
    let again = load_with(&shown, &[], &[]).expect("is valid").config.callbacks;
    assert_eq!(again.retry.steps(), [1, 2].map(Duration::from_secs), "{shown}");
    assert_eq!(again.networks.to_string(), "10.0.0.0/8");
}
