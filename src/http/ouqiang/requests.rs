//! The bodies of the dialect's calls. A refusal is a text of the old server, or one of ours where that had no limit.

use std::time::Duration;

use super::go_json;
use crate::{
    compat::{encoding, names},
    job::{Body, Delay, Due, JobId, Timestamp, Topic, Ttr},
};

/// A refusal: the message of the answer.
pub type Refusal = std::borrow::Cow<'static, str>;

const NOT_JSON: &str = "解析json失败";
const NO_ID: &str = "job id不能为空";
const NO_TOPIC_TO_PUSH: &str = "topic 不能为空";
const NO_TOPIC_TO_POP: &str = "topic不能为空";
const DELAY_OUT_OF_RANGE: &str = "delay 取值范围1 - (2^31 - 1)";
const TTR_OUT_OF_RANGE: &str = "ttr 取值范围1 - 86400";

/// Longest delay in seconds: one more than its message says.
const MAX_DELAY_S: i64 = 1 << 31;
const MAX_TTR_S: i64 = 86_400;

/// A job to add.
#[derive(Debug, PartialEq, Eq)]
pub struct PushRequest {
    pub topic: Topic,
    pub id: JobId,
    pub due: Due,
    pub ttr: Ttr,
    pub body: Body,
}

/// `/push`. A delay beyond the longest one of the queue is a moment, counted from `now`, unless the operator allows less than
/// that longest one: `max_delay` is for clients that send milliseconds.
pub fn push(body: &[u8], max_delay: Delay, now: Timestamp) -> Result<PushRequest, Refusal> {
    let [mut topic, mut id, mut payload] = [const { String::new() }; 3];
    let (mut delay, mut ttr) = (0, 0);
    let text = go_json::to_text(body);
    let is_read =
        go_json::read_object(&text, &["topic", "id", "delay", "ttr", "body"], |at, value| match at {
            0 => set(&mut topic, go_json::string(value)),
            1 => set(&mut id, go_json::string(value)),
            2 => set(&mut delay, go_json::integer(value)),
            3 => set(&mut ttr, go_json::integer(value)),
            _ => set(&mut payload, go_json::string(value)),
        });
    if !is_read {
        return Err(NOT_JSON.into());
    }
    let (id, topic, payload) = (id.trim(), topic.trim(), payload.trim());
    if id.is_empty() {
        return Err(NO_ID.into());
    }
    if topic.is_empty() {
        return Err(NO_TOPIC_TO_PUSH.into());
    }
    if !(1..=MAX_DELAY_S).contains(&delay) {
        return Err(DELAY_OUT_OF_RANGE.into());
    }
    if !(1..=MAX_TTR_S).contains(&ttr) {
        return Err(TTR_OUT_OF_RANGE.into());
    }
    let seconds = |seconds: i64| Duration::from_secs(seconds.unsigned_abs());
    Ok(PushRequest {
        topic: topic_of(topic)?,
        id: id_of(id)?,
        due: due_after(seconds(delay), max_delay, now)?,
        ttr: Ttr::new(seconds(ttr)).expect("the range is that of TTRs"),
        body: encoding::body_of(&payload.to_owned().into()),
    })
}

fn due_after(delay: Duration, max_delay: Delay, now: Timestamp) -> Result<Due, Refusal> {
    match Delay::new(delay) {
        Ok(delay) if delay <= max_delay => Ok(Due::After(delay)),
        Err(_) if max_delay == Delay::LONGEST => Ok(Due::At(now.after(delay))),
        Ok(_) | Err(_) => {
            let limit = max_delay.as_duration().as_secs();
            Err(format!("delay must be at most {limit} seconds (queue.max_delay)").into())
        }
    }
}

/// `/pop`: the topics, of which there is at least one. Only the white space around the whole list is removed, as there.
pub fn pop(body: &[u8]) -> Result<Vec<Topic>, Refusal> {
    let topics = single_string(body, "topic")?;
    let names = topics.trim().split(',').filter(|name| !name.is_empty());
    let topics: Vec<Topic> = names.map(topic_of).collect::<Result<_, _>>()?;
    // A list of commas alone waits there for jobs that no client can push.
    if topics.is_empty() { Err(NO_TOPIC_TO_POP.into()) } else { Ok(topics) }
}

/// `/finish`, `/delete` and `/get`. `None` for a name that no job can have, since pushes with it are refused.
pub fn id(body: &[u8]) -> Result<Option<JobId>, Refusal> {
    let id = single_string(body, "id")?;
    match id.trim() {
        "" => Err(NO_ID.into()),
        id => Ok(names::id_of(id.as_bytes()).ok()),
    }
}

/// The only member of a body.
fn single_string(body: &[u8], name: &str) -> Result<String, Refusal> {
    let (text, mut found) = (go_json::to_text(body), String::new());
    let is_read = go_json::read_object(&text, &[name], |_, value| set(&mut found, go_json::string(value)));
    if is_read { Ok(found) } else { Err(NOT_JSON.into()) }
}

/// Stores a value if it has the right type. Returns whether it has.
fn set<T>(to: &mut T, value: Option<T>) -> bool {
    let is_valid = value.is_some();
    if let Some(value) = value {
        *to = value;
    }
    is_valid
}

fn topic_of(name: &str) -> Result<Topic, Refusal> {
    names::topic_of(name.as_bytes()).map_err(|error| format!("topic {error}").into())
}

fn id_of(name: &str) -> Result<JobId, Refusal> {
    names::id_of(name.as_bytes()).map_err(|error| format!("id {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::MAX;

    fn pushed(body: &str) -> Result<PushRequest, Refusal> {
        push(body.as_bytes(), Delay::LONGEST, Timestamp::from_millis(500))
    }

    fn found(body: &str) -> Result<Option<String>, Refusal> {
        id(body.as_bytes()).map(|id| id.map(|id| id.as_str().to_owned()))
    }

    #[test]
    fn bodies_are_read_as_go_reads_them() {
        let is = |text: &str| Ok(Some(text.to_owned()));
        for (body, expected) in [
            (r#" {"id":"a"} "#, is("a")),
            (r#"{"ID":"a"}"#, is("a")),
            (r#"{"\u0069d":"a"}"#, is("a")),
            (r#"{"id":"a","Id":"b"}"#, is("b")),
            (r#"{"id":"a","id":null}"#, is("a")),
            (r#"{"id":" a\n","other":[{"\ud800":1e999}]}"#, is("a")),
            (r#"{"id":"\ud800"}"#, is("=EF=BF=BD")),
            (r#"{"id":null}"#, Err(NO_ID.into())),
            ("{}", Err(NO_ID.into())),
            (" null ", Err(NO_ID.into())),
            (r#"{"id":"\u3000"}"#, Err(NO_ID.into())),
            ("", Err(NOT_JSON.into())),
            ("{", Err(NOT_JSON.into())),
            (r#"{"id":"a"} x"#, Err(NOT_JSON.into())),
            ("null null", Err(NOT_JSON.into())),
            (r#"["id"]"#, Err(NOT_JSON.into())),
            (r#""id""#, Err(NOT_JSON.into())),
            (r#"{"id":1}"#, Err(NOT_JSON.into())),
            (r#"{"id":1,"id":"a"}"#, Err(NOT_JSON.into())),
            (r#"{"id":"a","other":01}"#, Err(NOT_JSON.into())),
            ("id=a", Err(NOT_JSON.into())),
            ("{\"id\":\"\n\"}", Err(NOT_JSON.into())),
            ("{\"\n\":1,\"id\":\"a\"}", Err(NOT_JSON.into())),
        ] {
            assert_eq!(found(body), expected, "{body}");
        }
        assert_eq!(id(b"{\"id\":\"\xff\"}").map(|id| id.map(|id| id.to_string())), is("=EF=BF=BD"));
        let deep = format!(r#"{{"id":"a","other":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        assert_eq!(found(&deep), is("a"));
        assert_eq!(found(&format!(r#"{{"id":"{}"}}"#, "x".repeat(256))), Ok(None));
    }

    #[test]
    fn pushes_are_checked_in_the_order_of_the_old_server() {
        let mut body = serde_json::json!({"id": " ", "topic": " ", "delay": 0, "ttr": 0, "body": " x "});
        for (key, value, refusal) in [
            ("id", " a ".into(), NO_ID),
            ("topic", " t ".into(), NO_TOPIC_TO_PUSH),
            ("delay", (MAX_DELAY_S + 1).into(), DELAY_OUT_OF_RANGE),
            ("delay", (-1).into(), DELAY_OUT_OF_RANGE),
            ("delay", 2.into(), DELAY_OUT_OF_RANGE),
            ("ttr", (MAX_TTR_S + 1).into(), TTR_OUT_OF_RANGE),
            ("ttr", MAX_TTR_S.into(), TTR_OUT_OF_RANGE),
        ] {
            assert_eq!(pushed(&body.to_string()), Err(refusal.into()), "{body}");
            body[key] = serde_json::Value::clone(&value);
        }
        let expected = PushRequest {
            topic: Topic::parse("t").expect("a topic"),
            id: JobId::parse("a").expect("an id"),
            due: Due::After(Delay::new(Duration::from_secs(2)).expect("a delay")),
            ttr: Ttr::new(Duration::from_secs(MAX_TTR_S.unsigned_abs())).expect("a TTR"),
            body: encoding::body_of(&"x".into()),
        };
        assert_eq!(pushed(&body.to_string()), Ok(expected));
    }

    #[test]
    fn delays_beyond_the_longest_are_moments() {
        let body = format!(r#"{{"id":"a","topic":"t","delay":{MAX_DELAY_S},"ttr":1}}"#);
        let due = pushed(&body).expect("is valid").due;
        assert_eq!(due, Due::At(Timestamp::from_millis(MAX_DELAY_S * 1_000 + 500)));
        let max_delay = Delay::new(Duration::from_secs(100)).expect("a delay");
        for (delay, is_accepted) in [(100, true), (101, false), (MAX_DELAY_S, false)] {
            let body = format!(r#"{{"id":"a","topic":"t","delay":{delay},"ttr":1}}"#);
            assert_eq!(push(body.as_bytes(), max_delay, NOW).is_ok(), is_accepted, "{delay}");
        }
    }

    #[test]
    fn topics_are_split_at_commas_alone() {
        let topics = |text: &str| {
            let topics = pop(format!(r#"{{"topic":"{text}"}}"#).as_bytes())?;
            Ok(topics.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(topics(" a,b "), Ok("a b".to_owned()));
        assert_eq!(topics("a, b,,"), Ok("a :20b".to_owned()));
        for none in ["", " ", ",,"] {
            assert_eq!(topics(none), Err(Refusal::from(NO_TOPIC_TO_POP)), "{none:?}");
        }
    }
}
