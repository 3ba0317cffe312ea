//! Errors of calls to Redis, and what to do about them: retry, follow the slot, or
//! fail the operation. The only place that reads the server's error texts.

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::Server,
};

use crate::store::Error;

/// Why one attempt at a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFault {
    /// The outcome is unknown, or the cause goes away by itself: retry.
    Transient(String),
    /// Like [`CallFault::Transient`], and the server has become a replica: reconnect, too.
    Demoted(String),
    /// The call had no effect, and an immediate retry would not help.
    Refused(String),
    /// The server's memory is full; the call had no effect.
    OutOfMemory(String),
    /// The server does not know the script yet.
    UnknownScript,
    /// Another server holds the slot now.
    Moved,
    /// The slot is being moved: send this one call there.
    Ask(Server),
    /// The call arrived after its deadline and had no effect.
    Late,
    /// The shard is empty and lacks the mark of its store; the call had no effect.
    Emptied,
    /// Another store or layout is at the server, as an inspection has found; nothing was sent.
    OtherStore(Error),
    /// Keys or records are not what this engine wrote.
    Damaged(String),
}

/// The reason for which a replica refuses writes.
pub const READ_ONLY_REPLICA: &str = "Redis is a read-only replica";
/// What the error of a fenced shard means.
const MOVED_AWAY: &str = "its jobs are moved to another store";
/// The beginning of the error for calls to a server that is not fit to hold jobs.
pub const UNFIT: &str = "the Redis server is not fit to hold jobs";
/// Error codes of a server that cannot serve at the moment.
const TRANSIENT: [&str; 7] =
    ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "UNBLOCKED"];
const TOO_MANY_CLIENTS: &str = "ERR max number of clients";
/// Error codes that a retry within seconds does not change.
const REFUSED: [&str; 5] = ["MISCONF", "NOAUTH", "WRONGPASS", "NOPERM", "DENIED"];

impl CallFault {
    /// Classifies an error of the client library.
    pub fn classify(error: &FredError) -> Self {
        let text = error.details();
        let code = text.split_ascii_whitespace().next().unwrap_or_default();
        match code {
            "NOSCRIPT" => return Self::UnknownScript,
            "OOM" => return Self::OutOfMemory("Redis has reached its maxmemory".to_owned()),
            "MOVED" => return Self::Moved,
            "LATE" => return Self::Late,
            "EMPTIED" => return Self::Emptied,
            "ASK" => return parse_ask(text),
            "READONLY" => return Self::Demoted("the server is a replica".to_owned()),
            "WRONGTYPE" => return Self::Damaged(text.to_owned()),
            // A command that the user may not run, in a script that has not written anything yet.
            // The answer to a new connection.
            "ERR" if text.starts_with(TOO_MANY_CLIENTS) => return Self::Transient(text.to_owned()),
            "ERR" if text.contains("The user executing the script") => return Self::Refused(text.to_owned()),
            _ if TRANSIENT.contains(&code) => return Self::Transient(text.to_owned()),
            "FENCED" => return Self::Refused(describe_error(error)),
            _ if REFUSED.contains(&code) => return Self::Refused(text.to_owned()),
            _ => {}
        }
        match error.kind() {
            // The library's own errors; for a server's reply it has no kind but `Unknown`.
            ErrorKind::IO
            | ErrorKind::Timeout
            | ErrorKind::Canceled
            | ErrorKind::Routing
            | ErrorKind::Cluster
            | ErrorKind::Sentinel
            | ErrorKind::Backpressure => Self::Transient(describe_error(error)),
            ErrorKind::Unknown if !is_error_reply(error) => Self::Transient(describe_error(error)),
            ErrorKind::Auth | ErrorKind::Config | ErrorKind::Tls | ErrorKind::Url => {
                Self::Refused(describe_error(error))
            }
            ErrorKind::Unknown
            | ErrorKind::InvalidCommand
            | ErrorKind::InvalidArgument
            | ErrorKind::Protocol
            | ErrorKind::Parse
            | ErrorKind::NotFound => Self::Damaged(text.to_owned()),
        }
    }

    /// Whether the server answered that it does not do it, and why.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Demoted(_) => true,
            Self::Transient(cause) | Self::Refused(cause) => reason(cause).is_some(),
            Self::OutOfMemory(_)
            | Self::UnknownScript
            | Self::Moved
            | Self::Ask(_)
            | Self::Late
            | Self::Emptied
            | Self::OtherStore(_)
            | Self::Damaged(_) => false,
        }
    }

    /// The error of the operation when the call is not retried.
    pub fn into_error(self) -> Error {
        match self {
            Self::Demoted(cause) => Error::Refused { reason: READ_ONLY_REPLICA.to_owned(), cause },
            Self::Transient(cause) | Self::Refused(cause) => match reason(&cause).map(str::to_owned) {
                Some(reason) => Error::Refused { reason, cause },
                None => Error::Unavailable(cause),
            },
            Self::OutOfMemory(why) => Error::Full(why),
            Self::UnknownScript => Error::Unavailable("the server keeps forgetting its scripts".to_owned()),
            Self::Moved | Self::Ask(_) => Error::Unavailable("the slot keeps moving".to_owned()),
            Self::Emptied => Error::Replaced,
            Self::OtherStore(error) => error,
            Self::Late => Error::Unavailable("the call reached Redis too late".to_owned()),
            Self::Damaged(why) => Error::Damaged(why),
        }
    }
}

impl From<FredError> for CallFault {
    fn from(error: FredError) -> Self {
        Self::classify(&error)
    }
}

/// Why a server that answers does not do what it is asked. Not in the words of its error, which may name keys and
/// addresses: any client may read this. `None` for other failures.
fn reason(text: &str) -> Option<&str> {
    let code = text.split_ascii_whitespace().next().unwrap_or_default();
    Some(match code.trim_end_matches(':') {
        "MISCONF" => "Redis takes no writes, because it cannot save to its disk (MISCONF)",
        "NOREPLICAS" => "Redis takes no writes, because too few replicas are connected (NOREPLICAS)",
        "LOADING" => "Redis is loading its data (LOADING)",
        "BUSY" => "Redis is busy with a script (BUSY)",
        "MASTERDOWN" => "Redis is a replica without its primary (MASTERDOWN)",
        "CLUSTERDOWN" => "the Redis Cluster is down (CLUSTERDOWN)",
        "ERR" if text.starts_with(TOO_MANY_CLIENTS) => "Redis has too many clients (maxclients)",
        "NOPERM" | "ERR" => "the user of this server lacks permissions at Redis",
        "NOAUTH" | "WRONGPASS" | "DENIED" => "Redis refuses the user or password of this server",
        _ if text == MOVED_AWAY => MOVED_AWAY,
        // The cause of a connection that was closed for it.
        _ if text.ends_with(READ_ONLY_REPLICA) => READ_ONLY_REPLICA,
        // Our own words.
        _ if text.starts_with(UNFIT) => text,
        _ => return None,
    })
}

/// The error as a sentence for people: the library shows the operating system's errors as Rust's `Debug` does.
pub fn describe_error(error: &FredError) -> String {
    let text = error.details();
    let quoted = |name: &str| Some(text.split_once(name)?.1.split_once('"')?.0);
    match text.split_ascii_whitespace().next().unwrap_or_default() {
        "DENIED" => {
            return "it is in protected mode, so it only serves its own host: give it a password, or turn \
                    protected-mode off"
                .to_owned();
        }
        "NOAUTH" => return "it requires a password, and none is configured".to_owned(),
        "WRONGPASS" => return "it refuses the user name or password".to_owned(),
        "NOPERM" => return format!("its user lacks permissions: {text}"),
        "FENCED" => return MOVED_AWAY.to_owned(),
        _ => {}
    }
    match error.kind() {
        // Redis does not announce its end by TLS.
        ErrorKind::IO if text.contains("without sending TLS close_notify") => {
            "the connection failed: the server closed it".to_owned()
        }
        ErrorKind::IO => {
            let message = quoted("message: \"").or_else(|| quoted("error: \"")).unwrap_or(text);
            format!("the connection failed: {message}")
        }
        ErrorKind::Protocol if text.starts_with("Decode Error") => {
            "it does not speak the Redis protocol; is this the address of a Redis?".to_owned()
        }
        ErrorKind::Canceled => format!("the connection ended: {text}"),
        _ if text == "Request timed out." => "no answer in time".to_owned(),
        _ => text.to_owned(),
    }
}

/// Whether an error begins with a code in capitals, as a server's error reply does.
pub fn is_error_reply(error: &FredError) -> bool {
    let code = error.details().split_ascii_whitespace().next().unwrap_or_default();
    code.len() > 1 && code.bytes().all(|b| b.is_ascii_uppercase())
}

/// Parses `ASK 3999 127.0.0.1:6381`.
fn parse_ask(text: &str) -> CallFault {
    let server = text.split_ascii_whitespace().nth(2).and_then(parse_address);
    server.map_or_else(|| CallFault::Transient(text.to_owned()), CallFault::Ask)
}

/// Parses `host:port`, where the host may be an IPv6 address.
pub fn parse_address(text: &str) -> Option<Server> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some(())?;
    Some(Server::new(host.to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(kind: ErrorKind, text: &'static str) -> CallFault {
        CallFault::classify(&FredError::new(kind, text))
    }

    #[test]
    fn errors_are_classified_by_what_to_do_about_them() {
        for text in [
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
            "CLUSTERDOWN The cluster is down",
            "NOREPLICAS Not enough good replicas to write.",
            "ERR max number of clients reached",
            "Too many failed write attempts.",
            "Failed to route command.",
        ] {
            assert!(matches!(classified(ErrorKind::Unknown, text), CallFault::Transient(_)), "{text}");
        }
        assert!(matches!(classified(ErrorKind::Timeout, "Request timed out."), CallFault::Transient(_)));
        assert!(matches!(
            classified(ErrorKind::Unknown, "OOM command not allowed"),
            CallFault::OutOfMemory(_)
        ));
        assert!(matches!(classified(ErrorKind::Unknown, "READONLY You can't write"), CallFault::Demoted(_)));
        assert!(matches!(classified(ErrorKind::Unknown, "ERR user_script:1: oops"), CallFault::Damaged(_)));
        let script = "ERR The user executing the script can't run this command or subcommand script";
        assert!(matches!(classified(ErrorKind::Unknown, script), CallFault::Refused(_)));
        assert_eq!(classified(ErrorKind::Unknown, "LATE the call arrived"), CallFault::Late);
        assert_eq!(classified(ErrorKind::Unknown, "EMPTIED what was stored here"), CallFault::Emptied);
        assert!(matches!(
            classified(ErrorKind::InvalidArgument, "WRONGTYPE Operation"),
            CallFault::Damaged(_)
        ));
        assert!(matches!(
            classified(ErrorKind::Auth, "NOAUTH Authentication required."),
            CallFault::Refused(_)
        ));
        assert_eq!(classified(ErrorKind::Unknown, "NOSCRIPT No matching script."), CallFault::UnknownScript);
        assert_eq!(classified(ErrorKind::Cluster, "MOVED 3999 127.0.0.1:6381"), CallFault::Moved);
        let there = Server::new("127.0.0.1", 6_381);
        assert_eq!(classified(ErrorKind::Cluster, "ASK 3999 127.0.0.1:6381"), CallFault::Ask(there));
    }

    #[test]
    fn a_call_whose_connection_was_closed_at_a_replica_was_refused_for_it() {
        let text = format!("Redis at localhost:6379: the connection ended: {READ_ONLY_REPLICA}");
        let fault = CallFault::classify(&FredError::new(ErrorKind::Routing, text));
        assert!(matches!(fault, CallFault::Transient(_)) && fault.is_refusal(), "{fault:?}");
        let closed = "Redis at localhost:6379: the connection ended: it was aborted";
        assert!(!classified(ErrorKind::Routing, closed).is_refusal());
    }

    #[test]
    fn a_client_is_told_why_a_server_that_answers_does_nothing() {
        let unfit = format!("{UNFIT}: it evicts keys (maxmemory-policy is allkeys-lru)");
        let replica = format!("Redis at 10.0.0.5:6379: the connection ended: {READ_ONLY_REPLICA}");
        for (text, words) in [
            ("MISCONF Redis is configured to save RDB snapshots, but", "cannot save to its disk (MISCONF)"),
            ("NOREPLICAS Not enough good replicas to write.", "too few replicas are connected (NOREPLICAS)"),
            ("LOADING Redis is loading the dataset in memory", "is loading its data (LOADING)"),
            ("BUSY Redis is busy running a script.", "is busy with a script (BUSY)"),
            ("MASTERDOWN Link with MASTER is down", "a replica without its primary (MASTERDOWN)"),
            ("CLUSTERDOWN The cluster is down", "Cluster is down (CLUSTERDOWN)"),
            ("ERR max number of clients reached", "has too many clients (maxclients)"),
            ("NOPERM: its user lacks permissions", "lacks permissions at Redis"),
            ("ERR The user executing the script can't run this command", "lacks permissions at Redis"),
            ("NOAUTH Authentication required.", "refuses the user or password"),
            ("WRONGPASS invalid username-password pair", "refuses the user or password"),
            ("DENIED Redis is running in protected mode", "refuses the user or password"),
            (MOVED_AWAY, MOVED_AWAY),
            (replica.as_str(), READ_ONLY_REPLICA),
            (unfit.as_str(), "maxmemory-policy is allkeys-lru"),
        ] {
            let fault = CallFault::Refused(text.to_owned());
            assert!(fault.is_refusal(), "{text}");
            let Error::Refused { reason, .. } = fault.into_error() else { panic!("{text}") };
            assert!(reason.contains(words), "{text}: {reason}");
            assert!(!reason.contains("10.0.0.5"), "it names no address: {reason}");
        }
        let silent = CallFault::Transient("the connection failed: Connection refused".to_owned());
        assert!(!silent.is_refusal() && matches!(silent.into_error(), Error::Unavailable(_)));
    }

    #[test]
    fn errors_are_described_for_people() {
        let described = |kind, text: &'static str| describe_error(&FredError::new(kind, text));
        let refused = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(described(ErrorKind::IO, refused), "the connection failed: Connection refused");
        let unknown = "Custom { kind: Uncategorized, error: \"failed to lookup address information\" }";
        assert_eq!(
            described(ErrorKind::IO, unknown),
            "the connection failed: failed to lookup address information"
        );
        assert_eq!(described(ErrorKind::IO, "gone"), "the connection failed: gone");
        assert!(
            described(ErrorKind::Protocol, "Decode Error: frame_type")
                .contains("not speak the Redis protocol")
        );
        assert_eq!(described(ErrorKind::Timeout, "Request timed out."), "no answer in time");
        assert_eq!(described(ErrorKind::Unknown, "LOADING Redis is loading"), "LOADING Redis is loading");
        assert!(
            described(ErrorKind::Unknown, "DENIED Redis is running in")
                .starts_with("it is in protected mode")
        );
        assert!(described(ErrorKind::Auth, "NOAUTH Authentication required.").contains("password"));
        assert!(described(ErrorKind::Auth, "WRONGPASS invalid username").contains("password"));
    }

    #[test]
    fn addresses_may_be_ipv6() {
        assert_eq!(parse_address("[::1]:7"), Some(Server::new("::1", 7)));
        assert_eq!(parse_address("::1:7"), Some(Server::new("::1", 7)));
        assert_eq!(parse_address("nowhere"), None);
        assert_eq!(parse_address(":7"), None);
    }
}
