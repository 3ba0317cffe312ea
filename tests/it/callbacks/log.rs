//! Turns the log of the receiver into a history for the checker.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use crate::{
    checker::{Action, Event, History, Outcome},
    harness::receiver::{Answer, Call},
};

/// How much longer than its timeout the reservation for a call lasts, as documented.
const SETTLING: Duration = Duration::from_secs(10);
/// How much the clocks of the servers and of the tests may differ.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(100);

/// What holds for all calls of a load.
pub struct Rules {
    pub timeout: Duration,
    /// The delay of the next attempt after a failed one.
    pub step: Duration,
    pub signed_topic: &'static str,
    pub key: Vec<u8>,
}

/// Records the calls in the history. Returns what is wrong with calls by themselves.
pub fn record_calls(history: &History, calls: &[Call], rules: &Rules) -> Vec<String> {
    let mut problems = Vec::new();
    let mut jobs: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    let mut message_ids: HashMap<&str, &str> = HashMap::new();
    for call in calls {
        jobs.entry(call.job()).or_default().push(call);
        let first_job = message_ids.entry(call.header("webhook-id")).or_insert(call.job());
        if *first_job != call.job() {
            problems.push(format!("{} has the message id of {first_job}", call.job()));
        }
        problems.extend(problem_of(call, rules).map(|problem| format!("{}: {problem}", call.job())));
    }
    for (job, mut calls) in jobs {
        calls.sort_by_key(|call| call.arrived);
        if calls.iter().any(|call| call.header("webhook-id") != calls[0].header("webhook-id")) {
            problems.push(format!("{job} had several message ids"));
        }
        for (index, call) in calls.iter().enumerate() {
            let mut others = calls[index + 1..].iter().filter(|other| other.receipt() == call.receipt());
            match (others.next(), others.next()) {
                (None, _) => record(history, call, rules),
                // A call whose connection ended before an answer is sent once more, as the same attempt.
                (Some(_), None) if call.answer == Answer::Close => {}
                _ => problems.push(format!("{job}: attempt {} was sent too often", call.attempt())),
            }
        }
    }
    problems
}

/// What is wrong with a call, whatever other calls there were.
fn problem_of(call: &Call, rules: &Rules) -> Option<String> {
    if call.body != format!(r#"{{"of":"{}"}}"#, call.job()).as_bytes() {
        return Some(format!("the body is {:?}", String::from_utf8_lossy(&call.body)));
    }
    let message_id = call.header("webhook-id").strip_prefix("msg_").unwrap_or_default();
    if message_id.len() != 32 || !message_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(format!("the message id is {:?}", call.header("webhook-id")));
    }
    if call.method != "POST" || !(call.target.starts_with("/hooks") || call.target == "/own") {
        return Some(format!("the request was {} {}", call.method, call.target));
    }
    let signed = call.header("linger-topic") == rules.signed_topic;
    match call.header("webhook-signature") {
        "" if signed => Some("there is no signature".to_owned()),
        signature if !signed && !signature.is_empty() => Some(format!("it is signed: {signature}")),
        signature if signed && !call.is_signed_by(&rules.key) => {
            Some(format!("a wrong signature: {signature}"))
        }
        _ => None,
    }
}

/// Records the delivery and what the answer asks for.
fn record(history: &History, call: &Call, rules: &Rules) {
    let push = |from: Instant, to: Instant, action, outcome| {
        let (sent, answered) = (history.time_of(from), history.time_of(to));
        history.push(Event { job: call.job().to_owned(), sent, answered, action, outcome });
    };
    let receipt = || call.receipt().to_owned();
    // A call begins only while its timeout is left, and a job is reserved only after it is due.
    let earliest = [call.began.checked_sub(SETTLING), call.due.checked_sub(CLOCK_TOLERANCE)];
    let reserved = earliest.into_iter().flatten().max().unwrap_or(call.began);
    let deliver = Action::Deliver {
        receipt: receipt(),
        revision: 0,
        attempt: call.attempt(),
        ttr: rules.timeout + SETTLING,
    };
    push(reserved.min(call.arrived), call.arrived, deliver, Outcome::Done);
    let failed = |from: Instant, delay: Duration| {
        push(from, from, Action::Fail { receipt: receipt(), delay, step: rules.step }, Outcome::Unknown);
    };
    if call.answer == Answer::Silence {
        return failed(call.began + rules.timeout, rules.step);
    }
    // Without this the answer was not written entirely, and the server can have understood nothing.
    let Some(answered) = call.answered else { return };
    let from = call.answering.unwrap_or(answered);
    // A machine that is busy may hold up the request or the answer until the server has given the call up.
    if from > call.began + rules.timeout {
        failed(call.began + rules.timeout, rules.step);
    }
    match call.answer {
        Answer::Status(200..300) | Answer::Body(200..300, _) | Answer::WhenOpen(200..300) => {
            push(from, answered, Action::Finish { receipt: receipt() }, Outcome::Unknown);
        }
        Answer::Status(410) | Answer::Body(410, _) | Answer::NoRetry => {
            push(from, answered, Action::Bury { receipt: receipt() }, Outcome::Unknown);
        }
        Answer::Hold(ttr) => {
            push(from, answered, Action::Touch { receipt: receipt(), ttr }, Outcome::Unknown)
        }
        Answer::RetryIn(delay) => failed(from, delay),
        Answer::Status(_) | Answer::Body(..) | Answer::WhenOpen(_) | Answer::Close => {
            failed(from, rules.step)
        }
        Answer::Silence => unreachable!("handled above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::{Add, Law, check};

    const STEP: Duration = Duration::from_millis(50);

    /// A log in which each call is 100 ms after the one before.
    struct Log {
        history: History,
        calls: Vec<Call>,
    }

    impl Log {
        /// The log of a load with one job, which was due at once.
        fn new() -> Self {
            let history = History::new();
            let add = Action::Add(Add { delay: Duration::ZERO, max_attempts: 3, ..Add::default() });
            history.record("j", history.sent_now(), add, Outcome::Done);
            Self { history, calls: Vec::new() }
        }

        fn call(mut self, attempt: u32, answer: Answer) -> Self {
            let arrived = super::super::now() + Duration::from_millis(100) * self.calls.len() as u32;
            let head = [
                ("linger-topic", "hooks".to_owned()),
                ("linger-job", "j".to_owned()),
                ("linger-attempt", attempt.to_string()),
                ("linger-receipt", format!("r{attempt}")),
                ("webhook-id", "msg_5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c".to_owned()),
                ("webhook-timestamp", "1795327800".to_owned()),
                // The signature of this body by the key `key`.
                ("webhook-signature", "v1,AAAA v1,aHNkrvICxe0SwsTUc38sl5LO1BsQLyZKJwSA/wqIbh4=".to_owned()),
            ];
            let headers =
                head.map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
            self.calls.push(Call {
                port: 0,
                method: "POST".to_owned(),
                target: "/hooks".to_owned(),
                headers: headers.map(|header: (axum::http::HeaderName, _)| header).into_iter().collect(),
                body: br#"{"of":"j"}"#.to_vec(),
                arrived,
                began: arrived,
                due: arrived,
                answer,
                answering: Some(arrived),
                answered: Some(arrived + Duration::from_millis(1)),
            });
            self
        }

        fn with(mut self, change: impl FnOnce(&mut Call)) -> Self {
            change(self.calls.last_mut().expect("a call"));
            self
        }

        /// The faults of the calls, and the laws that they violate.
        fn judge(&self) -> (Vec<String>, Vec<Law>) {
            let rules = Rules {
                timeout: Duration::from_secs(1),
                step: STEP,
                signed_topic: "hooks",
                key: b"key".to_vec(),
            };
            let problems = record_calls(&self.history, &self.calls, &rules);
            let verdict = check(&self.history, None);
            (problems, verdict.violations.iter().map(|violation| violation.law).collect())
        }

        #[track_caller]
        fn assert_problem(&self, words: &str) {
            let (problems, _) = self.judge();
            assert!(problems.iter().any(|problem| problem.contains(words)), "{problems:?}");
        }
    }

    #[test]
    fn proper_calls_have_no_problems() {
        let none = (Vec::new(), Vec::new());
        assert_eq!(Log::new().call(1, Answer::Status(500)).call(2, Answer::Status(204)).judge(), none);
        // The connection had been used before, so the call was sent once more.
        assert_eq!(
            Log::new().call(1, Answer::Close).call(1, Answer::Close).call(2, Answer::Status(204)).judge(),
            none
        );
    }

    #[test]
    fn faults_of_single_calls_are_reported() {
        let call = || Log::new().call(1, Answer::Status(204));
        call().with(|call| call.body.push(b' ')).assert_problem("the body is");
        call().with(|call| call.target = "/redirected".to_owned()).assert_problem("/redirected");
        let set = |name: &'static str, value: &'static str| {
            call().with(|call| drop(call.headers.insert(name, value.parse().expect("a value"))))
        };
        set("webhook-timestamp", "1795327801").assert_problem("a wrong signature");
        set("webhook-signature", "").assert_problem("no signature");
        set("linger-topic", "other").assert_problem("it is signed");
        set("webhook-id", "j").assert_problem("the message id");
        let other = |call: &mut Call| {
            let value = "msg_00000000000000000000000000000000".parse().expect("a value");
            call.headers.insert("webhook-id", value);
        };
        Log::new()
            .call(1, Answer::Close)
            .call(2, Answer::Close)
            .with(other)
            .assert_problem("several message ids");
        Log::new().call(1, Answer::Status(500)).call(1, Answer::Status(204)).assert_problem("sent too often");
        let thrice = Log::new().call(1, Answer::Close).call(1, Answer::Close).call(1, Answer::Close);
        thrice.assert_problem("sent too often");
    }

    #[test]
    fn calls_that_break_a_law_are_reported() {
        let again = |answer| Log::new().call(1, answer).call(2, Answer::Status(204)).judge().1;
        // The reservation lasts until the answer or for the timeout and ten seconds, and the step follows.
        assert_eq!(again(Answer::Silence), [Law::NeverEarly, Law::OneHolder]);
        assert_eq!(again(Answer::RetryIn(Duration::from_secs(1))), [Law::NeverEarly]);
        assert_eq!(again(Answer::Hold(Duration::from_secs(9))), [Law::OneHolder]);
        assert_eq!(again(Answer::Status(503)), []);
    }
}
