//! Heartbeats of many jobs, as a server sees them whose answers the test writes. `linger work` has the same cases.

use std::ops::Range;

use serde_json::{Value, json};

use super::{Language, Program, events, foreign::job, in_each_language};
use crate::examples::scripted::{Request, ScriptedServer};

in_each_language! {
    one_call_carries_the_heartbeats_of_fifty_jobs,
    heartbeats_go_alone_where_the_server_takes_no_batch,
}

/// How many jobs the worker has.
pub const MANY: usize = 50;
pub const FEW: usize = 3;
/// The TTR of jobs that heartbeats keep, in seconds. After the wait for one, which is a third of it, there is time for a machine or
/// a server that stands still for two seconds, and for the second after that in which the server refuses calls.
pub const LASTING: u32 = 6;
/// The job that is lost.
pub const LOST: &str = "7";

/// A job that the server hands out, and shows after a touch.
fn reserved(id: &str) -> Value {
    let until = "2026-11-21T05:41:00.000Z";
    let more = json!({ "state": "reserved", "body": "wait", "ttr": LASTING, "attempts": 1, "attempt": 1, "late": 0 });
    let mut job = job(id, more);
    job["receipt"] = json!(format!("receipt-{id}"));
    job["reserved_until"] = json!(until);
    job
}

fn problem(status: u16, code: &str) -> Value {
    json!({ "type": "about:blank", "title": "t", "status": status, "code": code, "detail": "d" })
}

/// Answers a pop with jobs, whose ids are these numbers.
pub fn hand_out(pop: Request, ids: Range<usize>) {
    assert_eq!(pop.line, "POST /batch/pop");
    let jobs: Vec<_> = ids.map(|id| reserved(&id.to_string())).collect();
    pop.respond(200, &json!({ "jobs": jobs }).to_string());
}

/// Answers a heartbeat for many jobs, of which one is lost. Returns their ids.
fn answer_many(touch: Request) -> Vec<Value> {
    assert_eq!(touch.line, "POST /batch/touch");
    let body: Value = serde_json::from_str(&touch.body).expect("is JSON");
    let jobs = body["jobs"].as_array().expect("a list");
    let ids: Vec<_> = jobs.iter().map(|job| job["id"].clone()).collect();
    let result = |id: &Value| match id == LOST {
        true => json!({ "status": 409, "id": id, "problem": problem(409, "lease_lost") }),
        false => json!({ "status": 200, "id": id }),
    };
    let results: Vec<_> = ids.iter().map(result).collect();
    touch.respond(200, &json!({ "results": results }).to_string());
    ids
}

/// Answers a heartbeat for one job. Returns its number.
fn answer_one(touch: Request) -> usize {
    let id = touch.line.strip_prefix("POST /jobs/").and_then(|line| line.strip_suffix("/touch"));
    let id = id.unwrap_or_else(|| panic!("{}", touch.line)).to_owned();
    touch.respond(200, &reserved(&id).to_string());
    id.parse().expect("a number")
}

/// Hands out fifty jobs, half of them a heartbeat later, and loses one of them. Returns once a heartbeat has all others.
pub fn answer_heartbeats_of_fifty(server: &ScriptedServer) {
    hand_out(server.next(), 0..MANY / 2);
    let (mut poll, mut polls) = (Some(server.next()), Vec::new());
    for _ in 0..2 * MANY {
        let request = server.next();
        match request.line.as_str() {
            // For the place of the job that was lost.
            "POST /batch/pop" => polls.push(request),
            "POST /batch/touch" => {
                let ids = answer_many(request);
                if ids.len() == MANY - 1 {
                    return assert!(!ids.contains(&json!(LOST)), "{ids:?}");
                }
                if ids.contains(&json!(LOST)) {
                    assert_eq!(ids.len(), MANY / 2, "of those that arrived together");
                    // Once, also if the worker did not wait for this answer.
                    poll.take().into_iter().for_each(|poll| hand_out(poll, MANY / 2..MANY));
                }
            }
            // Those that arrive late ask for their first heartbeat one by one.
            _ => drop(answer_one(request)),
        }
    }
    panic!("no heartbeat has all jobs");
}

/// Hands out some jobs and refuses the call for all of them, as a server that does not know it. Returns once each job has
/// had two heartbeats of its own.
pub fn answer_single_heartbeats(server: &ScriptedServer) {
    hand_out(server.next(), 0..FEW);
    let (mut touches, mut refused) = ([0; FEW], 0);
    while touches.iter().any(|number| *number < 2) {
        let touch = server.next();
        // More than once if a refusal comes too late for the worker.
        if touch.line == "POST /batch/touch" && touches == [0; FEW] {
            touch.respond(404, &problem(404, "not_found").to_string());
            refused += 1;
            continue;
        }
        touches[answer_one(touch)] += 1;
    }
    assert!(refused > 0, "no heartbeat was for all of them");
}

fn one_call_carries_the_heartbeats_of_fifty_jobs(language: Language) {
    let server = ScriptedServer::new();
    let worker = Program::start(language, &server.url(), &["worker", &MANY.to_string()]);
    answer_heartbeats_of_fifty(&server);
    worker.wait_for(&json!({ "told": LOST }));
    assert_eq!(events(&worker.lines()), [format!("lost {LOST}")], "the others live");
}

fn heartbeats_go_alone_where_the_server_takes_no_batch(language: Language) {
    let server = ScriptedServer::new();
    let worker = Program::start(language, &server.url(), &["worker", &FEW.to_string()]);
    answer_single_heartbeats(&server);
    assert_eq!(events(&worker.lines()), [""; 0]);
}
