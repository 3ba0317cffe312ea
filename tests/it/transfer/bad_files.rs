//! Files that are no whole export: each is refused before anything is imported.

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use linger::{
    job::Tag,
    store::{ScheduleUpdates, TopicUpdates},
    transfer,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{Engine, StoreFixture, content, export, file};
use crate::harness::{jobs::trace, records::*};

/// An export of a few jobs.
async fn small_export() -> Vec<u8> {
    let fixture = StoreFixture::new(Engine::Naive).await;
    let kinds = [record, delayed_record, reserved_record, dead_record, full_record];
    let jobs = (0..20).map(|n| kinds[n % 5](&fixture, &format!("job-{n:02}"))).collect();
    fixture.store.put(jobs).await.expect("puts");
    fixture.store.put_topic(topic_record("t")).await.expect("puts");
    fixture.store.put_schedules(schedules(&fixture).split_off(3)).await.expect("puts");
    export(&fixture).await.0
}

fn check(content: &[u8], partial: bool) -> Result<(), String> {
    let (_directory, path) = file(content);
    transfer::check(&path, partial).map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_export_that_was_cut_off_is_refused_unless_a_part_is_wanted() {
    let whole = small_export().await;
    assert_eq!(check(&whole, false), Ok(()));
    let header = whole.len() - content(&whole).concat().len();
    let lines = content(&whole);
    let ends = (0..=lines.len()).map(|count| header + lines[..count].concat().len());
    let mut rng = SmallRng::seed_from_u64(7);
    let random = (0..200).map(|_| rng.random_range(0..whole.len()));
    for end in ends.chain(random).filter(|end| *end < whole.len()) {
        let refused = check(&whole[..end], false).expect_err("is cut off");
        assert!(refused.contains("cut off"), "{end}: {refused}");
        assert_eq!(check(&whole[..end], true).is_ok(), end >= header, "{end}");
    }
}

#[tokio::test]
async fn the_whole_lines_of_an_export_that_was_cut_off_can_be_imported() {
    let whole = small_export().await;
    let lines = content(&whole).len();
    let cut = &whole[..whole.len() - content(&whole)[lines - 1].len() - 10];
    let (_directory, path) = file(cut);
    let target = StoreFixture::new(Engine::Embedded).await;
    let checked = transfer::check(&path, true).expect("is sound up to the cut");
    let imported = transfer::import(&*target.store, checked, &mut |_: &str| ()).await.expect("imports");
    assert_eq!((imported.jobs, imported.topics), (19, 1));
    assert_eq!(all_records(&*target.store).await.1.len(), 19);
}

#[tokio::test]
async fn an_export_that_was_changed_is_refused() {
    let whole = String::from_utf8(small_export().await).expect("is text");
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let without = |left_out: usize| {
        let kept = lines.iter().enumerate().filter(|(n, _)| *n != left_out);
        kept.map(|(_, line)| *line).collect::<String>()
    };
    let parent = format!("\"traceparent\":\"{}\",", trace(1).traceparent());
    // Another value of the attribute that has the trace context.
    let attribute = [&[Tag::TRACEPARENT.0, 0, 24][..], &[1; 24]].concat();
    let other_parent = format!("\"attributes\":\"{}", STANDARD.encode(attribute));
    let changes = [
        (whole.replacen("\"attempts\":16", "\"attempts\":15", 1), "its checksum is wrong"),
        (without(3), "its checksum is wrong"),
        (whole.replace("\"jobs\":20", "\"jobs\":21"), "its counts are wrong"),
        (whole.clone() + lines[2], "more follows its end"),
        (whole.replacen("\"linger_export\":1", "\"linger_export\":2", 1), "export format 2"),
        (whole.replacen("\"state\":\"delayed\"", "\"state\":\"asleep\"", 1), "its state is unknown"),
        (whole.replacen("\"max_attempts\":16", "\"priority\":16", 1), "unknown field `priority`"),
        (whole.replacen("\"ttr\":60", "\"ttr\":0", 1), "must be between 1 s and 30 days"),
        (whole.replacen("\"receipt\":\"05", "\"receipt\":\"x5", 1), "its receipt is malformed"),
        (
            whole.replacen("\"traceparent\":\"00-0", "\"traceparent\":\"00-x", 1),
            "its trace context is malformed",
        ),
        (whole.replacen("\"tracestate\":\"k0=", "\"tracestate\":\"k0-", 1), "its trace context is malformed"),
        (whole.replacen("\"note\":\"3 of 7\"", "\"note\":\"\"", 1), "its note must be 1 to 256 bytes long"),
        (whole.replacen("\"note\":\"3 of 7\",", "", 1), "exactly a job with a note has noted_at"),
        (whole.replacen(&parent, "", 1), "its tracestate is without a traceparent"),
        (whole.replacen("\"attributes\":\"", &other_parent, 1), "its attributes are out of range"),
        (
            whole.replacen("{\"name\":\"paused\"", "{\"name\":\"pa used\"", 1),
            "the name of a schedule may only hold",
        ),
        (whole.replacen("\"paused\",\"text\"", "\"paused\",\"cron\"", 1), "unknown field `cron`"),
        (whole.replace("\"schedules\":1", "\"schedules\":2"), "its counts are wrong"),
        (whole.replacen("\"dead_at\":", "\"reserved_at\":", 1), "exactly a reserved job has"),
        ("a text\nof lines\n".to_owned(), "it is not an export of Linger"),
        (String::new(), "it is not an export of Linger"),
    ];
    for (changed, expected) in changes {
        assert_ne!(changed, whole, "{expected}");
        for partial in [false, true] {
            let refused = check(changed.as_bytes(), partial).expect_err(expected);
            assert!(refused.contains(expected), "{expected}: {refused}");
        }
    }
}

#[tokio::test]
async fn random_damage_is_refused_without_a_panic() {
    let whole = small_export().await;
    let header = whole.len() - content(&whole).concat().len();
    let mut rng = SmallRng::seed_from_u64(9);
    for _ in 0..300 {
        let mut damaged = whole.clone();
        let at = rng.random_range(header..whole.len());
        damaged[at] ^= 1 << rng.random_range(0..8);
        assert!(check(&damaged, false).is_err(), "byte {at}");
    }
}

#[test]
fn a_file_that_is_missing_is_named() {
    let refused = transfer::check(std::path::Path::new("no/such.export"), false).expect_err("is missing");
    assert!(refused.to_string().starts_with("no/such.export: No such file"), "{refused}");
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("d")).expect("can be made");
    assert!(transfer::check(&directory.path().join("d"), false).is_err());
}

#[tokio::test]
async fn a_file_of_another_kind_is_named() {
    for (begins, kind) in [
        (&b"\x1f\x8b\x08\0"[..], "it is compressed"),
        (b"SQLite format 3\0", "it is a backup"),
        (b"\xff\xfe{\0", "UTF-16"),
    ] {
        let refused = check(begins, true).expect_err("is no export");
        assert!(refused.contains(kind), "{refused}");
    }
    let (_directory, path) = file(&small_export().await);
    let refused = linger::server::verify_backup(&path).expect_err("is no backup").to_string();
    assert!(refused.ends_with("it is an export, which `linger import` takes"), "{refused}");
}

#[tokio::test]
async fn what_was_checked_is_imported_although_the_file_was_replaced_meanwhile() {
    let whole = small_export().await;
    let (directory, path) = file(&whole);
    let checked = transfer::check(&path, false).expect("is sound");
    let other = directory.path().join("other");
    fs::write(&other, "damaged").expect("writes");
    fs::rename(&other, &path).expect("is replaced");
    let target = StoreFixture::new(Engine::Embedded).await;
    let imported = transfer::import(&*target.store, checked, &mut |_: &str| ()).await.expect("imports");
    assert_eq!((imported.jobs, imported.topics), (20, 1));
}

#[tokio::test]
async fn a_file_that_becomes_shorter_while_it_is_imported_is_named() {
    for kept in [0.5, 0.9] {
        let whole = small_export().await;
        let (_directory, path) = file(&whole);
        let checked = transfer::check(&path, false).expect("is sound");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("opens");
        file.set_len((whole.len() as f64 * kept) as u64).expect("is cut");
        let target = StoreFixture::new(Engine::Embedded).await;
        let refused = transfer::import(&*target.store, checked, &mut |_: &str| ()).await;
        let refused = refused.expect_err("is not whole").to_string();
        assert!(refused.contains("it was changed while it was imported"), "{refused}");
    }
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a named pipe");
    for path in [pipe.as_path(), std::path::Path::new("/dev/null"), directory.path()] {
        let refused = transfer::check(path, false).expect_err("is no file").to_string();
        assert!(refused.contains("it is not a regular file"), "{refused}");
    }
}
