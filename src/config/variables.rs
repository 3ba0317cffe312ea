//! Warns about variables of the environment that look like settings but are none. A name with one underscore instead of
//! two would otherwise be ignored silently.

use std::ffi::OsString;

use config::Value;

use super::layers::{PREFIX, leaves};
use crate::messages::printable;

/// The prefix of all variables of Linger, settings or not.
const COMMON_PREFIX: &str = "LINGER_";

/// Variables that are not settings, but are used by the commands of this program and by its example clients.
const OTHER_VARIABLES: [&str; 6] = [
    "LINGER_CONFIG",
    "LINGER_BENCH_TOKEN",
    "LINGER_URL",
    "LINGER_PROFILE",
    "LINGER_TOKEN_FILE",
    "LINGER_TOKEN",
];

/// One sentence for each variable that looks like a setting but is none.
pub(super) fn warnings(environment: &[(OsString, OsString)], known: &Value) -> Vec<String> {
    let text =
        |(name, value): &(OsString, OsString)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()));
    let mut warnings: Vec<String> = environment
        .iter()
        .filter_map(text)
        .filter(|(name, _)| name.starts_with(COMMON_PREFIX) && !name.starts_with(PREFIX))
        .filter(|(name, value)| !OTHER_VARIABLES.contains(&name.as_str()) && !is_of_service(name, value))
        .map(|(name, _)| warning(&name, known))
        .collect();
    warnings.sort();
    warnings
}

fn warning(name: &str, known: &Value) -> String {
    let plain = |text: &str| text.replace('_', "").to_lowercase();
    let meant = leaves(known)
        .into_iter()
        .map(|(key, _)| format!("{PREFIX}{}", key.to_uppercase().replace('.', "__")));
    let name_shown = printable::escape_line(name);
    match meant.into_iter().find(|variable| plain(variable) == plain(name)) {
        Some(variable) => format!("the variable {name_shown} is not a setting; did you mean {variable}?"),
        None => {
            format!("the variable {name_shown} is not a setting; settings are named LINGER__SECTION__KEY")
        }
    }
}

/// Whether Kubernetes or Docker set this variable for a service whose name begins with "linger".
fn is_of_service(name: &str, value: &str) -> bool {
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_port_detail = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
        name.split_once(protocol).is_some_and(|(before, _)| {
            before.rsplit_once("_PORT_").is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        })
    });
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_address)
        || is_port_detail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::{Layers, Sources};

    fn warnings_for(variables: &[(&str, &str)]) -> Vec<String> {
        let environment: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        warnings(&environment, &Layers::read(&Sources::default(), &mut Vec::new()).defaults)
    }

    #[test]
    fn names_that_look_like_settings_cause_warnings() {
        assert_eq!(
            warnings_for(&[
                ("LINGER_SERVER_LISTEN", "127.0.0.1:1"),
                ("LINGER_FOO", ""),
                ("LINGER_TLS__KEY", "k")
            ]),
            [
                "the variable LINGER_FOO is not a setting; settings are named LINGER__SECTION__KEY",
                "the variable LINGER_SERVER_LISTEN is not a setting; did you mean LINGER__SERVER__LISTEN?",
                "the variable LINGER_TLS__KEY is not a setting; did you mean LINGER__TLS__KEY?",
            ]
        );
    }

    #[test]
    fn names_with_another_meaning_do_not() {
        let none: [&str; 0] = [];
        let variables = [
            ("LINGER__SERVER__LISTEN", "127.0.0.1:1"),
            ("LINGER_CONFIG", "x.toml"),
            ("LINGER_BENCH_TOKEN", "x"),
            ("LINGER_URL", "http://127.0.0.1:9277"),
            ("LINGER_PROFILE", "x"),
            ("LINGER_TOKEN_FILE", "x"),
            ("LINGER_TOKEN", "x"),
            ("LINGER_PORT", "tcp://10.0.0.1:9277"),
            ("LINGER_SERVICE_HOST", "10.0.0.1"),
            ("LINGER_SERVICE_PORT_HTTP", "9277"),
            ("LINGER_PORT_9277_TCP", "tcp://10.0.0.1:9277"),
            ("LINGER_PORT_9277_TCP_ADDR", "10.0.0.1"),
            ("LINGER_REDIS_PORT_6379_TCP_PROTO", "tcp"),
            ("LINGERIE", "x"),
        ];
        assert_eq!(warnings_for(&variables), none);
    }
}
