//! Lists of jobs: equal moments on several shards, ready lists that change under a walk, entries of another program.

use std::collections::BTreeSet;

use linger::{
    clock::Clock,
    job::{Body, Due, JobId, State, Timestamp},
    store::{AddJob, JobFilter, JobPage, ListPosition, Order, Steps, Store, redis::Options},
};

use super::{Process, Raw, options, tag};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

const ORDERS: [Order; 2] = [Order::Ascending, Order::Descending];

async fn page(
    store: &dyn Store,
    filter: &JobFilter,
    order: Order,
    after: Option<&ListPosition>,
    limit: usize,
) -> JobPage {
    let page = store.list(filter, order, after, limit).await.expect("lists");
    assert!(page.jobs.len() <= limit, "{} jobs on a page of {limit}", page.jobs.len());
    assert!(page.jobs.iter().all(|listed| listed.job.body.as_bytes().is_empty()), "a body is on the page");
    page
}

fn ids(page: &JobPage) -> Vec<JobId> {
    page.jobs.iter().map(|listed| listed.job.id.clone()).collect()
}

/// The ids of all pages, one after the other. `between` is called with each page before the next one.
async fn walk(
    store: &dyn Store,
    filter: &JobFilter,
    order: Order,
    limit: usize,
    mut between: impl AsyncFnMut(&JobPage),
) -> Vec<JobId> {
    let (mut all, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = page(store, filter, order, after.as_ref(), limit).await;
        all.extend(ids(&page));
        pages += 1;
        assert!(pages < 1_000, "the walk does not end");
        between(&page).await;
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

async fn add_all(store: &dyn Store, jobs: Vec<AddJob>) {
    for jobs in jobs.chunks(200) {
        store.add(jobs.to_vec()).await.expect("adds");
    }
}

fn named(count: usize, job: impl Fn(&str) -> AddJob) -> Vec<AddJob> {
    (0..count).map(|n| job(&format!("job-{n:04}"))).collect()
}

fn names(jobs: &[AddJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id.clone()).collect()
}

/// All jobs are due in one millisecond. The last job of each page is deleted before the next page is read.
#[tokio::test]
async fn jobs_of_one_millisecond_are_each_on_one_page() {
    let process = Process::start(&Options { shards: Some(3), ..options() }).await;
    let store = process.store();
    add_all(store, named(700, |name| delayed(name, seconds(9)))).await;
    // Neighbours, so that a rank is not counted from the ends of the index.
    add_all(store, vec![delayed("before", seconds(8)), delayed("behind", seconds(10))]).await;
    for (order, first, last) in
        [(Order::Ascending, "before", "behind"), (Order::Descending, "behind", "before")]
    {
        let mut expected = names(&named(700, job));
        if order == Order::Descending {
            expected.reverse();
        }
        expected.insert(0, id(first));
        expected.push(id(last));
        for limit in [1, 7, 200, 1_000] {
            if limit > 1 || order == Order::Ascending {
                let found = walk(store, &JobFilter::all(State::Delayed), order, limit, async |_| {}).await;
                assert_eq!(found, expected, "{order:?} by {limit}");
            }
        }
    }
    for order in ORDERS {
        let mut left = walk(store, &JobFilter::all(State::Delayed), order, 1_000, async |_| {}).await;
        let delete_last = async |page: &JobPage| {
            let last: Vec<JobId> = ids(page).pop().into_iter().collect();
            let deleted = store.delete(ALL, last, DeleteRule::AnyState).await.expect("deletes");
            assert!(deleted.iter().all(|deleted| deleted.is_ok()));
        };
        let found = walk(store, &JobFilter::all(State::Delayed), order, 11, delete_last).await;
        assert_eq!(found, left, "{order:?}");
        left = walk(store, &JobFilter::all(State::Delayed), order, 1_000, async |_| {}).await;
        assert!(left.len() < found.len() - 30, "jobs were deleted");
    }
}

/// Every state, on as many shards as there can be, from two processes.
#[tokio::test]
async fn the_jobs_of_all_shards_are_merged_by_moment_and_id() {
    let options = Options { shards: Some(256), ..options() };
    let (one, other) = (Process::start(&options).await, Process::start(&options).await);
    let later = |n: u64| AddJob { due: Due::After(delay(seconds(50 + n % 7))), ..job(&format!("later-{n}")) };
    add_all(one.store(), (0..60).map(later).collect()).await;
    let ready = |n: u64| AddJob { topic: topic(&format!("topic-{}", n % 3)), ..job(&format!("ready-{n}")) };
    add_all(other.store(), (0..60).map(ready).collect()).await;
    let mut expected: Vec<(u64, String)> = (0..60).map(|n| (n % 7, format!("later-{n}"))).collect();
    expected.sort();
    let found =
        walk(other.store(), &JobFilter::all(State::Delayed), Order::Ascending, 13, async |_| {}).await;
    assert_eq!(found, expected.iter().map(|(_, name)| id(name)).collect::<Vec<_>>());
    let mut expected: Vec<String> = (0..60).map(|n| format!("ready-{n}")).collect();
    expected.sort();
    expected.reverse();
    let found = walk(one.store(), &JobFilter::all(State::Ready), Order::Descending, 13, async |_| {}).await;
    assert_eq!(found, expected.iter().map(|name| id(name)).collect::<Vec<_>>());
    let of_topic = JobFilter { topic: Some(topic("topic-1")), ..JobFilter::all(State::Ready) };
    assert_eq!(walk(one.store(), &of_topic, Order::Ascending, 13, async |_| {}).await.len(), 20);
}

/// More ready jobs than are sorted. Nothing changes, so each is listed once.
#[tokio::test]
async fn many_ready_jobs_are_each_on_one_page() {
    let process = Process::start(&options()).await;
    let store = process.store();
    let jobs = named(1_500, |name| match name.ends_with('7') {
        true => called(name, "https://a.example/x"),
        false => job(name),
    });
    add_all(store, jobs.clone()).await;
    let expected: BTreeSet<JobId> = names(&jobs).into_iter().collect();
    for order in ORDERS {
        for limit in [90, 200] {
            let found = walk(store, &JobFilter::all(State::Ready), order, limit, async |_| {}).await;
            assert_eq!(found.len(), jobs.len(), "{order:?}: a job is listed twice, or not at all");
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }
    let sevens = JobFilter { id_prefix: Some("job-000".into()), ..JobFilter::all(State::Ready) };
    let found = walk(store, &sevens, Order::Ascending, 4, async |_| {}).await;
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), 10);
}

/// Workers pop jobs, and new ones arrive, between the pages.
#[tokio::test]
async fn ready_jobs_that_stay_are_listed_while_others_come_and_go() {
    for order in ORDERS {
        let process = Process::start(&Options { shards: Some(2), ..options() }).await;
        let store = process.store();
        let jobs = named(1_500, job);
        add_all(store, jobs.clone()).await;
        let mut rounds = 0;
        let pop_and_add = async |page: &JobPage| {
            if page.next.is_some() && rounds < 20 {
                store.reserve(&plain("t"), &claims(20), Wait::No).await.expect("reserves");
                store.add(vec![job(&format!("new-{rounds}"))]).await.expect("adds");
            }
            rounds += 1;
        };
        let found = walk(store, &JobFilter::all(State::Ready), order, 50, pop_and_add).await;
        assert!(rounds > 20, "{order:?}: {rounds} pages");
        let mut stayed: BTreeSet<JobId> =
            walk(store, &JobFilter::all(State::Ready), order, 1_000, async |_| {})
                .await
                .into_iter()
                .collect();
        stayed.retain(|id| id.as_str().starts_with("job-"));
        assert!(stayed.len() > 900, "{}", stayed.len());
        let listed: BTreeSet<JobId> = found.iter().cloned().collect();
        let missed: Vec<&JobId> = stayed.difference(&listed).collect();
        assert!(missed.is_empty(), "{order:?}: {missed:?}");
    }
}

/// The jobs of the pages are deleted, so that most entries become stale, and the list is compacted between two pages.
#[tokio::test]
async fn a_walk_reaches_every_ready_job_of_a_list_that_is_compacted() {
    const ADDED: u64 = 2_600;
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let (store, raw) = (process.store(), Raw::connect(&shared().url()).await);
    add_all(store, named(ADDED as usize, job)).await;
    let ready = format!("{{{}:0}}:ready:t", options.prefix);
    let (mut entries, mut compactions) = (ADDED, 0);
    let delete = async |page: &JobPage| {
        store.delete(ALL, ids(page), DeleteRule::AnyState).await.expect("deletes");
        let left = store.topic(&topic("t")).await.expect("reads").map_or(0, |stats| stats.ready);
        // As in `scripts/transitions.lua`: a delete leaves the entry of its job in the list.
        let stale = entries - left;
        if left == 0 || stale <= 1_000 || stale <= left {
            return;
        }
        // A page may lack jobs while the list is compacted in slices. Only the last slice brings the first job to its head.
        let first = format!("job-{:04}", ADDED - left);
        let is_compacted = async || {
            let length = raw.send(&["LLEN", &ready]).await.as_u64();
            let head = raw.send(&["LINDEX", &ready, "0"]).await.into_bytes().unwrap_or_default();
            length == Some(left) && head.ends_with(first.as_bytes())
        };
        let time_limit = TimeLimit::new();
        while !is_compacted().await {
            time_limit.check(|| format!("the list was not compacted to the {left} jobs from {first} on"));
            time_limit.pause().await;
        }
        (entries, compactions) = (left, compactions + 1);
    };
    let found = walk(store, &JobFilter::all(State::Ready), Order::Ascending, 100, delete).await;
    assert_eq!(compactions, 2);
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), ADDED as usize);
    assert_eq!(store.topic(&topic("t")).await.expect("reads"), None);
}

/// The few jobs of a topic are found without examining those of another one, which are due before, between and behind them.
#[tokio::test]
async fn the_jobs_of_another_topic_are_skipped() {
    let options = Options { shards: Some(2), ..options() };
    let process = Process::start(&options).await;
    let (store, raw) = (process.store(), Raw::connect(&shared().url()).await);
    let minute = |n: usize| seconds(60 * n as u64);
    add_all(
        store,
        named(2_000, |name| delayed(name, minute(1 + name[4..].parse::<usize>().expect("a number")))),
    )
    .await;
    // In the first and last minute of an hour, next to each other, alone in an hour, at the ends of the list.
    let minutes = [0, 79, 80, 139, 140, 141, 700, 1_399, 1_400, 2_100];
    let rare = |n: &usize| AddJob { topic: topic("rare"), ..delayed(&format!("rare-{n:04}"), minute(1 + n)) };
    add_all(store, minutes.iter().map(rare).collect()).await;
    let mut expected: Vec<JobId> = minutes.iter().map(|n| id(&format!("rare-{n:04}"))).collect();
    let filter = JobFilter { topic: Some(topic("rare")), ..JobFilter::all(State::Delayed) };
    for order in ORDERS {
        for limit in [1, 3, 100] {
            let mut examined = 0;
            let count = async |page: &JobPage| examined += page.examined;
            let found = walk(store, &filter, order, limit, count).await;
            assert_eq!(found, expected, "{order:?} by {limit}");
            assert!(examined < 100, "{order:?} by {limit}: {examined} jobs were examined");
        }
        let (from, to) = (process.clock.now().after(minute(80)), process.clock.now().after(minute(1_401)));
        let part = JobFilter { from: Some(from), to: Some(to), ..filter.clone() };
        let found = walk(store, &part, order, 2, async |_| {}).await;
        let within: Vec<JobId> =
            expected.iter().filter(|id| ("rare-0079".."rare-1400").contains(&id.as_str())).cloned().collect();
        assert_eq!(found, within, "{order:?}");
        expected.reverse();
    }
    // Without its counts, a shard is read as a whole.
    for shard in 0..2 {
        raw.send(&["DEL", &format!("{{{}:{shard}}}:timeline", options.prefix)]).await;
    }
    assert_eq!(walk(store, &filter, Order::Ascending, 3, async |_| {}).await, expected);
}

/// Entries that lead nowhere, broken records, and moments that no job has.
#[tokio::test]
async fn entries_of_another_program_are_skipped() {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let (store, raw) = (process.store(), Raw::connect(&shared().url()).await);
    let tag = tag(&options, &id("a"));
    add_all(store, ["a", "b", "c"].map(|name| delayed(name, seconds(9))).to_vec()).await;
    add_all(store, ["d", "e", "f"].map(job).to_vec()).await;
    for broken in ["b", "e"] {
        raw.send(&["HSET", &format!("{tag}:jobs"), broken, "\u{21}not a record"]).await;
    }
    let due = format!("{tag}:due");
    raw.send(&["ZADD", &due, "-inf", "low", "+inf", "high", "1.5", "between", "7", "no id \u{1}"]).await;
    // A job in the index of another state, and one twice in its list.
    raw.send(&["ZADD", &due, "8", "d"]).await;
    let ready = format!("{tag}:ready:t");
    raw.send(&["LPUSH", &ready, "x"]).await;
    raw.send(&["RPUSH", &ready, "0123456789d"]).await;
    for order in ORDERS {
        for limit in [1, 10] {
            let mut found = walk(store, &JobFilter::all(State::Delayed), order, limit, async |_| {}).await;
            found.sort_by(|one, other| one.as_str().cmp(other.as_str()));
            assert_eq!(found, [id("a"), id("c")], "{order:?}");
            let mut found = walk(store, &JobFilter::all(State::Ready), order, limit, async |_| {}).await;
            found.sort_by(|one, other| one.as_str().cmp(other.as_str()));
            assert_eq!(found, [id("d"), id("f")], "{order:?}");
        }
    }
}

/// Bodies are larger than what one run of the script may read.
#[tokio::test]
async fn a_list_of_large_jobs_has_their_lengths() {
    let process = Process::start(&Options { shards: Some(2), ..options() }).await;
    let large = |name: &str, state: fn(&str) -> AddJob| {
        let text = format!("\"{}\"", "x".repeat(100_000));
        AddJob { body: Body::parse(text.into()).expect("is JSON"), ..state(name) }
    };
    let soon: fn(&str) -> AddJob = |name| delayed(name, seconds(5));
    for (state, make) in [(State::Delayed, soon), (State::Ready, job)] {
        for n in 0..12 {
            add(process.store(), large(&format!("{state:?}-{n}"), make)).await;
        }
        let page = page(process.store(), &JobFilter::all(state), Order::Ascending, None, 50).await;
        let sizes: Vec<u64> = page.jobs.iter().map(|listed| listed.body_bytes).collect();
        assert_eq!(sizes, [100_002; 12], "{state:?}");
    }
}

/// The positions of another state or engine, and malformed ones, mean the beginning.
#[tokio::test]
async fn a_position_that_cannot_be_read_means_the_beginning() {
    let process = Process::start(&options()).await;
    let store = process.store();
    add_all(store, vec![delayed("a", seconds(5)), job("b")]).await;
    for text in [
        "",
        "x",
        "x y",
        "list",
        "list x t",
        "list 0",
        "list 0 no>topic",
        "list 0 t x",
        "sorted",
        "sorted x y",
    ] {
        for (state, name) in [(State::Delayed, "a"), (State::Ready, "b")] {
            let after = ListPosition(text.to_owned());
            let page = page(store, &JobFilter::all(state), Order::Ascending, Some(&after), 5).await;
            assert_eq!(ids(&page), [id(name)], "{state:?} after {text:?}");
        }
    }
    // Numbers that are too large for Redis or Lua, in a list of whichever shard has the job.
    let entries = ["9000000000000000000 1 1 x", "1 1 9000000000000000000 x", "1 1 -1 x"];
    for (shard, entry) in (0..16).flat_map(|shard| entries.map(|entry| (shard, entry))) {
        let after = ListPosition(format!("list {shard} t {entry}"));
        page(store, &JobFilter::all(State::Ready), Order::Ascending, Some(&after), 5).await;
    }
    let from = JobFilter { from: Some(Timestamp::MAX), ..JobFilter::all(State::Delayed) };
    let none = page(store, &from, Order::Descending, None, 5).await;
    assert_eq!((ids(&none), none.next), (Vec::new(), None));
}
