//! beanstalkd's own protocol over TCP: `put`, `reserve-with-timeout`, `delete`.

use std::io::Write;

use crate::{
    Options,
    connection::{Connection, Failure},
};

/// Adds `count` jobs, all sent before the first answer is read.
pub async fn add(connection: &mut Connection, options: &Options, count: usize) -> Result<usize, Failure> {
    for _ in 0..count {
        write!(connection.out, "put 0 {} 60 {}\r\n", options.delay, options.body_bytes)?;
        connection.out.resize(connection.out.len() + options.body_bytes, b'x');
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

/// Reserves up to `count` jobs and deletes them; how many there were.
pub async fn drain(connection: &mut Connection, count: usize) -> Result<usize, Failure> {
    for _ in 0..count {
        connection.out.extend_from_slice(b"reserve-with-timeout 0\r\n");
    }
    connection.send().await?;
    let mut reserved = 0;
    for _ in 0..count {
        let line = String::from_utf8(connection.until(b"\r\n").await?)?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["RESERVED", id, bytes] => {
                connection.exactly(bytes.parse::<usize>()? + 2).await?;
                write!(connection.out, "delete {id}\r\n")?;
                reserved += 1;
            }
            ["TIMED_OUT"] => {}
            _ => return Err(line.into()),
        }
    }
    connection.send().await?;
    for _ in 0..reserved {
        let line = connection.until(b"\r\n").await?;
        if line != b"DELETED" {
            return Err(String::from_utf8_lossy(&line).into());
        }
    }
    Ok(reserved)
}
