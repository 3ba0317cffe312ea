//! The known content of a job: the members that a client knows, as the API shows them.

use std::collections::BTreeMap;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

/// Every member of a job in an answer, except for its id and its state.
const MEMBERS: [&str; 17] = [
    "topic",
    "created_at",
    "due_at",
    "ttr",
    "attempts",
    "max_attempts",
    "retry",
    "reserved_at",
    "reserved_by",
    "reserved_until",
    "dead_at",
    "reason",
    "note",
    "noted_at",
    "callback",
    "history",
    "body",
];

/// The known members, by name. One that an answer leaves out is null; the body is a digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content(BTreeMap<&'static str, Value>);

impl Content {
    /// What an answer shows of a job, except for `hidden`: members that this kind of answer never has.
    pub fn shown(job: &Value, hidden: &[&str]) -> Self {
        let visible = MEMBERS.into_iter().filter(|member| !hidden.contains(member));
        Self(visible.map(|member| (member, member_value(member, &job[member]))).collect())
    }

    /// What a request gives a job.
    pub fn given(request: &Value) -> Self {
        let given = |member: &'static str| {
            let name = if member == "due_at" { "at" } else { member };
            Some((member, member_value(member, request.get(name)?)))
        };
        Self(MEMBERS.into_iter().filter_map(given).collect())
    }

    /// The content of a new job that this request adds. Only the server knows the moment.
    pub fn added(request: &Value) -> Self {
        let mut content = Self::shown(&Value::Null, &["created_at", "due_at"]);
        content.learn(Self::given(request));
        content.0.insert("attempts", 0.into());
        content
    }

    /// Replaces what is known by `newer`.
    pub fn learn(&mut self, newer: Self) {
        self.0.extend(newer.0);
    }

    pub fn forget<'a>(&mut self, members: impl IntoIterator<Item = &'a &'static str>) {
        members.into_iter().for_each(|member| drop(self.0.remove(member)));
    }

    /// The members that both know, and differently.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let different = |(member, known): (&&str, &Value)| {
            let found = other.0.get(member).filter(|found| *found != known)?;
            Some(format!("{member} was {known} and is {found}"))
        };
        self.0.iter().filter_map(different).collect()
    }
}

/// Bodies are large, so only a digest is kept.
fn member_value(member: &str, value: &Value) -> Value {
    if member != "body" {
        return value.clone();
    }
    xxh3_64(value.to_string().as_bytes()).into()
}
