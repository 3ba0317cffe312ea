//! What goes wrong between us and Redis, and what follows from it: try again, follow the slot, or
//! tell the caller. The only place that reads the server's error texts.

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::Server,
};

use crate::store::Error;

/// Why the engine could not be started. Never holds a password.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The options are wrong.
    #[error("the Redis settings are wrong: {}", .0.join("; "))]
    Options(Vec<String>),
    /// The server cannot be reached, or cannot serve yet.
    #[error("cannot use Redis at {at}: {why}")]
    Unreachable {
        /// Where it should be.
        at: String,
        /// What happened.
        why: String,
    },
    /// The server refuses us.
    #[error("cannot use Redis at {at}: {why}")]
    Refused {
        /// Where it is.
        at: String,
        /// What it refuses.
        why: String,
    },
    /// The server is not one that jobs can be trusted to.
    #[error("Redis at {at} is not fit to hold jobs: {why}")]
    Unfit {
        /// Where it is.
        at: String,
        /// What is wrong with it, and how to mend it.
        why: String,
    },
    /// What is stored there was written with another layout.
    #[error("Redis at {at} holds another layout: {why}")]
    Layout {
        /// Where it is.
        at: String,
        /// How it differs.
        why: String,
    },
}

impl ConnectError {
    /// For an error of the client library. One that may pass by itself is worth waiting for.
    pub fn of(at: &str, error: &FredError) -> Self {
        let (at, why) = (at.to_owned(), in_words(error));
        match Fault::sort(error) {
            Fault::Refused(_) | Fault::Damaged(_) => Self::Refused { at, why },
            Fault::Passing(_)
            | Fault::Demoted(_)
            | Fault::Full(_)
            | Fault::NoScript
            | Fault::Moved
            | Fault::Late
            | Fault::Ask(_) => Self::Unreachable { at, why },
        }
    }

    /// For a call that failed.
    pub fn of_store(at: &str, error: Error) -> Self {
        let (at, why) = (at.to_owned(), error.to_string());
        match error {
            Error::Damaged(_) => Self::Refused { at, why },
            Error::Unavailable(_) | Error::Full(_) | Error::NotDurable(_) => Self::Unreachable { at, why },
        }
    }

    /// Whether another attempt may succeed though nobody changes the settings.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Options(_) | Self::Refused { .. } | Self::Unfit { .. } | Self::Layout { .. } => false,
        }
    }
}

/// What one attempt at a command met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is known about the outcome, or it will be better soon: try again.
    Passing(String),
    /// Like [`Fault::Passing`], and the server turned into a replica: connect anew, too.
    Demoted(String),
    /// It did not happen and trying again at once would not help.
    Refused(String),
    /// The server's memory is full; it did not happen.
    Full(String),
    /// The server does not know the script yet.
    NoScript,
    /// The slot lives elsewhere now.
    Moved,
    /// The slot is moving; this once, ask there.
    Ask(Server),
    /// It arrived after its latest moment and did not happen.
    Late,
    /// Keys or records are not what we wrote.
    Damaged(String),
}

/// Answers by which a server says that it cannot serve right now.
const PASSING: [&str; 7] =
    ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "UNBLOCKED"];
/// Answers that will not change by asking again within seconds.
const REFUSED: [&str; 5] = ["MISCONF", "NOAUTH", "WRONGPASS", "NOPERM", "DENIED"];

impl Fault {
    /// Sorts an error of the client library.
    pub fn sort(error: &FredError) -> Self {
        let text = error.details();
        let word = text.split_ascii_whitespace().next().unwrap_or_default();
        match word {
            "NOSCRIPT" => return Self::NoScript,
            "OOM" => return Self::Full("Redis has reached its maxmemory".to_owned()),
            "MOVED" => return Self::Moved,
            "LATE" => return Self::Late,
            "ASK" => return ask(text),
            "READONLY" => return Self::Demoted("the server is a replica".to_owned()),
            "WRONGTYPE" => return Self::Damaged(text.to_owned()),
            // A script's command that its user may not run, before it has written anything.
            "ERR" if text.contains("The user executing the script") => return Self::Refused(text.to_owned()),
            _ if PASSING.contains(&word) => return Self::Passing(text.to_owned()),
            _ if REFUSED.contains(&word) => return Self::Refused(text.to_owned()),
            _ => {}
        }
        match error.kind() {
            // The library's own errors; it has no word for a server's reply but `Unknown`.
            ErrorKind::IO
            | ErrorKind::Timeout
            | ErrorKind::Canceled
            | ErrorKind::Routing
            | ErrorKind::Cluster
            | ErrorKind::Sentinel
            | ErrorKind::Backpressure => Self::Passing(in_words(error)),
            ErrorKind::Unknown if !is_reply(error) => Self::Passing(in_words(error)),
            ErrorKind::Auth | ErrorKind::Config | ErrorKind::Url => Self::Refused(in_words(error)),
            ErrorKind::Unknown
            | ErrorKind::InvalidCommand
            | ErrorKind::InvalidArgument
            | ErrorKind::Protocol
            | ErrorKind::Parse
            | ErrorKind::NotFound => Self::Damaged(text.to_owned()),
        }
    }

    /// What the caller of an operation is told when it is not tried again.
    pub fn into_error(self) -> Error {
        match self {
            Self::Passing(why) | Self::Demoted(why) | Self::Refused(why) => Error::Unavailable(why),
            Self::Full(why) => Error::Full(why),
            Self::NoScript => Error::Unavailable("the server keeps forgetting its scripts".to_owned()),
            Self::Moved | Self::Ask(_) => Error::Unavailable("the slot keeps moving".to_owned()),
            Self::Late => Error::Unavailable("Redis took up the call too late".to_owned()),
            Self::Damaged(why) => Error::Damaged(why),
        }
    }
}

/// What went wrong, for a person to read: the library shows the operating system's errors as Rust does.
pub fn in_words(error: &FredError) -> String {
    let text = error.details();
    let quoted = |name: &str| Some(text.split_once(name)?.1.split_once('"')?.0);
    match text.split_ascii_whitespace().next().unwrap_or_default() {
        "DENIED" => {
            return "it is in protected mode, so it only serves its own host: give it a password, or turn \
                    protected-mode off"
                .to_owned();
        }
        "NOAUTH" => return "it asks for a password, and none is configured".to_owned(),
        "WRONGPASS" => return "it refuses the user name or password".to_owned(),
        "NOPERM" => return format!("its user may not do all that is needed: {text}"),
        _ => {}
    }
    match error.kind() {
        ErrorKind::IO => {
            let said = quoted("message: \"").or_else(|| quoted("error: \"")).unwrap_or(text);
            format!("the connection failed: {said}")
        }
        ErrorKind::Protocol if text.starts_with("Decode Error") => {
            "it does not speak the Redis protocol; is this the address of a Redis?".to_owned()
        }
        ErrorKind::Canceled => format!("the connection ended: {text}"),
        _ if text == "Request timed out." => "no answer in time".to_owned(),
        _ => text.to_owned(),
    }
}

/// Whether an error begins like a server's error reply, in capitals.
pub fn is_reply(error: &FredError) -> bool {
    let word = error.details().split_ascii_whitespace().next().unwrap_or_default();
    word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase())
}

/// Reads `ASK 3999 127.0.0.1:6381`.
fn ask(text: &str) -> Fault {
    let server = text.split_ascii_whitespace().nth(2).and_then(address);
    server.map_or_else(|| Fault::Passing(text.to_owned()), Fault::Ask)
}

/// Reads `host:port`, where the host may be an IPv6 address.
pub fn address(text: &str) -> Option<Server> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some(())?;
    Some(Server::new(host.to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(kind: ErrorKind, text: &'static str) -> Fault {
        Fault::sort(&FredError::new(kind, text))
    }

    #[test]
    fn errors_are_sorted_by_what_follows_from_them() {
        for text in [
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
            "CLUSTERDOWN The cluster is down",
            "NOREPLICAS Not enough good replicas to write.",
            "Too many failed write attempts.",
            "Failed to route command.",
        ] {
            assert!(matches!(sorted(ErrorKind::Unknown, text), Fault::Passing(_)), "{text}");
        }
        assert!(matches!(sorted(ErrorKind::Timeout, "Request timed out."), Fault::Passing(_)));
        assert!(matches!(sorted(ErrorKind::Unknown, "OOM command not allowed"), Fault::Full(_)));
        assert!(matches!(sorted(ErrorKind::Unknown, "READONLY You can't write"), Fault::Demoted(_)));
        assert!(matches!(sorted(ErrorKind::Unknown, "ERR user_script:1: oops"), Fault::Damaged(_)));
        let script = "ERR The user executing the script can't run this command or subcommand script";
        assert!(matches!(sorted(ErrorKind::Unknown, script), Fault::Refused(_)));
        assert_eq!(sorted(ErrorKind::Unknown, "LATE the call arrived"), Fault::Late);
        assert!(matches!(sorted(ErrorKind::InvalidArgument, "WRONGTYPE Operation"), Fault::Damaged(_)));
        assert!(matches!(sorted(ErrorKind::Auth, "NOAUTH Authentication required."), Fault::Refused(_)));
        assert_eq!(sorted(ErrorKind::Unknown, "NOSCRIPT No matching script."), Fault::NoScript);
        assert_eq!(sorted(ErrorKind::Cluster, "MOVED 3999 127.0.0.1:6381"), Fault::Moved);
        let there = Server::new("127.0.0.1", 6_381);
        assert_eq!(sorted(ErrorKind::Cluster, "ASK 3999 127.0.0.1:6381"), Fault::Ask(there));
    }

    #[test]
    fn errors_are_told_in_words() {
        let told = |kind, text: &'static str| in_words(&FredError::new(kind, text));
        let refused = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(told(ErrorKind::IO, refused), "the connection failed: Connection refused");
        let unknown = "Custom { kind: Uncategorized, error: \"failed to lookup address information\" }";
        assert_eq!(
            told(ErrorKind::IO, unknown),
            "the connection failed: failed to lookup address information"
        );
        assert_eq!(told(ErrorKind::IO, "gone"), "the connection failed: gone");
        assert!(
            told(ErrorKind::Protocol, "Decode Error: frame_type").contains("not speak the Redis protocol")
        );
        assert_eq!(told(ErrorKind::Timeout, "Request timed out."), "no answer in time");
        assert_eq!(told(ErrorKind::Unknown, "LOADING Redis is loading"), "LOADING Redis is loading");
        assert!(
            told(ErrorKind::Unknown, "DENIED Redis is running in").starts_with("it is in protected mode")
        );
        assert!(told(ErrorKind::Auth, "NOAUTH Authentication required.").contains("password"));
        assert!(told(ErrorKind::Auth, "WRONGPASS invalid username").contains("password"));
    }

    #[test]
    fn addresses_may_be_ipv6() {
        assert_eq!(address("[::1]:7"), Some(Server::new("::1", 7)));
        assert_eq!(address("::1:7"), Some(Server::new("::1", 7)));
        assert_eq!(address("nowhere"), None);
        assert_eq!(address(":7"), None);
    }
}
