//! What to say of a path that is not part of the API: which one was probably meant.
//!
//! A test in `routes` checks that every path named here exists.

use std::borrow::Cow;

const UNKNOWN: &str = "this path is not part of the API";
const ADD: &str = "a job is added by POST /jobs";
const POP: &str = "a job is popped by POST /topics/{topic}/pop, jobs of several topics by POST /batch/pop";
const HEALTH: &str = "the health of the server is at /livez and /readyz";
const SCHEDULES: &str = "schedules of recurring jobs are at /schedules and /schedules/{name}";
const DEAD: &str =
    "dead letters are at /topics/{topic}/dead, and the reasons of all topics at GET /dead/reasons";

/// The detail of the error for `path`. Without a dashboard, none is named.
pub fn detail(path: &str, has_dashboard: bool) -> Cow<'static, str> {
    if path.contains("//") {
        return format!("{UNKNOWN}; write it with single slashes").into();
    }
    if path.len() > 1 && path.ends_with('/') {
        return format!("{UNKNOWN}; write it without the slash at its end").into();
    }
    let lower = path.to_ascii_lowercase();
    let segments: Vec<&str> = lower.split('/').skip(1).collect();
    match hint(&segments, has_dashboard) {
        Some(hint) => format!("{UNKNOWN}; {hint}").into(),
        None => format!("{UNKNOWN}; see /openapi.yaml").into(),
    }
}

/// What is meant by a method that a path does not answer.
pub fn method_hint(pattern: &str) -> &'static str {
    match pattern {
        "/topics" => "; a topic exists once it has a job, and PUT /topics/{topic} sets its settings",
        "/schedules" => "; a schedule is made by PUT /schedules/{name}",
        _ => "",
    }
}

fn hint(segments: &[&str], has_dashboard: bool) -> Option<&'static str> {
    Some(match segments {
        [""] if has_dashboard => "the dashboard is at /ui/, the contract at /openapi.yaml",
        ["dashboard" | "admin" | "console" | "index.html"] if has_dashboard => "the dashboard is at /ui/",
        ["health" | "healthz" | "ping" | "status" | "live" | "liveness" | "ready" | "readiness"] => HEALTH,
        ["docs" | "swagger" | "swagger-ui" | "swagger.json" | "redoc" | "api-docs" | "openapi"] => {
            "the contract is at /openapi.yaml and /openapi.json"
        }
        ["info" | "about"] => "the versions and limits of the server are at /version",
        ["api" | "v1" | "v2" | "rest", ..] => "paths begin with the resource, as in /jobs and /topics",
        ["push" | "publish" | "enqueue" | "add" | "send"] => ADD,
        ["pop" | "reserve" | "consume" | "receive" | "fetch" | "poll"] => POP,
        ["dead" | "dlq" | "failed"] => DEAD,
        ["batch", ..] => {
            "batches go to POST /batch/jobs, /batch/pop, /batch/finish, /batch/release, /batch/touch, /batch/bury and /batch/delete"
        }
        ["queues" | "queue" | "topic" | "tubes" | "channels", ..] => {
            "topics are at /topics and /topics/{topic}"
        }
        ["job" | "tasks" | "task" | "messages" | "message", ..] => "jobs are at /jobs and /jobs/{id}",
        ["schedule" | "cron" | "crons" | "crontab" | "recurring", ..] => SCHEDULES,
        ["schedules", _, "trigger" | "fire" | "execute"] => {
            "a schedule runs out of turn by POST /schedules/{name}/run"
        }
        ["topics", _, step, ..] => return topic_hint(step),
        ["jobs", _, step] => return job_hint(step),
        [
            "jobs" | "topics" | "schedules" | "bulk" | "timeline" | "stats" | "whoami" | "version"
            | "metrics" | "ui",
        ] => "paths are in lower case",
        _ => return None,
    })
}

fn topic_hint(step: &str) -> Option<&'static str> {
    Some(match step {
        "jobs" | "messages" | "tasks" => "jobs are listed by GET /jobs?topic=, and added by POST /jobs",
        "push" | "publish" | "enqueue" | "add" | "send" => ADD,
        "reserve" | "consume" | "receive" | "fetch" | "next" => POP,
        "stats" | "info" | "status" | "count" => "the figures of a topic are at GET /topics/{topic}",
        "settings" | "config" => "the settings of a topic are set by PUT /topics/{topic}",
        "purge" | "clear" | "empty" => "a topic is purged by DELETE /topics/{topic}?confirm=",
        "stop" => "a topic is paused by POST /topics/{topic}/pause",
        "start" | "unpause" => "a topic is resumed by POST /topics/{topic}/resume",
        "dlq" | "failed" => DEAD,
        _ => return None,
    })
}

fn job_hint(step: &str) -> Option<&'static str> {
    Some(match step {
        "ack" | "done" | "complete" | "success" | "succeed" | "finished" => {
            "a job is finished by POST /jobs/{id}/finish"
        }
        "nack" | "fail" | "retry" | "reject" | "unlock" => "a job is given back by POST /jobs/{id}/release",
        "extend" | "renew" | "heartbeat" | "keepalive" => {
            "a reservation is extended by POST /jobs/{id}/touch"
        }
        "kill" | "discard" | "dead" => "a job becomes a dead letter by POST /jobs/{id}/bury",
        "kick" | "replay" | "redrive" => "a dead letter is requeued by POST /jobs/{id}/requeue",
        "cancel" | "delete" | "remove" => "a job is deleted by DELETE /jobs/{id}",
        "reschedule" | "update" | "snooze" => "a job is changed by PATCH /jobs/{id}",
        "status" | "state" | "history" => "a job is shown with its state and history by GET /jobs/{id}",
        _ => return None,
    })
}
