//! What SIGHUP reads again: the file of tokens, and the certificate with its key. What cannot be used changes nothing and is logged.

use std::{io, path::PathBuf, sync::Arc};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    auth::{self, Gate},
    config::{Config, FileFault},
    net::{PairFile, Tls, UnusableFile},
};

/// The parts of a server that come from files and may change while it runs.
pub(super) struct Reload {
    /// Who is let in.
    pub gate: Arc<Gate>,
    /// With which certificate, if any.
    pub tls: Option<Tls>,
    tokens_file: Option<PathBuf>,
}

impl Reload {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// Each file that cannot be used, and why.
    pub fn new(config: &Config) -> Result<Self, Vec<FileFault>> {
        let tokens_file = config.auth.tokens_file.clone();
        let tokens = tokens_file.as_ref().map(|path| auth::read(path)).transpose();
        let tokens = tokens.map_err(|problem| vec![FileFault { key: "auth.tokens_file", problem }]);
        let tls = config.tls.as_ref().map(|files| Tls::read(&files.certificate, &files.key)).transpose();
        let tls = tls.map_err(|files| files.into_iter().map(fault_of_pair).collect::<Vec<_>>());
        let (tokens, tls) = match (tokens, tls) {
            (Ok(tokens), Ok(tls)) => (tokens, tls),
            (tokens, tls) => return Err([tokens.err(), tls.err()].into_iter().flatten().flatten().collect()),
        };
        let gate = match (tokens, &tokens_file) {
            (Some(tokens), Some(path)) => {
                tracing::info!(tokens = tokens.count(), file = %path.display(), "clients need a token");
                Gate::guarded(tokens)
            }
            (None, _) | (_, None) => {
                if !config.server.listen.ip().is_loopback() {
                    tracing::warn!("auth.allow_anonymous: everybody who can connect may do everything");
                }
                Gate::open()
            }
        };
        Ok(Self { gate: Arc::new(gate), tls, tokens_file })
    }

    /// Catches SIGHUP from now on. Not where there is nothing to read again: then it ends the process, as
    /// it does when the terminal goes away.
    pub fn signals(&self) -> io::Result<Option<Signal>> {
        (self.tokens_file.is_some() || self.tls.is_some()).then(|| signal(SignalKind::hangup())).transpose()
    }

    /// Reads the files again at each signal, until the server ends.
    pub async fn run(self, mut hangups: Signal, until: CancellationToken) {
        let this = Arc::new(self);
        loop {
            tokio::select! {
                _ = hangups.recv() => {}
                () = until.cancelled() => return,
            }
            let reading = this.clone();
            // A file system may hang, and nothing else is to hang with it.
            let read = tokio::task::spawn_blocking(move || reading.again());
            tokio::select! {
                read = read => read.expect("reading files does not panic"),
                () = until.cancelled() => return,
            }
        }
    }

    fn again(&self) {
        if let Some(path) = &self.tokens_file {
            match auth::read(path) {
                Ok(tokens) => {
                    let count = tokens.count();
                    self.gate.replace(tokens);
                    // Logged last, so that whoever reads it can rely on the new tokens.
                    tracing::info!(tokens = count, "the tokens were read again");
                }
                Err(problem) => tracing::error!(problem, "the tokens stay as they were"),
            }
        }
        match self.tls.as_ref().map(Tls::read_again) {
            Some(Ok(())) => tracing::info!("the certificate was read again"),
            Some(Err(files)) => {
                let problem = files.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                tracing::error!(problem, "the certificate stays as it was");
            }
            None => {}
        }
    }
}

fn fault_of_pair(file: UnusableFile) -> FileFault {
    let key = match file.which {
        PairFile::Certificate => "tls.certificate",
        PairFile::Key => "tls.key",
    };
    FileFault { key, problem: file.problem }
}
