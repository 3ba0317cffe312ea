//! Names of other queues and schedulers: what each is called here, or why Linger has nothing like it.

/// Names of one thing in other systems, without case and separators.
type Names = &'static [&'static str];

/// What is to be said about a name of another system.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The name here, and what else its user should know.
    Called(&'static str, &'static str),
    /// Linger has nothing like it, for this reason.
    Missing(&'static str),
}

/// Names, and what they are called here: the first that the object or call knows.
const CALLED: &[(Names, Names, &str)] = &[
    (&["payload", "data", "messagebody", "args", "arguments", "content", "value", "params"], &["body"], ""),
    (&["message"], &["body", "reason"], ""),
    (
        &[
            "queue",
            "queues",
            "queuename",
            "queueurl",
            "channel",
            "tube",
            "stream",
            "routingkey",
            "exchange",
            "jobtype",
            "tasktype",
        ],
        &["topic", "topics"],
        "",
    ),
    (
        &[
            "runat",
            "eta",
            "scheduletime",
            "scheduledat",
            "scheduledfor",
            "scheduled",
            "executeat",
            "startat",
            "startafter",
            "due",
            "dueat",
            "deliverat",
            "notbefore",
            "processat",
            "visibleat",
            "availableat",
            "when",
        ],
        &["at"],
        "",
    ),
    (
        &[
            "delayseconds",
            "delaysec",
            "delaysecs",
            "countdown",
            "deliverafter",
            "xdelay",
            "wait",
            "in",
            "after",
            "defer",
            "deferby",
        ],
        &["delay"],
        "",
    ),
    (&["delayms", "delaymillis", "delaymilliseconds"], &["delay"], ", whose numbers are seconds"),
    (
        &[
            "retries",
            "maxretries",
            "retrycount",
            "retrylimit",
            "attempts",
            "tries",
            "maxtries",
            "maxreceivecount",
            "maxdeliver",
            "maxdeliveries",
            "deliverylimit",
        ],
        &["max_attempts"],
        ", which counts the first attempt as well",
    ),
    (&["timeout", "waittimeseconds", "waittime", "block", "polltimeout", "longpoll"], &["wait", "ttr"], ""),
    (
        &[
            "visibilitytimeout",
            "visibility",
            "timeoutseconds",
            "lease",
            "leasetime",
            "leaseseconds",
            "leaseduration",
            "lockduration",
            "ackwait",
            "ackdeadline",
            "ackdeadlineseconds",
            "reservefor",
            "reservationtime",
            "timetorun",
            "dispatchdeadline",
            "maxruntime",
            "expireinseconds",
        ],
        &["ttr", "delay"],
        "",
    ),
    (
        &["backoff", "retrydelay", "retrydelays", "retrypolicy", "retrybackoff", "retryin", "retryafter"],
        &["retry", "delay"],
        "",
    ),
    (
        &[
            "messageid",
            "jobid",
            "jid",
            "uuid",
            "key",
            "dedupid",
            "deduplicationid",
            "messagededuplicationid",
            "uniquekey",
            "taskname",
            "taskid",
            "idempotencykey",
            "jobkey",
            "singletonkey",
        ],
        &["id"],
        "",
    ),
    (
        &["url", "httprequest", "httptarget", "webhook", "webhookurl", "endpoint", "callbackurl"],
        &["callback"],
        ", an object with a url",
    ),
    (
        &[
            "receipthandle",
            "handle",
            "token",
            "locktoken",
            "deliverytag",
            "ackid",
            "leaseid",
            "reservationid",
        ],
        &["receipt"],
        "",
    ),
    (&["error", "errormessage", "failure", "exception", "comment", "note", "cause", "why"], &["reason"], ""),
    (&["progress", "details", "heartbeatdetails"], &["note"], ""),
    (
        &["maxnumberofmessages", "maxmessages", "count", "limit", "batchsize", "n", "size", "amount"],
        &["max", "limit"],
        "",
    ),
    (&["consumer", "consumerid", "clientid", "workerid", "workername", "hostname"], &["worker"], ""),
    (&["nexttoken", "pagetoken", "page", "offset", "after", "marker", "nextcursor"], &["cursor"], ""),
    (&["since", "start", "begin", "starttime", "startdate", "startat", "startsat"], &["from", "start"], ""),
    (&["until", "end", "endtime", "before", "enddate", "endsat"], &["to", "end"], ""),
    (&["pattern", "crontab", "cronexpression", "expression", "schedule"], &["cron"], ""),
    (&["interval", "period", "frequency", "repeat", "repeatevery"], &["every"], ""),
    (&["tz", "zone"], &["time_zone"], ""),
    (&["concurrencypolicy", "concurrency", "allowoverlap", "overlappolicy"], &["overlap"], ""),
    (&["misfire", "misfirepolicy", "catchup", "backfill"], &["missed"], ""),
    (&["startingdeadlineseconds", "catchupwindow", "misfiregracetime"], &["missed_within"], ""),
    (&["splay", "randomdelay", "randomdelaysec"], &["jitter"], ""),
    (&["task", "message", "template", "payload", "args", "body"], &["job"], ""),
    (&["status"], &["state"], ""),
    (
        &["upsert", "overwrite", "override", "replace", "jobkeymode", "onconflict"],
        &["if_exists"],
        ", which is \"keep\" or \"replace\"",
    ),
    (&["version", "sequence", "generation", "etag"], &["revision"], ", a whole number"),
    (
        &[
            "deduplicationwindow",
            "dedupwindow",
            "duplicatewindow",
            "duplicatedetectionhistorytimewindow",
            "uniquefor",
            "uniquettl",
            "idempotencywindow",
        ],
        &["dedup"],
        "",
    ),
    (
        &[
            "ttl",
            "timetolive",
            "expires",
            "expiry",
            "expiration",
            "expiresat",
            "expiresin",
            "expirein",
            "expireat",
            "messagettl",
            "validuntil",
        ],
        &["expire"],
        ", after which the job is not delivered any more (ttr is how long a worker has it)",
    ),
];

/// Names of what Linger does not have, a field of the objects that would have it, and the reason.
const MISSING: &[(Names, &str, &str)] = &[
    (
        &["retention", "retentionperiod", "messageretentionperiod", "retentionseconds"],
        "max_attempts",
        "a job stays until it is finished or deleted, or until its expire",
    ),
    (
        &["priority", "prio", "pri", "weight", "urgency"],
        "max_attempts",
        "jobs have no priority; use one topic for each urgency, and pop the most urgent first",
    ),
    (
        &["cron", "repeat", "recurring", "recurrence", "every", "schedule", "interval", "period", "rrule"],
        "max_attempts",
        "a job is done once; PUT /schedules/{name} makes a schedule, which adds a job for each run",
    ),
    (
        &["headers", "attributes", "messageattributes", "metadata", "meta", "tags", "labels", "properties"],
        "max_attempts",
        "a job has no attributes of your own; put them into its body",
    ),
    (
        &["group", "groupid", "messagegroupid", "partition", "partitionkey", "orderingkey"],
        "max_attempts",
        "a topic has no groups or partitions; use several topics",
    ),
    (
        &[
            "deadletterqueue",
            "deadlettertopic",
            "deadletterexchange",
            "dlq",
            "redrivepolicy",
            "deadletterpolicy",
        ],
        "max_attempts",
        "dead letters stay in their topic; GET /topics/{topic}/dead lists them",
    ),
    (&["result", "returnvalue", "output"], "receipt", "a finished job is gone, and no result is kept"),
];

/// What `name`, without case and separators, means for an object or a call that knows the names `known`.
pub fn meaning(name: &str, known: &[&'static str]) -> Option<Meaning> {
    let called = CALLED.iter().filter(|(names, ..)| names.contains(&name));
    let mut called = called.filter_map(|(_, here, note)| {
        let here = here.iter().find(|here| known.contains(here))?;
        Some(Meaning::Called(here, note))
    });
    let missing = || {
        let found = MISSING.iter().find(|(names, beside, _)| names.contains(&name) && known.contains(beside));
        found.map(|(.., why)| Meaning::Missing(why))
    };
    called.next().or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::handlers::operations::OPENAPI;

    #[test]
    fn every_name_here_is_one_of_the_contract() {
        let here =
            CALLED.iter().flat_map(|(_, here, _)| here.iter()).chain(MISSING.iter().map(|(_, at, _)| at));
        for name in here {
            let is_field = OPENAPI.contains(&format!("        {name}:"));
            assert!(is_field || OPENAPI.contains(&format!("      name: {name}\n")), "{name}");
        }
    }

    #[test]
    fn every_foreign_name_is_written_without_case_and_separators() {
        let names = CALLED.iter().map(|(names, ..)| names).chain(MISSING.iter().map(|(names, ..)| names));
        for name in names.flat_map(|names| names.iter()) {
            assert!(name.bytes().all(|letter| letter.is_ascii_lowercase()), "{name}");
        }
    }
}
