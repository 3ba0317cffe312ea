//! Components by themselves, in one thread and without a disk: `cargo bench --package linger-bench --features
//! criterion,linger/benching --bench components`.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use linger::{
    benching::{Codec, DueOrder, IdMap, read_new_job, write_job},
    job::{Body, History, Job, JobId, JobSpec, JobState, Timestamp, Topic},
};

const ID: &str = "0199f3a0-7c1e-7000-8000-000000000001";

fn body(bytes: usize) -> Body {
    Body::parse(Bytes::from(format!("\"{}\"", "x".repeat(bytes - 2)))).expect("is JSON")
}

fn names() -> (JobId, Topic) {
    (JobId::parse(ID).expect("is an id"), Topic::parse("orders.close").expect("is a topic"))
}

fn records(c: &mut Criterion) {
    let mut group = c.benchmark_group("record");
    for bytes in [256, 16_384] {
        let (id, topic) = names();
        let codec = Codec::new(id, topic, body(bytes));
        group.bench_function(format!("encode, body of {bytes} B"), |b| b.iter(|| codec.encode()));
        group.bench_function(format!("decode, body of {bytes} B"), |b| b.iter(|| codec.decode()));
    }
}

fn json(c: &mut Criterion) {
    let mut group = c.benchmark_group("json");
    let (id, topic) = names();
    for bytes in [256, 16_384] {
        let body = body(bytes);
        let mut text =
            format!(r#"{{"topic":"{topic}","id":"{id}","delay":1800,"ttr":60,"body":"#).into_bytes();
        text.extend_from_slice(body.as_bytes());
        text.push(b'}');
        let text = Bytes::from(text);
        assert!(read_new_job(&text), "is a job");
        group.bench_function(format!("read an add, body of {bytes} B"), |b| b.iter(|| read_new_job(&text)));
        let moment = Timestamp::from_millis(1_800_000_000_000);
        let job = Job {
            id: id.clone(),
            topic: topic.clone(),
            state: JobState::Delayed,
            created_at: moment,
            due_at: moment,
            expires_at: None,
            spec: JobSpec::default(),
            attempts: 0,
            reason: None,
            note: None,
            history: History::default(),
            body,
        };
        group.bench_function(format!("write a job, body of {bytes} B"), |b| b.iter(|| write_job(&job)));
    }
}

fn ids(c: &mut Criterion) {
    let mut group = c.benchmark_group("id map");
    for jobs in [10_000, 10_000_000] {
        let mut map = IdMap::with_jobs(jobs);
        let mut number = 0;
        group.bench_function(format!("find among {jobs}"), |b| {
            b.iter(|| {
                number = (number + 7_919) % jobs;
                black_box(map.find(number))
            });
        });
        group.bench_function(format!("add and remove among {jobs}"), |b| b.iter(|| map.turn_over()));
    }
}

fn due_order(c: &mut Criterion) {
    let mut group = c.benchmark_group("due order");
    for (jobs, topics) in [(10_000, 10), (10_000, 10_000), (1_000_000, 10)] {
        group.bench_function(format!("first out, last in, {jobs} jobs of {topics} topics"), |b| {
            b.iter_batched_ref(
                || DueOrder::with_jobs(jobs, topics),
                DueOrder::turn_over,
                BatchSize::NumIterations(100_000),
            );
        });
    }
}

criterion_group!(components, records, json, ids, due_order);
criterion_main!(components);
