//! Exports and imports: nothing is lost or changed between engines, bad files are refused whole, and the commands of the
//! real program.

mod bad_files;
mod ends;
mod load;
mod program;
mod relocation;

use std::{fs, path::PathBuf};

use linger::{
    store::{JobRecord, ScheduleUpdates, Store, TopicRecord, TopicUpdates},
    transfer::{self, Exported, Imported},
};

use crate::harness::{
    jobs::*,
    records::*,
    stores::{Engine, StoreFixture},
};

/// An export of a store as of the start of the tests.
async fn export(fixture: &StoreFixture) -> (Vec<u8>, Exported) {
    let records = fixture.store.records().await.expect("reads");
    let (mut out, mut broken) = (Vec::new(), |why: &str| panic!("{why}"));
    let exported = transfer::export(records, ("test", fixture.now()), &mut out, "out", &mut broken).await;
    (out, exported.expect("exports"))
}

/// Imports what was exported, and returns what is named.
async fn import(store: &dyn Store, export: &[u8]) -> (Imported, Vec<String>) {
    let (_directory, path) = file(export);
    let mut named = Vec::new();
    let checked = transfer::check(&path, false).expect("is sound");
    let imported = transfer::import(store, checked, &mut |name: &str| named.push(name.to_owned())).await;
    (imported.expect("imports"), named)
}

/// A file with this content.
fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("jobs.export");
    fs::write(&path, content).expect("writes");
    (directory, path)
}

/// The lines behind the header.
fn content(export: &[u8]) -> Vec<&[u8]> {
    export.split_inclusive(|byte| *byte == b'\n').skip(1).collect()
}

/// Jobs of an export: more than one page of them.
const JOBS: usize = 700;

/// Jobs in every state and with every field, at least five, and topics.
fn records(fixture: &StoreFixture, count: usize) -> (Vec<TopicRecord>, Vec<JobRecord>) {
    let kinds = [record, delayed_record, reserved_record, dead_record, full_record];
    let mut jobs: Vec<JobRecord> =
        (0..count).map(|n| kinds[n % 5](fixture, &format!("job-{n:03}"))).collect();
    jobs[0].job.body = body("{\n  \"lines\": [1,\n2]\r\n}");
    jobs[1].job.spec.callback = Some(callback("http://other.example/"));
    jobs[2].job.body = body("null");
    jobs[3].job.history = linger::job::History::from_stored(b"\0\x03\xc8ab");
    jobs[4].job.spec.ttr = linger::job::Ttr::new(millis(1_234)).expect("valid");
    let mut later = topic_record("later");
    later.other.set(linger::job::Tag(200), Some(b"of a later version"));
    let paused = TopicRecord {
        config: linger::store::TopicConfig { pause: TopicPause::ALL, ..Default::default() },
        ..topic_record("paused")
    };
    (vec![later, paused], jobs)
}

async fn filled(engine: Engine) -> StoreFixture {
    let fixture = StoreFixture::new(engine).await;
    let (topics, jobs) = records(&fixture, JOBS);
    for topic in topics {
        fixture.store.put_topic(topic).await.expect("puts");
    }
    fixture.store.put_schedules(schedules(&fixture)).await.expect("puts");
    fixture.store.put_remembered(remembered(fixture.now())).await.expect("puts");
    fixture.store.put(jobs).await.expect("puts");
    fixture
}

const ENGINES: [Engine; 3] = [Engine::Embedded, Engine::Redis, Engine::Cluster];

#[tokio::test]
async fn an_export_of_an_imported_export_is_equal() {
    for engine in ENGINES {
        let (from, to) = (filled(engine).await, StoreFixture::new(engine).await);
        let (first, exported) = export(&from).await;
        assert_eq!(exported, Exported { jobs: 700, topics: 2, schedules: 4, remembered: 3, broken: 0 });
        let (imported, named) = import(&*to.store, &first).await;
        assert_eq!(
            imported,
            Imported { jobs: 700, topics: 2, schedules: 4, remembered: 3, existing: 0, refused: 0 }
        );
        assert_eq!(named, [""; 0]);
        to.verify().await;
        let (second, _) = export(&to).await;
        assert!(content(&first) == content(&second), "{engine:?}");
    }
}

#[tokio::test]
async fn every_engine_takes_the_export_of_every_other() {
    for from in ENGINES {
        let source = filled(from).await;
        let (exported, _) = export(&source).await;
        for to in ENGINES.into_iter().filter(|to| *to != from) {
            let target = StoreFixture::new(to).await;
            import(&*target.store, &exported).await;
            target.verify().await;
            assert!(all_records(&*target.store).await == records(&source, JOBS), "{from:?} to {to:?}");
            assert!(all_schedules(&*target.store).await == schedules(&source), "{from:?} to {to:?}");
            assert!(all_remembered(&*target.store).await == remembered(source.now()), "{from:?} to {to:?}");
        }
    }
}

#[tokio::test]
async fn a_second_import_completes_the_first_and_names_what_differs() {
    for engine in ENGINES {
        let source = filled(engine).await;
        let (exported, _) = export(&source).await;
        let target = StoreFixture::new(engine).await;
        let (topics, mut jobs) = records(&source, JOBS);
        let mut other = topics[1].clone();
        other.config.pause = PausedOperations { delivery: true, intake: false }.into();
        target.store.put_topic(other).await.expect("puts");
        target.store.put(jobs.split_off(300)).await.expect("puts");
        add(&*target.store, job("job-007")).await;
        let there = vec![schedules(&source).remove(0), schedule("paused", None, "{\"paused\":false}")];
        target.store.put_schedules(there).await.expect("puts");
        let mut ids = remembered(source.now());
        ids[1].ended_at = ids[1].ended_at.after(seconds(1));
        target.store.put_remembered(ids.split_off(1)).await.expect("puts");
        let (imported, named) = import(&*target.store, &exported).await;
        assert_eq!(
            imported,
            Imported { jobs: 299, topics: 1, schedules: 2, remembered: 1, existing: 402, refused: 4 }
        );
        let expected = [
            "topic paused: other settings are there",
            "schedule paused: another schedule with this name is there",
            "id deleted: a later end of its job is remembered, or there are too many ids",
            "job job-007: another job with this id is there",
        ];
        assert_eq!(named, expected);
    }
}
