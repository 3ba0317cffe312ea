//! What `linger top` draws in terminals of several sizes, and what keys change of it.

use std::time::Duration;

use linger_client::{Timestamp, Topic, TopicSort};
use ratatui::{Terminal, backend::TestBackend, style::Modifier};

use super::{
    draw::{draw, rows},
    reading::Reading,
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
    let settings = if more.contains("settings") { "" } else { r#""settings":{},"# };
    let json = format!(
        r#"{{"topic":"{name}","counts":{{"delayed":{delayed},"ready":{ready},"reserved":{reserved},"dead":{dead}}},
            "oldest_overdue_at":{oldest},{paused}{settings}{more}"waiting":{waiting}}}"#
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
    let summary = r#"{"added":186,"delivered":120,"finished":120,"died":1,"late_p99":0.009}"#;
    let stats = format!(
        r#"{{"now":"2026-11-22T06:10:00Z","counts":{{"delayed":1423,"ready":19,"reserved":4,"dead":7}},
            "minute":{summary},"hour":{summary},"processes":[{{"name":"web-1/4242","version":"0.1.0"}}]}}"#
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
            not_ready: None,
        },
        read_at_us: 10 * SECOND_US,
        trouble: None,
        offset: 0,
        shows_help: false,
    }
}

fn drawn(state: &State, now_us: i64, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, state, now_us)).expect("can be drawn");
    terminal.backend().clone()
}

fn lines(state: &State, now_us: i64, width: u16, height: u16) -> Vec<String> {
    let backend = drawn(state, now_us, width, height);
    let cells = backend.buffer().content.chunks(width.into());
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    cells.map(|cells| line(cells).trim_end().to_owned()).collect()
}

#[test]
fn a_terminal_of_80_by_24_shows_everything() {
    let shown = lines(&state(topics()), 11 * SECOND_US, 80, 24);
    let expected = [
        "linger top  http://127.0.0.1:9277                             ready, data 1s old",
        "all topics: 1,423 delayed, 19 ready, 4 reserved, 7 dead",
        "last minute: in 3.1/s, out 2.0/s, 1 died, late p99 9ms",
        "linger 0.1.0, embedded 3.53.0, 1 process",
        "TOPIC           DELAYED  READY  RESERVED  DEAD  OLDEST  POLLS    PAUSED",
        "payment-notify    1,411      3         4     7     41s      0 !",
        "mail                  0      2         0     0     41s      1",
        "hooks                12      5         0     0     41s      0",
        "stopped               0      9         0     0     41s      0    both",
    ];
    assert_eq!(shown[..9], expected);
    assert!(shown[9..23].iter().all(String::is_empty), "{shown:?}");
    assert_eq!(shown[23], "4 topics by ready                                         q quit  s sort  h help");
}

#[test]
fn a_small_terminal_keeps_the_most_important_columns() {
    let shown = lines(&state(topics()), 11 * SECOND_US, 40, 10);
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
    let shown = lines(&state(vec![topic(&name, [9_876_543_210, 1, 0, 0], 0, "")]), 10 * SECOND_US, 200, 50);
    let heading =
        format!("TOPIC{}        DELAYED  READY  RESERVED  DEAD  OLDEST  POLLS    PAUSED", " ".repeat(123));
    assert_eq!(shown[4], heading);
    assert_eq!(shown[5], format!("{name}  9,876,543,210      1         0     0     41s      0 !"));
    assert_eq!(shown[49].len(), 200);
}

#[test]
fn no_size_is_too_small() {
    let mut state = state(topics());
    for shows_help in [false, true] {
        state.shows_help = shows_help;
        for (width, height) in (0..30).flat_map(|width| (0..14).map(move |height| (width, height))) {
            drawn(&state, 11 * SECOND_US, width, height);
            rows(&state, height);
        }
    }
}

#[test]
fn while_the_server_is_away_the_last_figures_stay_grey_with_their_age() {
    let mut state = state(topics());
    state.receive(Err(Failure::new(Exit::NoAnswer, "stats: Connection refused")), 12 * SECOND_US);
    let shown = lines(&state, 72 * SECOND_US, 80, 24);
    assert_eq!(shown[0], "linger top  http://127.0.0.1:9277                        no answer, data 62s old");
    assert_eq!(shown[1], "stats: Connection refused");
    assert_eq!(shown[6], "payment-notify    1,411      3         4     7     41s      0 !");
    let has_modifier = |state: &State, now_us, modifier| {
        let backend = drawn(state, now_us, 80, 24);
        let mut cells = backend.buffer().content[6 * 80..7 * 80].iter().filter(|cell| cell.symbol() != " ");
        cells.all(|cell| cell.modifier == modifier)
    };
    assert!(has_modifier(&state, 72 * SECOND_US, Modifier::DIM));
    let reading = super::tests::state(topics()).reading;
    state.receive(Ok(reading), 73 * SECOND_US);
    assert!(has_modifier(&state, 73 * SECOND_US, Modifier::empty()));
    let shown = lines(&state, 73 * SECOND_US, 80, 24);
    assert!(shown[0].ends_with("ready, data 0s old"), "{shown:?}");
    assert!(!state.is_old(80 * SECOND_US) && state.is_old(81 * SECOND_US), "a reading that hangs is noticed");
}

#[test]
fn a_server_that_is_not_ready_and_a_token_for_some_topics_are_named() {
    let mut state = state(topics());
    state.reading.not_ready = Some("ready: the server answers 503: draining".to_owned());
    state.reading.stats = None;
    let shown = lines(&state, 10 * SECOND_US, 80, 24);
    assert!(shown[0].ends_with("not ready, data 0s old"), "{shown:?}");
    assert_eq!(shown[1], "ready: the server answers 503: draining");
    assert_eq!(shown[2], "the token is for some topics, so there are no totals");
    assert_eq!(shown[3], "linger 0.1.0, embedded 3.53.0");
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let shown = lines(&state(vec![topic("a\\u001b[2Jb", [1, 0, 0, 0], 0, "")]), 10 * SECOND_US, 80, 24);
    assert!(shown.iter().all(|line| !line.contains('\u{1b}')), "{shown:?}");
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
    let at_end = lines(&state, 10 * SECOND_US, 80, 24);
    assert!(
        at_end[22].starts_with("t099") && at_end[23].starts_with("83-100 of 100 topics by ready"),
        "{at_end:?}"
    );
    // A larger terminal shows more above rather than empty lines.
    assert!(lines(&state, 10 * SECOND_US, 80, 40)[38].starts_with("t099"));
    let mut seen = vec![state.sort.as_str()];
    for _ in 0..5 {
        assert_eq!(state.apply(Action::NextSort, shown), Effect::Read);
        seen.push(state.sort.as_str());
    }
    assert_eq!((seen, state.offset), (vec!["ready", "overdue", "delayed", "dead", "name", "ready"], 0));
    assert_eq!((state.apply(Action::Help, shown), state.shows_help), (Effect::Draw, true));
    assert!(lines(&state, 10 * SECOND_US, 80, 24)[4].starts_with("q, Ctrl-C"));
    assert_eq!(state.apply(Action::Quit, shown), Effect::Quit);
}

#[test]
fn printed_once_the_table_is_as_wide_as_it_needs_to_be() {
    let rows = table::rows(&topics(), moment("2026-11-22T06:10:00Z"), usize::MAX);
    assert_eq!(rows[0].text, "TOPIC           DELAYED  READY  RESERVED  DEAD  OLDEST  POLLS    PAUSED");
    assert_eq!(rows.iter().map(|row| row.has_mark).collect::<Vec<_>>(), [false, true, false, false, false]);
}
