//! What the servers contain once a load has come to rest.

use std::collections::HashSet;

use hyper::Method;
use serde_json::Value;

use super::caller::Caller;
use crate::{
    checker::{FinalJob, FinalState, History},
    harness::wait::StepLimit,
};

/// The topics' counts of jobs that are not dead, and of dead ones.
pub async fn counts(caller: &mut Caller, topics: &[&str]) -> (u64, u64) {
    let (mut live, mut dead) = (0, 0);
    for topic in topics {
        let topic = get(caller, &format!("/topics/{topic}")).await;
        let count = |state: &str| topic["counts"][state].as_u64().unwrap_or_default();
        live += count("delayed") + count("ready") + count("reserved");
        dead += count("dead");
    }
    (live, dead)
}

/// Sends a GET until it is answered. Returns the JSON, or `null` for 404.
async fn get(caller: &mut Caller, path: &str) -> Value {
    loop {
        match caller.call(Method::GET, path, None).await {
            Some(answer) if answer.status == 200 => return answer.json(),
            Some(answer) if answer.status == 404 => return Value::Null,
            Some(answer) => panic!("{path}: {answer:?}"),
            None => {}
        }
    }
}

/// Reads every job that exists or should exist.
pub async fn read_final_state(caller: &mut Caller, topics: &[&str], history: &History) -> FinalState {
    let mut final_state = FinalState { counts: counts(caller, topics).await, ..FinalState::default() };
    for topic in topics {
        let (mut cursor, mut step_limit) = (String::new(), StepLimit::new());
        loop {
            step_limit.step();
            let page = get(caller, &format!("/topics/{topic}/dead?limit=100{cursor}")).await;
            let jobs = page["jobs"].as_array().into_iter().flatten();
            final_state.dead.extend(jobs.map(|job| job["id"].as_str().expect("an id").to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
    }
    // Jobs that were removed for certain are only read if the counts show that jobs are left.
    let (live, _) = final_state.counts;
    let gone: HashSet<String> = {
        let events = history.events();
        let gone = events.iter().filter(|event| event.action.removes() && event.done() && live == 0);
        gone.map(|event| event.job.clone()).filter(|job| !final_state.dead.contains(job)).collect()
    };
    let names: HashSet<String> = history.events().iter().map(|event| event.job.clone()).collect();
    for name in names.difference(&gone) {
        let job = get(caller, &format!("/jobs/{name}")).await;
        if let Some(state) = job["state"].as_str() {
            let attempts = job["attempts"].as_u64().and_then(|attempts| u32::try_from(attempts).ok());
            let final_job = FinalJob { dead: state == "dead", attempts: attempts.expect("attempts") };
            final_state.jobs.insert(name.clone(), final_job);
        }
    }
    final_state
}
