//! A record has two readers, `scripts/record.lua` and `codec/record.rs`. On random records both read the same job, or refuse
//! it; the scripts alone accept values that they never look into.
//!
//! `LINGER_PROVE_RECORDS` is the number of records, `LINGER_PROVE_SEED` the seed.

use bytes::Bytes;
use fred::types::Value;
use futures_util::future::join_all;
use linger::{
    job::{
        Actor, Attributes, Callback, Job, Outlet, Reason, State, Tag, Timestamp, Ttr, decode_steps,
        encode_steps,
    },
    store::{AddJob, Claim, Error, Release, Steps, redis::Options},
};
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

use super::{Process, Raw, options};
use crate::{
    harness::{jobs::*, redis::shared},
    load::setting,
};

/// Bytes of a record before the name of its outlet. The last three are the lengths of that name and of the attributes.
const HEAD: usize = 48;

/// Reads each record of `ARGV` with the functions of the scripts, and writes it again.
const READER: &str = "
local function number(value) return value and string.format('%.0f', value) or '' end
local read = {}
for i, raw in ipairs(ARGV) do
  local job = decode(raw)
  if not job then
    read[i] = {}
  else
    local ends, outlet, length = parse_head(raw, job.state)
    read[i] = {
      number(job.state), number(job.flags), number(job.due), number(job.attempts), number(job.created), number(job.ttr),
      number(job.max), job.outlet, number(job.till), job.held or '', number(job.died), job.retry or '', job.reason or '',
      table.concat(split_history(job.history or '')), job.body, encode(job) == raw and 'same' or 'differs',
      ends == HEAD + #job.outlet and outlet == job.outlet and #raw - ends - length == #job.body and 'same' or 'differs',
    }
  end
end
return read
";

/// A job as either reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReadJob {
    /// State, flags, attempts, TTR in milliseconds, most attempts.
    numbers: [Option<i64>; 5],
    /// Due time, creation, end of the reservation, death.
    moments: [Option<Timestamp>; 4],
    topic: String,
    reserved: Option<(Timestamp, Option<Actor>)>,
    retry: Bytes,
    reason: Bytes,
    history: Bytes,
    body: Bytes,
}

impl ReadJob {
    /// The job that the scripts read, and the name of its outlet; `None` if they refuse it. They must cut the record at the
    /// same places, and write the same bytes again.
    fn by_lua(read: Value) -> Option<(Self, String)> {
        let fields: Vec<Bytes> =
            read.into_array().into_iter().map(|field| field.into_bytes().expect("is text")).collect();
        if fields.is_empty() {
            return None;
        }
        let text = |field: usize| String::from_utf8(fields[field].to_vec()).expect("is ASCII");
        let number = |field: usize| text(field).parse().ok();
        // A moment beyond the year 9999 is read as its end.
        let moment = Timestamp::from_millis;
        let outlet = Outlet::parse(&text(7)).expect("both know the same names");
        let held = &fields[9];
        let since = held.get(..6).map(|bytes| bytes.iter().fold(0, |ms, byte| ms << 8 | i64::from(*byte)));
        let by = || Actor::parse(std::str::from_utf8(held.get(6..)?).ok()?).ok();
        let job = Self {
            numbers: [0, 1, 3, 5, 6].map(number),
            moments: [2, 4, 8, 10].map(|field| number(field).map(moment)),
            topic: outlet.topic.to_string(),
            reserved: since.map(|since| (moment(since), by())),
            retry: fields[11].clone(),
            reason: fields[12].clone(),
            history: fields[13].clone(),
            body: fields[14].clone(),
        };
        assert_eq!([text(15), text(16)], ["same", "same"], "written again, cut: {job:?}");
        Some((job, text(7)))
    }

    fn by_rust(job: Job, flags: u8) -> Self {
        let state = match job.state() {
            State::Delayed => 1,
            State::Ready => 2,
            State::Reserved => 3,
            State::Dead => 4,
        };
        assert_eq!(job.spec.require_receipt, flags % 2 == 1);
        let ttr_ms = i64::try_from(job.spec.ttr.as_duration().as_millis()).expect("fits");
        let numbers = [state, flags.into(), job.attempts.into(), ttr_ms, job.spec.max_attempts.into()];
        Self {
            numbers: numbers.map(Some),
            moments: [Some(job.due_at), Some(job.created_at), job.reserved_until(), job.dead_at()],
            topic: job.topic.to_string(),
            reserved: job.reserved_at().map(|since| (since, job.reserved_by().cloned())),
            retry: encode_steps(&job.spec.retry).into(),
            reason: job
                .reason
                .map(|reason| Bytes::copy_from_slice(reason.as_str().as_bytes()))
                .unwrap_or_default(),
            history: Bytes::copy_from_slice(job.history.as_bytes()),
            body: job.body.as_bytes().clone(),
        }
    }

    /// Whether it has a value that only the server reads, and refuses.
    fn has_invalid_value(&self, outlet: &str, record: &[u8]) -> bool {
        let ttr_ms = self.numbers[3].and_then(|ms| u64::try_from(ms).ok()).expect("every job has a TTR");
        let reason = std::str::from_utf8(&self.reason).ok().and_then(Reason::new);
        let callback =
            attributes_of(record).and_then(|attributes| attributes.get(Tag::CALLBACK).map(Callback::decode));
        let is_called = outlet.contains('>');
        Ttr::new(millis(ttr_ms)).is_err()
            || decode_steps(&self.retry).is_none()
            || reason.is_none()
            || callback.is_some() != is_called
            || callback == Some(None)
    }
}

fn length_of_outlet(record: &[u8]) -> usize {
    usize::from(record[HEAD - 3])
}

/// Where a record's attributes are.
fn place_of_attributes(record: &[u8]) -> Option<std::ops::Range<usize>> {
    let length = u16::from_be_bytes([*record.get(HEAD - 2)?, *record.get(HEAD - 1)?]);
    let start = HEAD + length_of_outlet(record);
    let place = start..start + usize::from(length);
    (place.end <= record.len()).then_some(place)
}

fn attributes_of(record: &[u8]) -> Option<Attributes> {
    Attributes::decode(&record[place_of_attributes(record)?])
}

/// Replaces the attributes, unless the new ones are too many for their length to be written.
fn set_attributes(record: &mut Vec<u8>, place: std::ops::Range<usize>, attributes: &[u8]) {
    let Ok(length) = u16::try_from(attributes.len()) else { return };
    record[HEAD - 2..HEAD].copy_from_slice(&length.to_be_bytes());
    record.splice(place, attributes.iter().copied());
}

/// Records that the engine wrote: jobs in every state, with and without each attribute.
async fn written_records(process: &Process, raw: &Raw, key: &str) -> Vec<Vec<u8>> {
    let store = process.store();
    for n in 0..6 {
        let retry = if n % 2 == 0 { retry(&[1, 60, 3_600]) } else { retry(&[]) };
        add(
            store,
            AddJob {
                spec: JobSpec { retry, require_receipt: n == 3, ..JobSpec::default() },
                ..job(&format!("j{n}"))
            },
        )
        .await;
    }
    add(
        store,
        AddJob {
            spec: JobSpec { retry: retry(&[5]), ..JobSpec::default() },
            ..delayed("delayed", seconds(9))
        },
    )
    .await;
    add(store, AddJob { due: delayed("d", seconds(70)).due, ..called("called", "https://a.example/x?y=z") })
        .await;
    let named = Claim { by: Actor::parse("worker é").ok(), ..one(claims(1)) };
    let held =
        store.reserve(&plain("t"), &[vec![named], claims(3)].concat(), Wait::No).await.expect("reserves");
    let reason = Reason::new("because");
    let release = Release { due: Some(after(seconds(3))), reason: reason.clone() };
    store.release(ALL, &held[0].job.id, &held[0].receipt, release).await.expect("answers").expect("is held");
    store.bury(ALL, &held[1].job.id, &held[1].receipt, reason).await.expect("answers").expect("is held");
    let stored = raw.send(&["HVALS", key]).await.into_array();
    stored.into_iter().map(|record| record.into_bytes().expect("a record").to_vec()).collect()
}

/// A record with one random change.
fn changed(record: &[u8], rng: &mut SmallRng) -> Vec<u8> {
    let mut changed = record.to_vec();
    let place = place_of_attributes(record).expect("was written by the engine");
    match rng.random_range(0..7) {
        // A byte of what is not the body, to any value or to one nearby.
        0 => changed[rng.random_range(0..place.end)] = rng.random(),
        1 => {
            let byte = &mut changed[rng.random_range(0..place.end)];
            *byte ^= 1 << rng.random_range(0..8);
        }
        2 => changed.truncate(rng.random_range(0..=record.len())),
        // A field of the head to the least or the largest value.
        3 => {
            let fields = [1..2, 2..6, 6..12, 12..16, 16..22, 22..26, 26..29, 29..45];
            let field = fields.choose(rng).expect("there are fields").clone();
            let value = if rng.random() { 0xff } else { 0 };
            changed[field].fill(value);
        }
        // Another state, which may need another attribute.
        4 => changed[0] = changed[0] & 0xf0 | rng.random_range(0..6),
        // One attribute twice, in any order.
        5 => {
            let attributes = attributes_of(record).expect("was written by the engine");
            let encode = |(Tag(tag), value): (Tag, &[u8])| {
                let length = u16::try_from(value.len()).expect("fits").to_be_bytes();
                [&[tag], &length[..], value].concat()
            };
            let mut encoded: Vec<Vec<u8>> = attributes.iter().map(encode).collect();
            if let Some(repeated) = encoded.choose(rng).cloned() {
                encoded.insert(rng.random_range(0..=encoded.len()), repeated);
            }
            set_attributes(&mut changed, place, &encoded.concat());
        }
        // Another attribute: a known or an unknown one, of any length.
        _ => {
            let mut attributes = attributes_of(record).expect("was written by the engine");
            let tag = Tag(if rng.random() { rng.random_range(1..10) } else { rng.random_range(1..=255) });
            let length = [0, 5, 6, 10, 28, 30, 300, 33_000].choose(rng).expect("there are lengths");
            let mut value = vec![0; *length];
            if rng.random() {
                rng.fill_bytes(&mut value);
            }
            attributes.set(tag, Some(&value).filter(|_| rng.random_range(0..4) > 0).map(Vec::as_slice));
            set_attributes(&mut changed, place, attributes.as_bytes());
        }
    }
    changed
}

#[tokio::test]
async fn both_readers_of_a_record_agree() {
    let seed = setting("LINGER_PROVE_SEED", rand::random::<u32>().into());
    println!("LINGER_PROVE_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let options = Options { shards: Some(1), ..options() };
    let (process, raw) = (Process::start(&options).await, Raw::connect(&shared().url()).await);
    let key = format!("{{{}:0}}:jobs", options.prefix);
    let written = written_records(&process, &raw, &key).await;
    let count = setting("LINGER_PROVE_RECORDS", 4_000) as usize;
    let scripts = [
        include_str!("../../../src/store/redis/scripts/record.lua"),
        include_str!("../../../src/store/redis/scripts/history.lua"),
        READER,
    ]
    .concat();

    let mut records = written.clone();
    while records.len() < count {
        let mut record = written.choose(&mut rng).expect("there are records").clone();
        for _ in 0..rng.random_range(1..3) {
            if place_of_attributes(&record).is_some() && attributes_of(&record).is_some() {
                record = changed(&record, &mut rng);
            }
        }
        records.push(record);
    }
    let (mut both, mut neither, mut lua_alone, mut states) = (0, 0, 0, [0; 5]);
    for page in records.chunks(500) {
        let values = |n: usize| [format!("r{n}").into(), Bytes::copy_from_slice(&page[n]).into()];
        let stored = [vec![key.as_str().into()], (0..page.len()).flat_map(values).collect()].concat();
        raw.send_values("HSET", stored).await;
        let arguments = [
            vec![scripts.as_str().into(), 0.into()],
            page.iter().map(|record| Bytes::copy_from_slice(record).into()).collect(),
        ]
        .concat();
        let by_lua = raw.send_values("EVAL", arguments).await.into_array();
        let ids: Vec<_> = (0..page.len()).map(|n| id(&format!("r{n}"))).collect();
        let by_rust = join_all(ids.iter().map(|id| process.store().get(ALL, id))).await;
        assert_eq!((by_lua.len(), by_rust.len()), (page.len(), page.len()));
        for ((record, by_lua), by_rust) in page.iter().zip(by_lua).zip(by_rust) {
            match (ReadJob::by_lua(by_lua), by_rust) {
                (Some((by_lua, _)), Ok(Some(job))) => {
                    assert_eq!(by_lua, ReadJob::by_rust(job, record[1]), "{record:02x?}");
                    both += 1;
                    states[usize::from(record[0] % 16)] += 1;
                }
                (None, Err(Error::Damaged(_))) => neither += 1,
                (Some((job, outlet)), Err(Error::Damaged(_))) => {
                    assert!(
                        job.has_invalid_value(&outlet, record),
                        "only the server refuses {job:?}: {record:02x?}"
                    );
                    lua_alone += 1;
                }
                (by_lua, by_rust) => panic!("{by_lua:?}, but {by_rust:?}: {record:02x?}"),
            }
        }
    }
    println!("proof: what=record_readers runs={count} both={both} neither={neither} lua_alone={lua_alone}");
    assert!(
        both * 4 > count && neither * 10 > count && lua_alone > 0,
        "{both} {neither} {lua_alone} of {count}"
    );
    assert!(states[1..].iter().all(|jobs| *jobs > count / 100), "{states:?}");
}
