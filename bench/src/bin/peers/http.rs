//! The API of Linger, of which the server that stores nothing has a part.

use std::io::Write;

use serde::Deserialize;

use crate::{
    Options,
    connection::{Connection, Failure},
};

/// The topic of a job, and of the polls that hold or get nothing.
fn topic(options: &Options, number: usize) -> String {
    format!("bench-{}", number % options.topics)
}
const NOTHING: &str = "bench-nothing";

/// A job in hand.
#[derive(Deserialize)]
pub struct Job {
    id: String,
    receipt: String,
}

impl Job {
    /// The number that it was added as.
    pub fn number(&self) -> Result<usize, Failure> {
        Ok(self.id.strip_prefix("job-").ok_or("a job that this program did not add")?.parse()?)
    }
}

#[derive(Deserialize)]
struct Jobs {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
}

/// A number that looks random, always the same for the same one (the finalizer of SplitMix64).
fn mixed(number: usize) -> u64 {
    let mut mixed = (number as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn write_job(out: &mut Vec<u8>, options: &Options, number: usize) -> Result<(), Failure> {
    let topic = topic(options, number);
    write!(out, r#"{{"topic":"{topic}","id":"job-{number:032}","delay":"#)?;
    match options.spread {
        0 => write!(out, "{}", options.delay)?,
        spread => write!(
            out,
            "\"{}ms\"",
            u64::from(options.delay) * 1_000 + mixed(number) % (u64::from(spread) * 1_000)
        )?,
    }
    out.extend_from_slice(b",\"body\":\"");
    out.resize(out.len() + options.body_bytes as usize - 2, b'x');
    out.extend_from_slice(b"\"}");
    Ok(())
}

/// Adds `count` jobs, the first called `first` and each next one by a step of the connections.
pub async fn add(
    connection: &mut Connection,
    options: &Options,
    first: usize,
    count: usize,
) -> Result<usize, Failure> {
    let mut body = Vec::with_capacity(512 * count);
    if count == 1 {
        write_job(&mut body, options, first)?;
        let (status, answer) = call(connection, "POST", "/jobs", &body).await?;
        return expect(status == 201, status, &answer).map(|()| 1);
    }
    body.extend_from_slice(b"{\"jobs\":[");
    for number in 0..count {
        if number > 0 {
            body.push(b',');
        }
        write_job(&mut body, options, first + number * options.connections)?;
    }
    body.extend_from_slice(b"]}");
    let (status, answer) = call(connection, "POST", "/batch/jobs", &body).await?;
    all(status, &answer, 201)
}

/// Pops up to `count` jobs of the topic of job `first` and finishes them; how many there were.
pub async fn drain(
    connection: &mut Connection,
    options: &Options,
    first: usize,
    count: usize,
) -> Result<usize, Failure> {
    if options.batch == 1 {
        let Some(job) = pop(connection, options, first, 0).await? else { return Ok(0) };
        finish(connection, &job).await?;
        return Ok(1);
    }
    let topic = topic(options, first);
    let wanted = format!(r#"{{"topics":["{topic}"],"max":{count}}}"#);
    let (status, answer) = call(connection, "POST", "/batch/pop", wanted.as_bytes()).await?;
    expect(status == 200, status, &answer)?;
    let jobs = serde_json::from_slice::<Jobs>(&answer)?.jobs;
    if jobs.is_empty() {
        return Ok(0);
    }
    let finished = jobs.iter().map(|Job { id, receipt }| format!(r#"{{"id":"{id}","receipt":"{receipt}"}}"#));
    let body = format!(r#"{{"jobs":[{}]}}"#, finished.collect::<Vec<_>>().join(","));
    let (status, answer) = call(connection, "POST", "/batch/finish", body.as_bytes()).await?;
    all(status, &answer, 204)
}

/// Pops a job of the topic of job `number`, waiting up to `seconds` for one.
pub async fn pop(
    connection: &mut Connection,
    options: &Options,
    number: usize,
    seconds: u32,
) -> Result<Option<Job>, Failure> {
    let topic = topic(options, number);
    let wait = if seconds == 0 { String::new() } else { format!("?wait={seconds}") };
    let (status, answer) = call(connection, "GET", &format!("/topics/{topic}/pop{wait}"), b"").await?;
    if status == 204 {
        return Ok(None);
    }
    expect(status == 200, status, &answer)?;
    Ok(Some(serde_json::from_slice(&answer)?))
}

/// Finishes a job.
pub async fn finish(connection: &mut Connection, Job { id, receipt }: &Job) -> Result<(), Failure> {
    let path = format!("/jobs/{id}/finish?receipt={receipt}");
    let (status, answer) = call(connection, "POST", &path, b"").await?;
    expect(status == 204, status, &answer)
}

/// Pops of a topic that has nothing.
pub async fn empty(connection: &mut Connection) -> Result<usize, Failure> {
    let (status, answer) = call(connection, "GET", &format!("/topics/{NOTHING}/pop"), b"").await?;
    expect(status == 204, status, &answer).map(|()| 1)
}

/// Sends a long poll, and does not wait for its answer.
pub async fn send_poll(connection: &mut Connection, bare: bool) -> Result<(), Failure> {
    let path = if bare { "held" } else { "pop?wait=60" };
    write_head(connection, "GET", &format!("/topics/{NOTHING}/{path}"), 0)?;
    connection.send().await
}

fn write_head(connection: &mut Connection, method: &str, path: &str, bytes: usize) -> Result<(), Failure> {
    write!(connection.out, "{method} {path} HTTP/1.1\r\nhost: localhost\r\n")?;
    if bytes > 0 {
        write!(connection.out, "content-type: application/json\r\ncontent-length: {bytes}\r\n")?;
    }
    connection.out.extend_from_slice(b"\r\n");
    Ok(())
}

async fn call(
    connection: &mut Connection,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<(u16, Vec<u8>), Failure> {
    write_head(connection, method, path, body.len())?;
    connection.out.extend_from_slice(body);
    connection.send().await?;
    let head = String::from_utf8(connection.until(b"\r\n\r\n").await?)?;
    let status = head.get(9..12).ok_or("no status")?.parse()?;
    let length = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>())
    });
    Ok((status, connection.exactly(length.transpose()?.unwrap_or(0)).await?))
}

fn expect(is: bool, status: u16, answer: &[u8]) -> Result<(), Failure> {
    if is { Ok(()) } else { Err(format!("{status}: {}", String::from_utf8_lossy(answer)).into()) }
}

/// How many items there were, all of which must have this status.
fn all(status: u16, answer: &[u8], wanted: u16) -> Result<usize, Failure> {
    expect(status == 200, status, answer)?;
    let results = serde_json::from_slice::<Results>(answer)?.results;
    expect(results.iter().all(|item| item.status == wanted), status, answer)?;
    Ok(results.len())
}
