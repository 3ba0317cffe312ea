//! The memory of one request: the program's peak while it reads the largest and most expensive bodies that it accepts, with
//! the default settings.

use crate::harness::{
    process::Server,
    process_stats::{memory_bytes, peak_memory_bytes, reset_peak_memory},
};

/// The most memory that one request of 8 MiB may add: its body, which exists twice while its buffer grows, and a margin for
/// memory that the allocator keeps.
const MOST_BYTES: u64 = 64 * 1_024 * 1_024;

/// Just below `server.max_request_bytes`.
const LARGEST: usize = 8 * 1_024 * 1_024 - 1_024;

/// As many copies of `item` as fit between `before` and `after`.
fn body_of_copies(before: &str, item: &str, after: &str) -> String {
    let count = (LARGEST - before.len() - after.len()) / (item.len() + 1);
    let mut body = String::with_capacity(LARGEST);
    body.push_str(before);
    for n in 0..count {
        body.push_str(if n == 0 { "" } else { "," });
        body.push_str(item);
    }
    body.push_str(after);
    body
}

#[test]
fn no_request_uses_much_more_memory_than_its_bytes() {
    let field = format!("\"{}\":1", "f".repeat(8_000));
    let job = format!("{{\"topic\":\"t\",{}}}", vec!["\"\":1"; 1_500].join(","));
    let bodies = [
        ("/jobs", body_of_copies("{", "\"\":1", "}"), 422),
        ("/jobs", body_of_copies("{", &field, "}"), 422),
        ("/jobs", body_of_copies("{\"topic\":\"t\",\"retry\":[", "1", "]}"), 422),
        ("/jobs", body_of_copies("{\"topic\":\"t\",\"retry\":[", "{}", "]}"), 422),
        ("/batch/pop", body_of_copies("{\"topics\":[", "1", "]}"), 413),
        ("/batch/pop", body_of_copies("{\"topics\":[", "\"t\"", "]}"), 413),
        ("/batch/jobs", body_of_copies("{\"jobs\":[", "1", "]}"), 413),
        ("/batch/jobs", body_of_copies("{\"jobs\":[", &job, "]}"), 413),
        ("/batch/jobs", format!("{{\"jobs\":[{}]}}", vec![job.as_str(); 900].join(",")), 200),
        ("/batch/finish", body_of_copies("{\"jobs\":[", "{}", "]}"), 413),
        ("/batch/delete", body_of_copies("{\"ids\":[", "1", "]}"), 413),
    ];
    let home = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], home.path());
    let mut wrong = Vec::new();
    for (path, body, status) in &bodies {
        reset_peak_memory(server.pid());
        let before = memory_bytes(server.pid());
        let response = server.call("POST", path, body);
        let cost = peak_memory_bytes(server.pid()).saturating_sub(before);
        let begins = body.chars().take(40).collect::<String>();
        let (answered, len) = (response.status, response.body.len());
        if cost > MOST_BYTES || answered != *status || len > 1_024 * 1_024 {
            wrong.push(format!("{path} {begins}: {} MiB, status {answered}, {len} bytes", cost >> 20));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
