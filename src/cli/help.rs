//! What the help says after the flags. A paragraph is one line, which clap wraps to the terminal; lines that begin with
//! a blank stay as they are, and fit 80 columns.

pub(super) const ABOUT: &str =
    "A durable delay-queue server over HTTP: post a job with a delay, pop it when it is due.";

pub(super) const MAIN: &str = "\
Examples:
  linger                           serve on 127.0.0.1:9277, jobs in ./data
  linger --listen 127.0.0.1:8080 --data-dir /var/lib/linger
  linger --redis-url redis://127.0.0.1:6379
  linger config show               what is in force, and where it comes from
  linger config check              every fault of the configuration
  linger config default            every setting with its documentation
  linger health && echo ready      for containers and scripts
  linger backup jobs.backup        while the server runs
  linger restore jobs.backup       puts it into an empty data directory
  linger verify jobs.backup        checks it; without a name, the store itself
  linger token new --name shop --scope add --append tokens.toml
  linger bench                     measures a server of its own

A first job, from another terminal:
  curl -sX POST localhost:9277/jobs -H 'content-type: application/json' \\
    -d '{\"topic\":\"hello\",\"delay\":\"3s\",\"body\":{\"n\":1}}'
  curl -s 'localhost:9277/topics/hello/pop?wait=10s'

Settings, later wins:
  1. defaults      linger config default
  2. one file      --config FILE, else LINGER_CONFIG, else ./linger.toml,
                   else /etc/linger/linger.toml
  3. environment   LINGER__SECTION__KEY, such as
                   LINGER__SERVER__LISTEN=127.0.0.1:8080 or
                   LINGER__REDIS__PASSWORD_FILE=/run/secrets/redis
  4. flags

RUST_LOG wins over log.level, NO_COLOR turns colours off.

Signals: SIGTERM and SIGINT end the server in order, a second one after a second at once. SIGHUP reads the tokens and the certificate \
again, where there are any.

Exit codes: 0 done; 1 failed; 2 wrong usage or configuration (`linger health`: 1); 130 or 143 stopped by a second \
SIGINT or SIGTERM, `linger bench` by the first.";

pub(super) const HEALTH: &str = "\
Asks the configured address (server.listen), over loopback when that is 0.0.0.0 or [::], by TLS where tls.certificate is \
set. Any certificate will do: nothing secret is sent. Every failure is exit code 1, since Docker reserves 2.

Example:
  HEALTHCHECK CMD [\"linger\", \"health\"]";

pub(super) const VERIFY: &str = "\
The embedded engine's directory must not be in use: stop the server, or verify a backup of it. Nothing is changed. Redis \
may be in use.

Examples:
  linger verify --data-dir /var/lib/linger
  linger backup FILE && linger verify FILE";

pub(super) const BACKUP: &str = "\
Everything acknowledged before it began is in the copy. FILE must not exist, and appears only when the copy is complete \
and on disk. Only its owner can read it. Redis has means of its own.

With - the copy goes to stdout. Check the exit code: a copy that was cut short is no backup. It is made in a file first, \
in $TMPDIR where that is set, else in the data directory.

Examples:
  linger backup jobs.backup --data-dir /var/lib/linger
  docker exec NAME linger backup - >jobs.backup";

pub(super) const RESTORE: &str = "\
FILE was made by `linger backup`. It is verified first, and one with faults is not restored. The server must not run. \
What was finished since the backup comes back and is delivered again.

Example:
  linger restore jobs.backup --data-dir /var/lib/linger";

pub(super) const TOKEN_NEW: &str = "\
The token is shown once and stored nowhere. Its entry, which holds a hash of it, belongs into the file that \
auth.tokens_file names; send the server SIGHUP afterwards.

Examples:
  linger token new --name shop --scope add --topic 'orders-*' >> tokens.toml
  linger token new --name worker-1 --scope work,read --append tokens.toml
  TOKEN=$(linger token new --name ops --scope admin --append tokens.toml)";

pub(super) const BENCH: &str = "\
Without --url it measures a server of its own, a new one for each scenario: this program, on a free loopback port, with a \
data directory that is made where --data-dir says, or among the temporary files, and removed again. --config, --store and \
--redis-url are passed on to it. Mind that temporary files may be kept in memory, where syncs cost nothing.

With --url it drives a running server, over plain HTTP. It works in topics of its own (bench-...), which it deletes at the \
end; the token, if one is needed, must allow add, work, read and admin for them.

CPU and memory are those of the Linger process alone, and seen on Linux only. CPU us/job is microseconds of processor \
time. Jobs are lost when they were taken and never came, doubled when they came twice within one reservation, early when \
they came before the moment of their add plus their delay. The exit code is 1 if there was one of them.

Compare figures of one machine only, and state the pattern of delays with them.

Examples:
  linger bench                        each scenario in a short form
  linger bench throughput --batch 100 --jobs 200000
  linger bench lateness --rate 4000 --seconds 60 --delay random
  linger bench parked --connections 10000
  linger bench --redis-url redis://127.0.0.1:6379
  linger bench burst --url http://127.0.0.1:9277 --pid \"$(pidof linger)\"";
