//! One struct per concern, valid once it exists. Ranges are here, defaults are in
//! `config/default.toml`. Knows no engine and no HTTP type: the composition root translates.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{reader::Reader, values};
use crate::job::Delay;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Listening and the limits of connections: section `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// `Host` names accepted besides addresses and localhost.
    pub allowed_hosts: Vec<String>,
    /// For the first byte of a new connection.
    pub first_byte_timeout: Duration,
    /// For the head of a request, from its first byte.
    pub header_timeout: Duration,
    /// For a connection that is idle between two requests.
    pub keep_alive_timeout: Duration,
    /// For a request's body, besides the time that its length is given.
    pub body_timeout: Duration,
    /// Bytes of a request's body in a second.
    pub min_body_rate: usize,
    /// For each 64 KiB of an answer.
    pub write_timeout: Duration,
    /// For a refused client to stop sending.
    pub linger_timeout: Duration,
    /// Of a request's head.
    pub max_header_bytes: usize,
    /// Headers of a request.
    pub max_headers: usize,
    /// Of any request's body.
    pub max_request_bytes: usize,
    /// Of the body of a request that carries no jobs.
    pub max_small_request_bytes: usize,
    /// Of the bodies of all requests at work.
    pub max_buffered_bytes: usize,
    /// The same for one token or address.
    pub max_buffered_bytes_per_caller: usize,
    /// Of the answers that clients have not taken yet.
    pub max_answer_bytes: usize,
    /// Open at a time.
    pub max_connections: usize,
    /// Open at a time from one address.
    pub max_connections_per_address: usize,
    /// Between turning unready and the orderly shutdown.
    pub drain_delay: Duration,
    /// Longest orderly shutdown.
    pub shutdown_grace: Duration,
}

impl Server {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            listen: reader.address("server.listen"),
            allowed_hosts: reader.host_names("server.allowed_hosts"),
            first_byte_timeout: reader.duration("server.first_byte_timeout", 10 * MILLISECOND, HOUR),
            header_timeout: reader.duration("server.header_timeout", 10 * MILLISECOND, HOUR),
            keep_alive_timeout: reader.duration("server.keep_alive_timeout", 10 * MILLISECOND, HOUR),
            body_timeout: reader.duration("server.body_timeout", 10 * MILLISECOND, HOUR),
            min_body_rate: reader.size("server.min_body_rate", 1, GIB),
            write_timeout: reader.duration("server.write_timeout", 10 * MILLISECOND, HOUR),
            linger_timeout: reader.duration("server.linger_timeout", MILLISECOND, MINUTE),
            // hyper's read buffer cannot be smaller.
            max_header_bytes: reader.size("server.max_header_bytes", 8 * KIB, MIB),
            max_headers: reader.count("server.max_headers", 8, 10_000),
            max_request_bytes: reader.size("server.max_request_bytes", KIB, GIB),
            max_small_request_bytes: reader.size("server.max_small_request_bytes", KIB, GIB),
            max_buffered_bytes: reader.size("server.max_buffered_bytes", KIB, 1_024 * GIB),
            max_buffered_bytes_per_caller: reader.size(
                "server.max_buffered_bytes_per_caller",
                KIB,
                1_024 * GIB,
            ),
            max_answer_bytes: reader.size("server.max_answer_bytes", KIB, 1_024 * GIB),
            max_connections: reader.count("server.max_connections", 1, 1_000_000),
            max_connections_per_address: reader.count("server.max_connections_per_address", 1, 1_000_000),
            drain_delay: reader.duration("server.drain_delay", Duration::ZERO, HOUR),
            shutdown_grace: reader.duration("server.shutdown_grace", 100 * MILLISECOND, HOUR),
        }
    }
}

/// Who may call: section `[auth]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// The file of tokens; without it nobody is asked for one.
    pub tokens_file: Option<PathBuf>,
    /// Whether others than this machine's may call without a token.
    pub allow_anonymous: bool,
}

impl Auth {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            tokens_file: reader.optional_file("auth.tokens_file"),
            allow_anonymous: reader.flag("auth.allow_anonymous"),
        }
    }
}

/// The files of TLS: section `[tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Tls {
    /// `None` when neither is set.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (certificate, key) = (reader.optional_file("tls.certificate"), reader.optional_file("tls.key"));
        match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Self { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                reader.refuse("tls.key", "must be set too, since tls.certificate is");
                None
            }
            (None, Some(_)) => {
                reader.refuse("tls.certificate", "must be set too, since tls.key is");
                None
            }
        }
    }
}

/// Which engine keeps the jobs: key `store.engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// This process and one directory.
    Embedded,
    /// Redis or a server that speaks its protocol.
    Redis,
}

impl Engine {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        reader.choice("store.engine", &[("embedded", Self::Embedded), ("redis", Self::Redis)])
    }
}

/// What an acknowledgement of the embedded engine means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk.
    Always,
    /// Written; on disk within the interval.
    Interval(Duration),
    /// Written; on disk when the system pleases.
    Os,
}

/// Section `[embedded]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedded {
    /// Its directory.
    pub data_dir: PathBuf,
    /// What an acknowledgement means.
    pub durability: Durability,
    /// Below this many bytes of free disk, adds are refused.
    pub min_free_bytes: u64,
    /// Size of a file that is given up when the disk is full.
    pub ballast_bytes: u64,
    /// How far ahead due times are held in memory.
    pub look_ahead: Duration,
}

impl Embedded {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let interval = reader.duration("embedded.sync_interval", MILLISECOND, MINUTE);
        let durabilities = [
            ("always", Durability::Always),
            ("interval", Durability::Interval(interval)),
            ("os", Durability::Os),
        ];
        Self {
            data_dir: reader.path("embedded.data_dir"),
            durability: reader.choice("embedded.durability", &durabilities),
            min_free_bytes: reader.size("embedded.min_free", 0, 1_024 * GIB),
            ballast_bytes: reader.size("embedded.ballast", 0, 1_024 * GIB),
            look_ahead: reader.duration("embedded.look_ahead", SECOND, 24 * HOUR),
        }
    }
}

/// Limits of the queue: section `[queue]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Of one job's body.
    pub max_body_bytes: usize,
    /// Jobs in one batch.
    pub max_batch: usize,
    /// Jobs that one batch pop hands out.
    pub max_batch_pop: usize,
    /// Of the bodies that one pop hands out.
    pub max_delivery_bytes: usize,
    /// Topics of one batch pop.
    pub max_pop_topics: usize,
    /// Longest delay of a job.
    pub max_delay: Delay,
    /// Longest poll.
    pub max_wait: Duration,
    /// Polls parked at a time.
    pub max_waiting: usize,
    /// How long dead letters are kept; `None` for ever.
    pub dead_retention: Option<Duration>,
    /// Jobs that one step of the timer moves.
    pub promote_batch: usize,
}

impl Queue {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            max_body_bytes: reader.size("queue.max_body", 1, 256 * MIB),
            max_batch: reader.count("queue.max_batch", 1, 100_000),
            max_batch_pop: reader.count("queue.max_batch_pop", 1, 10_000),
            max_delivery_bytes: reader.size("queue.max_delivery", 1, GIB),
            max_pop_topics: reader.count("queue.max_pop_topics", 1, 10_000),
            max_delay: Delay::new(reader.duration("queue.max_delay", SECOND, Delay::MAX))
                .expect("the range of the key is that of delays"),
            max_wait: reader.duration("queue.max_wait", Duration::ZERO, HOUR),
            max_waiting: reader.count("queue.max_waiting", 0, 10_000_000),
            dead_retention: reader.get("queue.dead_retention", |kind| match values::optional_text(kind) {
                Ok(None) => Ok(None),
                Ok(Some(text)) if text == "forever" => Ok(None),
                _ => values::duration(kind, SECOND, 36_500 * 24 * HOUR)
                    .map(Some)
                    .map_err(|problem| format!("{problem}, or \"forever\"")),
            }),
            promote_batch: reader.count("queue.promote_batch", 1, 100_000),
        }
    }
}
