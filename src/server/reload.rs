//! Reloading on SIGHUP: the file of tokens, the certificate with its key, and the files of TLS to Redis. A file that cannot
//! be used changes nothing and is logged.

use std::{io, path::PathBuf, sync::Arc};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::wiring;
use crate::{
    auth::{self, Authenticator},
    clock::{Clock, SystemClock},
    config::{Config, FileFault},
    metrics::{Certificate, CertificateMetrics},
    net::{ServerTls, TlsFile, UnusableTlsFile},
    store::redis::RedisTls,
};

/// The parts of a server that are read from files and may change while it runs.
pub(super) struct Reload {
    /// Authenticates clients.
    pub authenticator: Arc<Authenticator>,
    /// The certificate, if there is one.
    pub tls: Option<ServerTls>,
    /// TLS to Redis, if the engine uses it.
    pub redis_tls: Option<RedisTls>,
    tokens_file: Option<PathBuf>,
}

impl Reload {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// Each file that cannot be used, and why.
    pub fn new(config: &Config) -> Result<Self, Vec<FileFault>> {
        let tokens_file = config.auth.tokens_file.clone();
        let tokens = tokens_file.as_ref().map(|path| auth::read_tokens(path)).transpose();
        let tokens = tokens.map_err(|problem| vec![FileFault { key: "auth.tokens_file", problem }]);
        let tls =
            config.tls.as_ref().map(|files| ServerTls::read(&files.certificate, &files.key)).transpose();
        let tls = tls.map_err(|files| files.into_iter().map(fault_of_pair).collect::<Vec<_>>());
        let (tokens, tls, redis_tls) = match (tokens, tls, wiring::redis_tls(config)) {
            (Ok(tokens), Ok(tls), Ok(redis_tls)) => (tokens, tls, redis_tls),
            (tokens, tls, redis_tls) => {
                let faults = [tokens.err(), tls.err(), redis_tls.err()];
                return Err(faults.into_iter().flatten().flatten().collect());
            }
        };
        let authenticator = match (tokens, &tokens_file) {
            (Some(tokens), Some(path)) => {
                tracing::info!(tokens = tokens.count(), file = %path.display(), "clients must send a token");
                Authenticator::with_tokens(tokens)
            }
            (None, _) | (_, None) => {
                if !config.server.listen.ip().is_loopback() {
                    tracing::warn!(
                        "auth.allow_anonymous is set: every client that can connect may do everything"
                    );
                }
                Authenticator::open()
            }
        };
        Ok(Self { authenticator: Arc::new(authenticator), tls, redis_tls, tokens_file })
    }

    /// Catches SIGHUP from now on. It never ends the server, also if there is no file to reload.
    pub fn signals() -> io::Result<Signal> {
        signal(SignalKind::hangup())
    }

    /// Reloads the files at each signal until `until`.
    pub async fn run(self, mut hangups: Signal, until: CancellationToken, metrics: CertificateMetrics) {
        let this = Arc::new(self);
        loop {
            tokio::select! {
                _ = hangups.recv() => {}
                () = until.cancelled() => return,
            }
            let (reloading, metrics) = (this.clone(), metrics.clone());
            // On a thread of its own: a file system may hang, and nothing else must hang with it.
            let read = tokio::task::spawn_blocking(move || reloading.reload(&metrics));
            tokio::select! {
                read = read => read.expect("reading files does not panic"),
                () = until.cancelled() => return,
            }
        }
    }

    /// Publishes until when the certificates are valid, and warns if that moment has passed.
    pub fn publish(&self, metrics: &CertificateMetrics) {
        let now = SystemClock::new().now_micros() / 1_000_000;
        let has_expired = |end: Option<i64>| end.is_some_and(|end| end <= now);
        let end = self.tls.as_ref().and_then(ServerTls::certificate_end);
        metrics.set_end(Certificate::Server, end);
        if has_expired(end) {
            tracing::warn!(
                setting = "tls.certificate",
                "the certificate has expired, so clients refuse to connect"
            );
        }
        let end = self.redis_tls.as_ref().and_then(RedisTls::certificate_end);
        metrics.set_end(Certificate::RedisClient, end);
        if has_expired(end) {
            tracing::warn!(
                setting = "redis.client_certificate",
                "the client certificate for Redis has expired, so Redis refuses new connections"
            );
        }
    }

    fn reload(&self, metrics: &CertificateMetrics) {
        if self.tokens_file.is_none() && self.tls.is_none() && self.redis_tls.is_none() {
            tracing::info!("there are no tokens and no certificate to reload");
        }
        if let Some(path) = &self.tokens_file {
            match auth::read_tokens(path) {
                Ok(tokens) => {
                    let count = tokens.count();
                    self.authenticator.replace(tokens);
                    // Logged last: an operator who reads this line can rely on the new tokens.
                    tracing::info!(tokens = count, "reloaded the tokens");
                }
                Err(problem) => {
                    tracing::error!(problem, "cannot reload the tokens; the old ones stay in force")
                }
            }
        }
        let certificate = self.tls.as_ref().map(ServerTls::reload);
        let redis = self.redis_tls.as_ref().map(RedisTls::reload);
        self.publish(metrics);
        match certificate {
            Some(Ok(())) => tracing::info!("reloaded the certificate"),
            Some(Err(files)) => {
                let problem = joined(&files);
                tracing::error!(problem, "cannot reload the certificate; the old one stays in force");
            }
            None => {}
        }
        match redis {
            Some(Ok(())) => tracing::info!("reloaded the certificates for Redis"),
            Some(Err(files)) => {
                let problem = joined(&files);
                tracing::error!(
                    problem,
                    "cannot reload the certificates for Redis; the old ones stay in force"
                );
            }
            None => {}
        }
    }
}

fn joined(problems: &[impl ToString]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn fault_of_pair(file: UnusableTlsFile) -> FileFault {
    let key = match file.which {
        TlsFile::Certificate => "tls.certificate",
        TlsFile::Key => "tls.key",
    };
    FileFault { key, problem: file.problem }
}
