//! The command line as clap reads it, and its help. Values are not checked here: a flag is one more
//! source of settings, so that its faults are listed with all others.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::bench::BenchArgs;
use crate::{auth::Scope, config::Flag, job::TopicPattern};

const ABOUT: &str = "A durable delay-queue server over HTTP: post a job with a delay, pop it when it is due.";

const EXAMPLES: &str = "\
Examples:
  linger                                    serve on 127.0.0.1:9277, jobs in ./data
  linger --listen 127.0.0.1:8080 --data-dir /var/lib/linger
  linger --store redis --redis-url redis://127.0.0.1:6379
  linger config show --config my.toml       what is in force, and where it comes from
  linger config check                       every fault of the configuration, without starting
  linger health && echo ready               for containers and scripts
  linger backup jobs.backup                 while the server runs; `linger restore` takes it back
  linger verify jobs.backup                 reads all of it; without a name, the store itself
  linger token new --name shop --scope add  a token for a client, and its entry for the server
  linger bench                              measures a server of its own; --url a running one

A first job, from another terminal:
  curl -sX POST localhost:9277/jobs -H 'content-type: application/json' \\
    -d '{\"topic\":\"hello\",\"delay\":\"3s\",\"body\":{\"n\":1}}'
  curl -s 'localhost:9277/topics/hello/pop?wait=10s'

Settings, later wins:
  1. defaults           `linger config show` lists every key
  2. one file           --config FILE, else ./linger.toml, else /etc/linger/linger.toml (TOML)
  3. environment        LINGER__SECTION__KEY, such as LINGER__SERVER__LISTEN=127.0.0.1:8080
                        or LINGER__REDIS__PASSWORD_FILE=/run/secrets/redis
  4. flags
RUST_LOG wins over log.level, NO_COLOR turns colours off.

Signals: SIGTERM and SIGINT end the server in order, a second one after a second at once. SIGHUP reads the tokens
and the certificate again, where there are any.
Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 130 or 143 stopped by a second
SIGINT or SIGTERM, `linger bench` by the first.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "linger", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
pub(super) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Settings.
    #[command(flatten)]
    pub settings: Settings,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the queue (also what happens without a command)
    Serve,
    /// Ask a running server whether it is ready: exit code 0 if it is, 1 if not
    #[command(after_help = "\
Asks the configured address (server.listen), over loopback when that is 0.0.0.0 or [::], by TLS where
tls.certificate is set. Any certificate will do: nothing secret is sent.
Example: HEALTHCHECK CMD [\"linger\", \"health\"]")]
    Health {
        /// Server to ask instead of the configured address, such as https://queue.internal
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// How long to wait for the answer
        #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = crate::job::parse_duration)]
        timeout: std::time::Duration,
    },
    /// Read everything in the store and hold it against itself: exit code 0 if it is sound, 1 if not
    #[command(after_help = "\
The embedded engine's directory must not be in use: stop the server, or verify a backup of it, as in
`linger backup FILE && linger verify FILE`. Nothing is changed. Redis may be in use.")]
    Verify {
        /// A backup to verify instead of the configured store
        file: Option<PathBuf>,
    },
    /// Copy the embedded engine's store into one file, also while a server is at work on it
    #[command(after_help = "\
Everything acknowledged before it began is in the copy. FILE must not exist, and appears only when the copy is
complete and on disk. It can be read by its owner only. Redis has means of its own.")]
    Backup {
        /// File to make
        file: PathBuf,
    },
    /// Put a backup, if it is sound, into the configured data directory, which must be empty or missing
    Restore {
        /// Backup made by `linger backup`
        file: PathBuf,
    },
    /// Measure a server: throughput, lateness, parked polls, a backlog, a burst
    #[command(after_help = super::bench::EXAMPLES)]
    Bench(BenchArgs),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make tokens for clients
    #[command(subcommand)]
    Token(TokenCommand),
}

/// What can be done with the configuration.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the settings in force as TOML, secrets redacted, each with its source
    Show,
    /// List every fault: exit code 0 if there is none, 1 otherwise
    Check,
}

/// What can be done about tokens.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token: prints it once, and its entry for the file that auth.tokens_file names
    #[command(after_help = "\
Examples:
  linger token new --name shop --scope add --topic 'orders-*'
  linger token new --name worker-1 --scope work --topic orders-eu --topic orders-us
  linger token new --name prometheus --scope read")]
    New {
        /// Whose it is; shown in the log
        #[arg(long, default_value = "unnamed")]
        name: String,
        /// What it allows: add, work, read, admin (which allows the other three too); may be repeated
        #[arg(long = "scope", required = true, value_name = "SCOPE", value_parser = scope)]
        scopes: Vec<Scope>,
        /// For which topics: a name, or the beginning of names followed by *; may be repeated [default: all]
        #[arg(long = "topic", value_name = "TOPIC", value_parser = TopicPattern::parse)]
        topics: Vec<TopicPattern>,
    },
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).ok_or_else(|| "must be add, work, read or admin".to_owned())
}

/// Flags that set something. They may stand before or after the command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Settings")]
pub(super) struct Settings {
    /// Read this file instead of ./linger.toml or /etc/linger/linger.toml
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to listen (server.listen); port 0 picks a free one [default: 127.0.0.1:9277]
    #[arg(long, global = true, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Directory of the embedded engine (embedded.data_dir) [default: data]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Where jobs are kept (store.engine): embedded or redis [default: embedded]
    #[arg(long, global = true, value_name = "ENGINE")]
    store: Option<String>,
    /// The Redis server (redis.url); better without a password, which other users could see in the
    /// list of processes
    #[arg(long, global = true, value_name = "URL")]
    redis_url: Option<String>,
}

impl Settings {
    /// The flags that were given.
    pub fn flags(&self) -> Vec<Flag> {
        let flag = |name, key, value: &Option<String>| Some(Flag { name, key, value: value.clone()? });
        [
            flag("--listen", "server.listen", &self.listen),
            flag("--data-dir", "embedded.data_dir", &self.data_dir),
            flag("--store", "store.engine", &self.store),
            flag("--redis-url", "redis.url", &self.redis_url),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_stand_before_or_after_the_command_or_alone() {
        for line in [
            &["linger", "--listen", "1.2.3.4:5"][..],
            &["linger", "serve", "--listen", "1.2.3.4:5"],
            &["linger", "--listen", "1.2.3.4:5", "config", "show"],
            &["linger", "config", "show", "--listen", "1.2.3.4:5"],
        ] {
            let flags = Cli::try_parse_from(line).expect("is a valid command line").settings.flags();
            let expected = Flag { name: "--listen", key: "server.listen", value: "1.2.3.4:5".to_owned() };
            assert_eq!(flags, [expected], "{line:?}");
        }
    }
}
