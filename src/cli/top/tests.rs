//! What `linger top` shows in terminals of several sizes, and what keys change of it.

use std::time::Duration;

use linger_client::{Timestamp, Topic, TopicEvents, TopicSort};

use super::{
    draw::{Style, StyledLine, lines, rows},
    reading::{MOST_TOPICS, Reading},
    state::{Action, Effect, State},
    table,
};
use crate::cli::exit::{Exit, Failure};

const SECOND_US: i64 = 1_000_000;

fn moment(text: &str) -> Timestamp {
    text.parse().expect("is a moment")
}

fn topic(name: &str, counts: [u64; 4], waiting: u64, more: &str) -> Topic {
    let [delayed, ready, reserved, dead] = counts;
    let oldest = if ready > 0 { "\"2026-11-22T06:09:19Z\"" } else { "null" };
    let paused = if more.contains("paused") { "" } else { r#""paused":{"delivery":false,"intake":false},"# };
    let is_unattended = ready > 0 && waiting == 0 && more.is_empty();
    let cause = if is_unattended { r#""cause":{"kind":"no_worker"},"# } else { "" };
    let settings = if more.contains("settings") { "" } else { r#""settings":{},"# };
    let json = format!(
        r#"{{"topic":"{name}","counts":{{"delayed":{delayed},"ready":{ready},"reserved":{reserved},"dead":{dead}}},
            "oldest_overdue_at":{oldest},{paused}{settings}{cause}{more}"waiting":{waiting},"polls":{waiting}}}"#
    );
    serde_json::from_str(&json).expect("is a topic")
}

fn topics() -> Vec<Topic> {
    vec![
        topic("payment-notify", [1_411, 3, 4, 7], 0, ""),
        topic("mail", [0, 2, 0, 0], 1, ""),
        topic("hooks", [12, 5, 0, 0], 0, r#""settings":{"callback":{"url":"https://a"}},"#),
        topic("stopped", [0, 9, 0, 0], 0, r#""paused":{"delivery":true,"intake":true},"#),
    ]
}

fn state(topics: Vec<Topic>) -> State {
    let summary =
        r#"{"added":186,"delivered":120,"finished":120,"died":1,"late_p99":0.009,"delivered_late_p99":0.04}"#;
    let mail = r#"{"added":61,"delivered":0,"finished":0,"died":0}"#;
    let stats = format!(
        r#"{{"now":"2026-11-22T06:10:00Z","counts":{{"delayed":1423,"ready":19,"reserved":4,"dead":7}},
            "minute":{summary},"hour":{summary},"processes":[{{"name":"web-1/4242","version":"0.1.0"}}],
            "topics":[{{"topic":"mail","minute":{mail}}},{{"topic":"payment-notify","minute":{summary}}}],
            "topics_complete":true}}"#
    );
    let version = r#"{"version":"0.1.0","engine":"embedded","engine_version":"3.53.0","durability":"sync"}"#;
    State {
        server: "http://127.0.0.1:9277".to_owned(),
        sort: TopicSort::Ready,
        prefix: None,
        every: Duration::from_secs(2),
        reading: Reading {
            now: moment("2026-11-22T06:10:00Z"),
            version: serde_json::from_str(version).expect("is a version"),
            stats: Some(serde_json::from_str(&stats).expect("are figures")),
            topics,
            sort: TopicSort::Ready,
            not_ready: None,
        },
        read_at_us: 10 * SECOND_US,
        trouble: None,
        offset: 0,
        shows_help: false,
    }
}

fn drawn(state: &State, now_us: i64, width: u16, height: u16) -> Vec<StyledLine> {
    let drawn = lines(state, now_us, (width, height));
    let wide = drawn.iter().find(|line| line.text.chars().count() > width.into());
    assert_eq!((drawn.len(), wide), (height.into(), None), "{width} by {height}");
    drawn
}

fn texts(state: &State, now_us: i64, width: u16, height: u16) -> Vec<String> {
    let drawn = drawn(state, now_us, width, height);
    drawn.into_iter().map(|line| line.text.trim_end().to_owned()).collect()
}

#[test]
fn a_terminal_of_80_by_24_shows_what_matters_most() {
    let shown = texts(&state(topics()), 11 * SECOND_US, 80, 24);
    let expected = [
        "linger top  http://127.0.0.1:9277                             ready, data 1s old",
        "all topics: 1,423 delayed, 19 ready, 4 reserved, 7 dead",
        "last minute: in 3.1/s, out 2.0/s, 1 died, late p99 40ms (ready 9ms)",
        "linger 0.1.0, embedded 3.53.0, 1 process",
        "TOPIC           DELAYED  READY  DEAD  IN/s  OUT/s  OLDEST  POLLS    PAUSED",
        "payment-notify    1,411      3     7   3.1    2.0     41s      0 !",
        "mail                  0      2     0   1.0    0.0     41s      1",
        "hooks                12      5     0                  41s      0",
        "stopped               0      9     0                  41s      0    both",
    ];
    assert_eq!(shown[..9], expected);
    assert!(shown[9..23].iter().all(String::is_empty), "{shown:?}");
    assert_eq!(shown[23], "4 topics by ready                                         q quit  s sort  h help");
}

#[test]
fn a_wider_terminal_shows_everything() {
    let all = state(topics());
    let heading = |state: &State, width| texts(state, 11 * SECOND_US, width, 24)[4].clone();
    let shown = texts(&all, 11 * SECOND_US, 100, 24);
    let expected = [
        "TOPIC           DELAYED  READY  RESERVED  DEAD  IN/s  OUT/s  LATE p99  OLDEST  POLLS    PAUSED",
        "payment-notify    1,411      3         4     7   3.1    2.0      40ms     41s      0 !",
        "mail                  0      2         0     0   1.0    0.0               41s      1",
        "hooks                12      5         0     0                            41s      0",
        "stopped               0      9         0     0                            41s      0    both",
    ];
    assert_eq!(shown[4..9], expected);
    // Where no topic is paused, there is room for another column.
    let open = state(topics().into_iter().take(3).collect());
    let without = "TOPIC           DELAYED  READY  DEAD  IN/s  OUT/s  LATE p99  OLDEST  POLLS";
    assert_eq!(heading(&open, 80), without);
    let some = state(topics());
    assert_eq!(heading(&some, 64), "TOPIC           DELAYED  READY  DEAD  OLDEST  POLLS    PAUSED");
    assert_eq!(heading(&some, 60), "TOPIC           DELAYED  READY  DEAD  OLDEST  POLLS");
}

#[test]
fn rates_that_may_be_too_low_are_named() {
    let mut state = state(topics());
    state.reading.stats.as_mut().expect("there are totals").topics_complete = Some(false);
    let shown = texts(&state, 10 * SECOND_US, 80, 24);
    assert_eq!(shown[2], "last minute: in 3.1/s, out 2.0/s, 1 died, topics incomplete, late p99 40ms (rea…");
}

#[test]
fn a_small_terminal_keeps_the_most_important_columns() {
    let shown = texts(&state(topics()), 11 * SECOND_US, 40, 10);
    let expected = [
        "linger top  http://…  ready, data 1s old",
        "all topics: 1,423 delayed, 19 ready, 4 …",
        "last minute: in 3.1/s, out 2.0/s, 1 die…",
        "TOPIC           READY  OLDEST  POLLS",
        "payment-notify      3     41s      0 !",
        "mail                2     41s      1",
        "hooks               5     41s      0",
        "stopped             9     41s      0",
        "",
        "4 topics by ready",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_large_terminal_shows_long_names_whole() {
    let name = "n".repeat(128);
    let shown = texts(&state(vec![topic(&name, [9_876_543_210, 1, 0, 0], 0, "")]), 10 * SECOND_US, 220, 50);
    let heading = format!(
        "TOPIC{}        DELAYED  READY  RESERVED  DEAD  IN/s  OUT/s  LATE p99  OLDEST  POLLS",
        " ".repeat(123)
    );
    assert_eq!(shown[4], heading);
    assert_eq!(
        shown[5],
        format!("{name}  9,876,543,210      1         0     0{}     41s      0 !", " ".repeat(23))
    );
    assert_eq!(shown[49].len(), 220);
    let heading = &drawn(&state(topics()), 10 * SECOND_US, 220, 50)[4];
    assert_eq!((heading.text.len(), heading.style), (220, Style::Heading), "it is a bar");
}

#[test]
fn a_tiny_terminal_shows_which_topics_have_ready_jobs() {
    let shown = texts(&state(topics()), 11 * SECOND_US, 20, 5);
    assert_eq!(
        shown,
        [
            "  ready, data 1s old",
            "TOPIC        READY",
            "payment-no…      3 !",
            "mail             2",
            "1-2 of 4 topics by …",
        ]
    );
}

#[test]
fn no_size_is_too_small() {
    let mut state = state(topics());
    for (width, height) in (0..90).flat_map(|width| (0..26).map(move |height| (width, height))) {
        for shows_help in [false, true] {
            state.shows_help = shows_help;
            drawn(&state, 11 * SECOND_US, width, height);
        }
    }
}

#[test]
fn while_the_server_is_away_the_last_figures_stay_faint_with_their_age() {
    let mut state = state(topics());
    state.receive(Err(Failure::new(Exit::NoAnswer, "stats: Connection refused")), 12 * SECOND_US);
    let shown = drawn(&state, 72 * SECOND_US, 80, 24);
    assert_eq!(
        shown[0].text,
        "linger top  http://127.0.0.1:9277                        no answer, data 62s old"
    );
    assert_eq!((&*shown[1].text, shown[1].style), ("stats: Connection refused", Style::Bad));
    assert_eq!(shown[6].text, "payment-notify    1,411      3     7   3.1    2.0     41s      0 !");
    assert!(shown[2..5].iter().chain(&shown[6..10]).all(|line| line.style == Style::Faint), "{shown:?}");
    let reading = super::tests::state(topics()).reading;
    state.receive(Ok(reading), 73 * SECOND_US);
    let shown = drawn(&state, 73 * SECOND_US, 80, 24);
    assert!(shown[0].text.ends_with("ready, data 0s old"), "{shown:?}");
    assert_eq!(
        [0, 1, 5, 6].map(|at| shown[at].style),
        [Style::Good, Style::Plain, Style::Warning, Style::Plain]
    );
    assert!(!state.is_old(80 * SECOND_US) && state.is_old(81 * SECOND_US), "a reading that hangs is noticed");
}

#[test]
fn a_refusal_and_an_answer_that_cannot_be_read_are_told_apart_from_no_answer() {
    let mut state = state(topics());
    for (failure, status) in [
        (Failure::of_item(503, r#"{"status":503,"code":"busy","detail":"x"}"#), "refused, data 0s old"),
        (
            Failure::new(Exit::Failed, "topics: unreadable answer: missing field `waiting`"),
            "failed, data 0s old",
        ),
    ] {
        state.receive(Err(failure), 10 * SECOND_US);
        let shown = texts(&state, 10 * SECOND_US, 80, 24);
        assert!(shown[0].ends_with(status), "{shown:?}");
    }
}

#[test]
fn a_server_that_is_not_ready_and_a_token_for_some_topics_are_named() {
    let mut state = state(topics());
    state.reading.not_ready = Some("ready: the server answers 503: draining".to_owned());
    state.reading.stats = None;
    let shown = texts(&state, 10 * SECOND_US, 80, 24);
    assert!(shown[0].ends_with("not ready, data 0s old"), "{shown:?}");
    assert_eq!(shown[1], "ready: the server answers 503: draining");
    assert_eq!(shown[2], "no totals: the token is for some topics only");
    assert_eq!(shown[3], "linger 0.1.0, embedded 3.53.0");
}

#[test]
fn what_a_terminal_would_execute_does_not_reach_it() {
    let mut state = state(vec![topic("a\\u001b[2Jb\\u202ec", [1, 0, 0, 0], 0, "")]);
    state.server = "http://a\u{1b}c".to_owned();
    state.reading.not_ready = Some("two\nlines\u{9b}2J".to_owned());
    state.reading.version.engine = "e\u{7}".to_owned();
    let shown = texts(&state, 10 * SECOND_US, 80, 24);
    let is_unsafe = |c: char| c.is_control() || c == '\u{202e}';
    assert!(shown.iter().all(|line| !line.contains(is_unsafe)), "{shown:?}");
    assert!(shown[6].starts_with(r"a\u{1b}[2Jb\u{202e}c        1 "), "{shown:?}");
}

#[test]
fn polls_that_are_not_known_are_not_taken_for_none() {
    let mut state = state(topics());
    let marks = |state: &State| table::rows(&state.reading, 80).iter().filter(|row| row.has_mark).count();
    assert_eq!(marks(&state), 1);
    (state.reading.topics[0].polls, state.reading.topics[0].cause) = (None, None);
    assert_eq!(marks(&state), 0);
    let shown = texts(&state, 11 * SECOND_US, 80, 24);
    assert_eq!(shown[5], "payment-notify    1,411      3     7   3.1    2.0     41s");
}

#[test]
fn the_largest_figures_are_shown_and_add_up_to_no_panic() {
    let most = u64::MAX;
    let mut state = state(vec![topic("t", [most; 4], most, "")]);
    let stats = state.reading.stats.as_mut().expect("there are totals");
    stats.minute.added = most;
    stats.topics[0] = TopicEvents { topic: "t".to_owned(), minute: stats.minute };
    let shown = texts(&state, 10 * SECOND_US, 200, 24);
    assert!(shown[2].starts_with("last minute: in 307,445,734,561,825,860.2/s"), "{shown:?}");
    assert!(shown[5].contains("18,446,744,073,709,551,615"), "{shown:?}");
}

#[test]
fn the_footer_says_how_many_topics_there_are() {
    let numbered = |count: usize| (0..count).map(|n| topic(&format!("t{n}"), [0; 4], 0, "")).collect();
    let footer = |count, prefix: Option<&str>| {
        let mut state = state(numbered(count));
        state.prefix = prefix.map(str::to_owned);
        let shown = texts(&state, 10 * SECOND_US, 80, 24);
        shown[23].split("   ").next().map(str::to_owned).expect("is a line")
    };
    assert_eq!(footer(0, None), "no topics");
    assert_eq!(footer(1, Some("t")), "1 topic with prefix t");
    assert_eq!(footer(18, None), "18 topics by ready");
    assert_eq!(footer(MOST_TOPICS, None), "1-18 of the first 1,000 topics by ready");
}

#[test]
fn keys_scroll_within_the_topics_and_change_the_order() {
    let many = (0..100).map(|n| topic(&format!("t{n:03}"), [0, 1, 0, 0], 1, "")).collect();
    let mut state = state(many);
    let shown = rows(&state, 24);
    assert_eq!(shown, 18);
    for (action, offset) in [
        (Action::Up, 0),
        (Action::Down, 1),
        (Action::PageDown, 19),
        (Action::Up, 18),
        (Action::PageUp, 0),
        (Action::End, 82),
        (Action::Down, 82),
    ] {
        assert_eq!((state.apply(action, shown), state.offset), (Effect::Draw, offset), "{action:?}");
    }
    let at_end = texts(&state, 10 * SECOND_US, 80, 24);
    assert!(
        at_end[22].starts_with("t099") && at_end[23].starts_with("83-100 of 100 topics by ready"),
        "{at_end:?}"
    );
    // A larger terminal shows more above rather than empty lines.
    assert!(texts(&state, 10 * SECOND_US, 80, 40)[38].starts_with("t099"));
    let mut seen = vec![state.sort.as_str()];
    for _ in 0..5 {
        assert_eq!(state.apply(Action::NextSort, shown), Effect::Read);
        seen.push(state.sort.as_str());
    }
    assert_eq!((seen, state.offset), (vec!["ready", "overdue", "delayed", "dead", "name", "ready"], 0));
    assert_eq!((state.apply(Action::Help, shown), state.shows_help), (Effect::Draw, true));
    assert!(texts(&state, 10 * SECOND_US, 80, 24)[4].starts_with("q, Ctrl-C"));
    assert_eq!(state.apply(Action::Quit, shown), Effect::Quit);
}

#[test]
fn printed_once_the_table_is_as_wide_as_it_needs_to_be() {
    let rows = table::rows(&state(topics()).reading, usize::MAX);
    let all =
        "TOPIC           DELAYED  READY  RESERVED  DEAD  IN/s  OUT/s  LATE p99  OLDEST  POLLS    PAUSED";
    assert_eq!(rows[0].text, all);
    assert_eq!(rows.iter().map(|row| row.has_mark).collect::<Vec<_>>(), [false, true, false, false, false]);
}
