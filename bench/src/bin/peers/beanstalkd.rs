//! beanstalkd's own protocol over TCP: `put`, `reserve-with-timeout`, `delete`.

use std::io::Write;

use crate::{
    Options,
    connection::{Connection, Failure},
};

/// A job in hand. Its number is what its body begins with.
pub struct Job {
    id: String,
    pub number: usize,
}

/// Adds `count` jobs, all sent before the first answer is read; the body begins with the number of the first.
pub async fn add(
    connection: &mut Connection,
    options: &Options,
    first: usize,
    count: usize,
) -> Result<usize, Failure> {
    for _ in 0..count {
        write!(connection.out, "put 0 {} 60 {}\r\n", options.delay, options.body_bytes)?;
        let end = connection.out.len() + options.body_bytes as usize;
        write!(connection.out, "{first:020}")?;
        connection.out.resize(end, b'x');
        connection.out.extend_from_slice(b"\r\n");
    }
    connection.send().await?;
    for _ in 0..count {
        let line = connection.until(b"\r\n").await?;
        if !line.starts_with(b"INSERTED ") {
            return Err(String::from_utf8_lossy(&line).into());
        }
    }
    Ok(count)
}

/// Reserves up to `count` jobs that are ready and deletes them; how many there were.
pub async fn drain(connection: &mut Connection, count: usize) -> Result<usize, Failure> {
    for _ in 0..count {
        connection.out.extend_from_slice(b"reserve-with-timeout 0\r\n");
    }
    connection.send().await?;
    let mut jobs = Vec::with_capacity(count);
    for _ in 0..count {
        jobs.extend(reserved(connection).await?);
    }
    delete(connection, &jobs).await?;
    Ok(jobs.len())
}

/// Reserves a job, waiting up to `seconds` for one.
pub async fn reserve(connection: &mut Connection, seconds: u32) -> Result<Option<Job>, Failure> {
    write!(connection.out, "reserve-with-timeout {seconds}\r\n")?;
    connection.send().await?;
    reserved(connection).await
}

/// The answer to one reservation.
async fn reserved(connection: &mut Connection) -> Result<Option<Job>, Failure> {
    let line = String::from_utf8(connection.until(b"\r\n").await?)?;
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["RESERVED", id, bytes] => {
            let body = connection.exactly(bytes.parse::<usize>()? + 2).await?;
            let number = str::from_utf8(body.get(..20).ok_or("a body of another")?)?.parse()?;
            Ok(Some(Job { id: id.to_owned(), number }))
        }
        ["TIMED_OUT"] => Ok(None),
        _ => Err(line.into()),
    }
}

/// Deletes jobs, all asked for before the first answer is read.
pub async fn delete(connection: &mut Connection, jobs: &[Job]) -> Result<(), Failure> {
    for job in jobs {
        write!(connection.out, "delete {}\r\n", job.id)?;
    }
    connection.send().await?;
    for _ in jobs {
        let line = connection.until(b"\r\n").await?;
        if line != b"DELETED" {
            return Err(String::from_utf8_lossy(&line).into());
        }
    }
    Ok(())
}
