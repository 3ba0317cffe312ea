//! Reloading on SIGHUP: the file of tokens, and the certificate with its key. A file that cannot be used changes nothing
//! and is logged.

use std::{io, path::PathBuf, sync::Arc};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    auth::{self, Authenticator},
    config::{Config, FileFault},
    metrics::ConnectionMetrics,
    net::{ServerTls, TlsFile, UnusableTlsFile},
};

/// The parts of a server that are read from files and may change while it runs.
pub(super) struct Reload {
    /// Authenticates clients.
    pub authenticator: Arc<Authenticator>,
    /// The certificate, if there is one.
    pub tls: Option<ServerTls>,
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
        let (tokens, tls) = match (tokens, tls) {
            (Ok(tokens), Ok(tls)) => (tokens, tls),
            (tokens, tls) => return Err([tokens.err(), tls.err()].into_iter().flatten().flatten().collect()),
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
        Ok(Self { authenticator: Arc::new(authenticator), tls, tokens_file })
    }

    /// Catches SIGHUP from now on. It never ends the server, also if there is no file to reload.
    pub fn signals() -> io::Result<Signal> {
        signal(SignalKind::hangup())
    }

    /// Reloads the files at each signal until `until`.
    pub async fn run(self, mut hangups: Signal, until: CancellationToken, metrics: ConnectionMetrics) {
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

    fn reload(&self, metrics: &ConnectionMetrics) {
        if self.tokens_file.is_none() && self.tls.is_none() {
            tracing::info!("there are no tokens and no certificate to reload");
        }
        if let Some(path) = &self.tokens_file {
            match auth::read_tokens(path) {
                Ok(tokens) => {
                    let count = tokens.count();
                    self.authenticator.replace(tokens);
                    // Logged last: who reads this line can rely on the new tokens.
                    tracing::info!(tokens = count, "reloaded the tokens");
                }
                Err(problem) => {
                    tracing::error!(problem, "cannot reload the tokens; the old ones stay in force")
                }
            }
        }
        let Some(tls) = &self.tls else { return };
        match tls.reload() {
            Ok(()) => {
                tls.publish(metrics);
                tracing::info!("reloaded the certificate");
            }
            Err(files) => {
                let problem = files.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                tracing::error!(problem, "cannot reload the certificate; the old one stays in force");
            }
        }
    }
}

fn fault_of_pair(file: UnusableTlsFile) -> FileFault {
    let key = match file.which {
        TlsFile::Certificate => "tls.certificate",
        TlsFile::Key => "tls.key",
    };
    FileFault { key, problem: file.problem }
}
