//! What the help says after the flags. A paragraph is one line, which clap wraps to the terminal; lines that begin with
//! a blank stay as they are, and fit 80 columns.

pub(super) const ABOUT: &str =
    "A durable delay-queue server over HTTP: post a job with a delay, pop it when it is due.";

pub(super) const MAIN: &str = "\
Examples:
  linger                           serve on 127.0.0.1:9277, jobs in ./data
  linger --listen 127.0.0.1:8080 --data-dir /var/lib/linger
  linger --redis-url redis://127.0.0.1:6379
  linger config show               the settings in force and their sources
  linger config check              every fault of the configuration
  linger config default            every setting with its documentation
  linger health && echo ready      for containers and scripts
  linger backup jobs.backup        while the server runs
  linger restore jobs.backup       restores it into an empty data directory
  linger verify jobs.backup        checks it; without a name, the store itself
  linger export jobs.export        all jobs in a file for any engine
  linger import jobs.export        puts them into the configured store
  linger move --to new.toml        moves all jobs to another store
  linger token new --name shop --scope add --append tokens.toml
  linger bench                     measures a server of its own
  linger work hello -- cat         runs a command for each job
  linger add hello '{\"n\":1}' --delay 3s
  linger pop hello --wait 10s --finish
  linger schedule put daily --cron '30 9 * * *' --topic report

A first job, from another terminal:
  curl -sX POST localhost:9277/jobs -H 'content-type: application/json' \\
    -d '{\"topic\":\"hello\",\"delay\":\"3s\",\"body\":{\"n\":1}}'
  curl -s 'localhost:9277/topics/hello/pop?wait=10s'

Settings, each overriding the ones before it:
  1. defaults      linger config default
  2. one file      --config FILE, else LINGER_CONFIG, else ./linger.toml,
                   else /etc/linger/linger.toml
  3. environment   LINGER__SECTION__KEY, such as
                   LINGER__SERVER__LISTEN=127.0.0.1:8080 or
                   LINGER__REDIS__PASSWORD_FILE=/run/secrets/redis
  4. flags

RUST_LOG overrides log.level. NO_COLOR turns colours off.

Signals: SIGTERM and SIGINT shut the server down; a second one, at least a second later, stops it at once. On SIGHUP it \
reads the tokens and the certificates again, if it has any.

Exit codes: 0 success; 1 failure; 2 wrong usage or configuration (`linger health`: 1); 130 or 143 stopped by a second \
SIGINT or SIGTERM, other commands than `linger serve` by the first. Commands that call a server have more: linger add \
--help.";

/// What all commands that call a server have in common.
macro_rules! calls {
    () => {
        "\
The server is that of --url, else of LINGER_URL, else of the profile, else http://127.0.0.1:9277. A URL by flag or \
variable drops the token of the profile. The token is that of --token-file, else of LINGER_TOKEN_FILE, else \
LINGER_TOKEN, else of the profile. The certificate of an https server must be issued by a root certificate of this system, of \
SSL_CERT_FILE, or of the profile's --ca, or be one of them.

Exit codes:
  0    done, also if the server recognised a repeat
  1    failed, or some of several jobs failed, or the answer is not Linger's
  2    wrong usage, profile or value
  3    there is none: no job is due, no such job, topic, schedule or operation
  4    a conflict; nothing was changed
  5    not allowed: the token is missing, wrong, or not for this
  6    no answer until --timeout: it may have happened; run it again
  130  stopped by SIGINT; 143 by SIGTERM"
    };
}

pub(super) const CALLS: &str = calls!();

pub(super) const BULK: &str = concat!(
    "\
The jobs are counted first, and at most as many are changed. The change goes on at the server if the command ends; \
`linger bulk list` shows it, and `linger bulk stop` ends it.

Examples:
  linger bulk requeue mail --reason http_503 --spread 10m
  linger bulk reschedule booking --from '2026-12-24 00:00' --shift 1d
  linger bulk revoke --all-topics --worker w-7 --reason 'its host is gone'
  linger bulk delete trial-end --state dead --dry-run

",
    calls!()
);

pub(super) const ADD: &str = concat!(
    "\
Without --id the command makes an id, so that the server recognises the repeats that follow a lost answer. Run it with --id \
where the command itself may be run again.

With --lines the arguments are [TOPIC] [@FILE|-]. A definition without an id gets one made of its content and of how \
often it came before, so that a second run adds nothing as long as the jobs are there. Lines that fail are reported with \
their numbers, and the others added. Lines are sent in batches, and at once when no other line is there yet, as behind `tail -f`.

A job without a trace context of its own gets that in TRACEPARENT and TRACESTATE.

Examples:
  linger add order-close '{\"order\":1001}' --delay 30m --id orders:1001:close
  linger add mail @message.json --at 2027-01-01T08:00:00+01:00
  date | linger add notes - --raw
  linger add --lines @jobs.jsonl

",
    calls!()
);

pub(super) const POP: &str = concat!(
    "\
A job that could not be printed is given back at once. With --finish a job is finished once it is printed and, if stdout \
is a pipe, once its reader has taken it; so `linger pop mail --max 10 --finish | head -1` finishes one job.

Examples:
  linger pop mail --wait 20s
  linger pop urgent mail --max 10 --finish >>jobs.jsonl

",
    calls!()
);

pub(super) const TOPIC_SET: &str = concat!(
    "\
The command reads the settings, changes some and writes all of them. If two change the same topic at the same time, the \
settings of one may be lost: change a topic from one place.

Examples:
  linger topic set mail --ttr 2m --retry 15s,3m
  linger topic set mail --unset retry
  linger topic set hooks --callback-url https://shop.example/hook

",
    calls!()
);

pub(super) const SCHEDULE_PUT: &str = concat!(
    "\
A put replaces the whole definition: what it leaves out gets its default. Pause, counts and the job of the last run stay. If \
the rule is the same, the next run stays too, and its job is the new one.

A pattern has the fields minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or JAN-DEC) and day of the week \
(0-7 or SUN-SAT); six fields begin with the second. If neither of the two days begins with *, one of them must match, and \
with a + before the day of the week both. L is the last day of the month, 15W the working day nearest to the 15th, MON#1 the \
first Monday. Names are @hourly, @daily, @weekly, @monthly and @yearly.

When clocks change, a pattern without * in minute and hour still runs once: right after a time that they leave out, or at the \
first of two equal times. One with * there goes by every minute that they show.

Examples:
  linger schedule put daily-report --cron '30 9 * * MON-FRI' \\
    --time-zone Europe/Berlin --topic report --body '{\"kind\":\"daily\"}'
  linger schedule put cleanup --every 15m --jitter 1m --topic cleanup
  linger schedule get daily-report --definition >daily-report.json
  linger schedule put daily-report @daily-report.json

",
    calls!()
);

pub(super) const TIMELINE: &str = concat!(
    "\
The first line counts the jobs: those that are delayed, how many of them are due outside of the span, and those that are \
due already and so in no step. Each further line is a step: when it begins, how many delayed jobs are due in it, and a bar. \
More than two steps in a row without a job share a line. Times are in the time zone of this machine, with their offset \
from UTC where it is not the present one.

Examples:
  linger timeline
  linger timeline payment-notify --span 24h
  linger timeline --span 365d --step 7d --json

",
    calls!()
);

pub(super) const TOP: &str = concat!(
    "\
On a terminal the figures are read again every --every, until you press q; h shows all keys. Elsewhere they are printed \
once: as one object with the answers of GET /version, GET /stats (null if the token is for some topics only) and GET \
/topics, or with --text as the table of topics. At most 1,000 topics are read, the first ones of the order. While the \
server does not answer, the last figures stay, faint and with their age.

OLDEST is how long the oldest ready job has been due. POLLS counts the polls of all server processes that wait, or that ended \
in the last minute; it is blank while that is not known. A `!` marks a topic whose callback fails, or that has ready jobs while \
no worker polls: none runs, or all are busy; linger topic show says which. IN/s, OUT/s and \
LATE p99 are of the last minute: jobs added, jobs finished, and how late 99 of 100 jobs were delivered at most. They are blank \
where nothing happened, and with a token for some topics. \"topics incomplete\" says that some of them are missing or too low, \
because very many topics are busy. A narrow terminal leaves columns out.

Examples:
  linger top
  linger top --sort overdue --prefix payment-
  linger top --json | jq .stats.counts

Two more exit codes: 129 when the terminal is closed, as after SIGHUP; 131 after SIGQUIT.

",
    calls!()
);

pub(super) const PROFILE: &str = "\
Profiles are in ~/.config/linger/client.toml, or below XDG_CONFIG_HOME. --profile or LINGER_PROFILE names one for a \
command. The file contains no token: a profile names the file that has it, or the command that prints it.

Examples:
  linger profile set prod --url https://queue.internal --confirm true
  linger profile set prod --token-command 'pass show linger/prod'
  linger profile use prod
  linger profile set prod --ca /etc/ssl/queue.pem
  linger profile remove prod";

pub(super) const COMPLETIONS: &str = "\
Examples:
  linger completions bash >/etc/bash_completion.d/linger
  linger completions zsh >~/.zfunc/_linger";

pub(super) const HEALTH: &str = "\
Asks the server of --url, else of LINGER_URL, else of the profile, else the one of this machine. With --local it always asks \
that one: at the configured address (server.listen), over loopback if that is 0.0.0.0 or [::], with TLS if tls.certificate is \
set. The command accepts any certificate, because it sends no secret. Every failure is exit code 1, since Docker reserves 2.

Examples:
  linger health --url https://queue.internal
  HEALTHCHECK CMD [\"linger\", \"health\", \"--local\"]";

pub(super) const VERIFY: &str = "\
The embedded engine's directory must not be in use: stop the server, or verify a backup of it. Redis may be in use. \
The command changes nothing.

Examples:
  linger verify --data-dir /var/lib/linger
  linger backup FILE && linger verify FILE";

pub(super) const STORE_ACCEPT: &str = "\
Linger refuses all calls about the jobs of a Redis, or of a server of a Cluster, that was emptied or replaced. If the data \
can come back, bring it back instead: the servers go on by themselves. This command makes what Redis stores now their \
store; jobs that are there stay. The servers that run use it within a second.

Example:
  linger store accept --redis-url redis://10.0.0.5:6379";

pub(super) const BACKUP: &str = "\
The copy contains every change that was acknowledged before the command began. FILE must not exist. It appears only when \
the copy is complete and on disk, and only its owner can read it. For Redis use its own backups.

With - the copy is written to stdout. Check the exit code: a truncated copy is no backup. It is made in a file first, \
in $TMPDIR if that is set, otherwise in the data directory.

Examples:
  linger backup jobs.backup --data-dir /var/lib/linger
  docker exec NAME linger backup - >jobs.backup";

pub(super) const RESTORE: &str = "\
FILE was made by `linger backup`. It is verified first, and a damaged one is not restored. The server must not be running. \
Jobs that were finished after the backup are in it, and are delivered again.

With - the backup is read from stdin into the data directory, verified there, and removed again if it is damaged.

Examples:
  linger restore jobs.backup --data-dir /var/lib/linger
  docker run -i --rm -v linger:/data linger:0.1.0 restore - <jobs.backup";

pub(super) const ACCEPT_CLOCK: &str = "\
The engine never acts on a moment before the latest one that it has seen. If the machine's clock was once far ahead, the \
server is not ready until the clock is there again. This command makes the store go by the present clock: jobs with a delay, \
reservations and dead letters keep their remaining time; jobs with a moment follow the machine's clock in any case. The \
server must not be running.

Example:
  linger store accept-clock --data-dir /var/lib/linger";

pub(super) const TOKEN_NEW: &str = "\
The token is printed once and stored nowhere. Add its entry, which contains only a hash, to the file that \
auth.tokens_file names, and send the server SIGHUP.

Examples:
  linger token new --name shop --scope add --topic 'orders-*' >> tokens.toml
  linger token new --name worker-1 --scope work,read --append tokens.toml
  TOKEN=$(linger token new --name ops --scope admin --append tokens.toml)";

pub(super) const TOKEN_HASH: &str = "\
For clients of lmstfy, which keep their tokens: the entry contains only a hash. Add it to the file that auth.tokens_file names, \
and send the server SIGHUP. The prefix of a pool (default:) does not belong to the token.

Examples:
  linger token hash --name ops --scope admin --append tokens.toml < token
  linger token hash --name orders --scope work >> tokens.toml < token";

pub(super) const EXPORT: &str = "\
FILE must not exist. It appears only when it is complete, and only its owner may read it: it has everything that is stored, \
also the receipts of reserved jobs, the headers of callbacks and the secrets of topics. Of the embedded engine it shows \
one moment; of Redis every job that is there throughout. The exit code is 1 if records are broken; they are named, and the \
export has all others.

Examples:
  linger export jobs.export
  linger export - | gzip >jobs.export.gz
  linger export jobs.export --redis-url redis://127.0.0.1:6379";

pub(super) const IMPORT: &str = "\
The embedded engine's directory must not be in use: stop the server. Redis may be in use. FILE is a regular file, which is checked to its end \
before anything is imported. Jobs that are there already stay, so the command can be repeated if it was interrupted, \
before workers take jobs. The exit code is 1 if other jobs have their ids; they are named, and stay.

Examples:
  linger import jobs.export --data-dir /var/lib/linger
  linger import jobs.export --redis-url redis://127.0.0.1:6379";

pub(super) const MOVE: &str = "\
The flags, the environment and the configuration describe the old store, NEW.toml alone the new one. It must be empty, and \
no server starts on it until the move is complete. Each run copies what differs and deletes what is gone, beside the servers \
of the old store; the more often it runs, the less is left for the end. With --last, once the servers are stopped, it closes the old \
store, copies the rest, compares everything and opens the new one. A run that failed or was killed is completed by the next. \
Until the move is complete, --abandon opens the old store again, and the new one is never served.

Examples:
  linger move --to new.toml --data-dir /var/lib/linger
  linger move --to new.toml --data-dir /var/lib/linger --last
  linger serve --config new.toml
  linger move --abandon --data-dir /var/lib/linger";

pub(super) const BENCH: &str = "\
Without --url it measures a server of its own, a new one for each scenario: this program, on a free loopback port, with a \
temporary data directory below --data-dir or the system's directory for temporary files. --config, --store and --redis-url are \
passed on to it. The system may keep temporary files in memory, where syncs cost nothing.

With --url it measures a running server over plain HTTP. It uses topics and schedules of its own (bench-...), which it deletes \
at the end; a token must allow add, work, read and admin for them, and with look and --viewers read for all topics. Bulk operations of look \
stay in the server's list. For callbacks the server must run on this machine, and its \
callbacks.allow_networks must allow loopback.

CPU and memory are those of the Linger process, or with --url of every --pid, and are measured on Linux only. CPU us/job is microseconds of \
processor time, of look for each call. A job is lost if it was accepted and never delivered, doubled if it was delivered twice within one \
reservation, and early if it was delivered before its add plus its delay, or before the moment of its schedule. The exit code is 1 if there was such a job.

Compare only figures of the same machine, and state the pattern of delays with them.

Examples:
  linger bench                        all but the last three, short form
  linger bench throughput --batch 100 --jobs 200000
  linger bench lateness --rate 4000 --seconds 60 --delay random
  linger bench lateness --viewers 20  beside dashboards
  linger bench parked --connections 10000
  linger bench look --jobs 10000000 --body-bytes 2
  linger bench callbacks --data-dir /var/tmp
  linger bench schedules --jobs 1000 --schedules 10000
  linger bench --redis-url redis://127.0.0.1:6379
  linger bench burst --url http://127.0.0.1:9277 --pid \"$(pidof linger)\"";

pub(super) const WORK: &str = "\
The command gets the job's body on stdin, and what else is known of the job in variables: LINGER_JOB_ID, _TOPIC, _ATTEMPT, \
_MAX_ATTEMPTS, _CREATED_AT, _DUE_AT, _LATE (seconds), _RECEIPT and _URL, TRACEPARENT and TRACESTATE. The exit code decides \
the job's outcome:
  0             finished
  65            buried: it can never be done (--bury-on)
  126, 127      released, and the worker ends: no command can be run here
  any other     released; so is it after a signal or --timeout

The first SIGTERM or SIGINT ends the worker in order: running commands have --drain. The second asks them to end now, the \
third kills them. SIGHUP reads the token again. docs/work.md has the whole contract.

Exit codes: 0 ended in order; 1 the command cannot be run; 2 wrong usage; 4 the topic has a callback; 5 the token does not \
allow it; 6 the server did not answer.

Examples:
  linger work order-close -- ./close-order
  linger work mail sms -j 8 --timeout 2m -- python3 send.py
  linger work reports --exec 'jq -r .path | xargs ./render' --until-empty";
