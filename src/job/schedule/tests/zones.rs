//! Changes of the clock: by a table, and against counted minutes.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{oracle::Oracle, *};

#[test]
fn berlin_follows_the_rules_over_both_changes() {
    let spring: [(&str, &[&str]); 9] = [
        // 2:00 to 3:00 is left out at 01:00 UTC.
        ("30 2 * * *", &["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"]),
        ("0 3 * * *", &["2026-03-28T02:00Z", "2026-03-29T01:00Z", "2026-03-30T01:00Z"]),
        ("0,30 2,3 29 * *", &["2026-03-29T01:00Z", "2026-03-29T01:30Z"]),
        ("30 2,14 29 * *", &["2026-03-29T01:00Z", "2026-03-29T12:30Z"]),
        ("59 1 29 * *", &["2026-03-29T00:59Z"]),
        (
            "*/30 2 * * *",
            &["2026-03-28T01:00Z", "2026-03-28T01:30Z", "2026-03-30T00:00Z", "2026-03-30T00:30Z"],
        ),
        (
            "30 */2 29 * *",
            &[
                "2026-03-28T23:30Z",
                "2026-03-29T02:30Z",
                "2026-03-29T04:30Z",
                "2026-03-29T06:30Z",
                "2026-03-29T08:30Z",
                "2026-03-29T10:30Z",
                "2026-03-29T12:30Z",
                "2026-03-29T14:30Z",
                "2026-03-29T16:30Z",
                "2026-03-29T18:30Z",
                "2026-03-29T20:30Z",
            ],
        ),
        ("0 1-3 29 * *", &["2026-03-29T00:00Z", "2026-03-29T01:00Z"]),
        ("0 0 2 29 * *", &["2026-03-29T01:00Z"]),
    ];
    for (pattern, expected) in spring {
        let recurrence = recurrence(&cron(pattern, "Europe/Berlin"));
        assert_eq!(texts(&recurrence, "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z"), expected, "{pattern}");
    }
    let autumn: [(&str, &[&str]); 7] = [
        // 2:00 to 3:00 is repeated from 01:00 UTC on.
        ("30 2 * * *", &["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"]),
        ("0 3 25 * *", &["2026-10-25T02:00Z"]),
        (
            "0-59/30 2-3 25 * *",
            &["2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-25T02:00Z", "2026-10-25T02:30Z"],
        ),
        ("30 2,14 25 * *", &["2026-10-25T00:30Z", "2026-10-25T13:30Z"]),
        (
            "*/30 2 25 * *",
            &["2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z"],
        ),
        ("0 */12 25 * *", &["2026-10-24T22:00Z", "2026-10-25T11:00Z"]),
        (
            "0 */2 25 * *",
            &[
                "2026-10-24T22:00Z",
                "2026-10-25T00:00Z",
                "2026-10-25T01:00Z",
                "2026-10-25T03:00Z",
                "2026-10-25T05:00Z",
                "2026-10-25T07:00Z",
                "2026-10-25T09:00Z",
                "2026-10-25T11:00Z",
                "2026-10-25T13:00Z",
                "2026-10-25T15:00Z",
                "2026-10-25T17:00Z",
                "2026-10-25T19:00Z",
                "2026-10-25T21:00Z",
            ],
        ),
    ];
    for (pattern, expected) in autumn {
        let recurrence = recurrence(&cron(pattern, "Europe/Berlin"));
        assert_eq!(texts(&recurrence, "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z"), expected, "{pattern}");
    }
}

#[test]
fn lord_howe_changes_by_half_an_hour() {
    let summer = recurrence(&cron("15 2 4 10 *", "Australia/Lord_Howe"));
    assert_eq!(texts(&summer, "2026-10-01T00:00:00Z", "2026-10-09T00:00:00Z"), ["2026-10-03T15:30Z"], "2:30");
    let winter = recurrence(&cron("*/15 1 5 4 *", "Australia/Lord_Howe"));
    assert_eq!(
        texts(&winter, "2026-04-01T00:00:00Z", "2026-04-09T00:00:00Z"),
        [
            "2026-04-04T14:00Z",
            "2026-04-04T14:15Z",
            "2026-04-04T14:30Z",
            "2026-04-04T14:45Z",
            "2026-04-04T15:00Z",
            "2026-04-04T15:15Z",
        ],
        "the half hour from 1:30 on is repeated"
    );
}

#[test]
fn a_day_that_a_zone_leaves_out_runs_when_it_would_have_ended() {
    let noon = recurrence(&cron("0 12 * * *", "Pacific/Apia"));
    assert_eq!(
        texts(&noon, "2011-12-29T00:00:00Z", "2011-12-31T12:00:00Z"),
        ["2011-12-29T22:00Z", "2011-12-30T10:00Z", "2011-12-30T22:00Z"]
    );
}

#[test]
fn seconds_over_a_change_are_found_in_bounded_time() {
    let all = recurrence(&cron("0-59 0-59 0-23 * * *", "Europe/Berlin"));
    let after = |text: &str| all.following(moment(text)).map(|next| next.to_string());
    assert_eq!(after("2026-03-29T00:59:59Z").as_deref(), Some("2026-03-29T01:00:00.000Z"));
    assert_eq!(after("2026-10-25T00:59:59Z").as_deref(), Some("2026-10-25T02:00:00.000Z"), "repeated");
    assert_eq!(after("2026-10-25T01:30:00.5Z").as_deref(), Some("2026-10-25T02:00:00.000Z"));
    let passing = recurrence(&cron("* * * * * *", "Europe/Berlin"));
    assert_eq!(passing.following(moment("2026-10-25T01:30:00.5Z")), Some(moment("2026-10-25T01:30:01Z")));
    let rare = recurrence(&cron("* * * 29 2 +MON", "Europe/Berlin"));
    assert_eq!(
        rare.following(moment("2072-03-01T00:00:00Z")),
        Some(moment("2112-02-28T23:00:00Z")),
        "40 years later"
    );
}

/// Each change of the clock of a zone within a year.
fn changes(zone: &TimeZone, year: i16) -> Vec<i64> {
    let hour = |hours: i64| {
        jiff::civil::date(year, 1, 1).at(0, 0, 0, 0).in_tz("UTC").expect("exists").timestamp().as_second()
            + hours * 3_600
    };
    let offset = |hours| zone.to_offset(jiff::Timestamp::from_second(hour(hours)).expect("in range"));
    (0..366 * 24)
        .filter(|hours| offset(*hours) != offset(hours + 1))
        .map(|hours| hour(hours + 1) / 60)
        .collect()
}

/// All changes of 241 histories were compared once, with 18 patterns; these are some of them.
#[test]
fn occurrences_agree_with_counted_minutes() {
    let patterns = [
        "30 2 * * *",
        "15,45 0-5 * * *",
        "0 1 1,15 * 1",
        "5 0,1,2,3,22,23 * * *",
        "*/15 * * * *",
        "0 */2 */2 * 0",
    ];
    let zones = [
        ("Europe/Berlin", [1990, 2026, 2049]),
        ("America/New_York", [2006, 2007, 2050]),
        ("Australia/Lord_Howe", [1995, 2008, 2040]),
        ("Africa/Casablanca", [2012, 2026, 2037]),
        ("America/Sao_Paulo", [1993, 2017, 2018]),
        ("Asia/Tehran", [1991, 2008, 2022]),
        ("Pacific/Apia", [2010, 2011, 2012]),
        ("Antarctica/Troll", [2005, 2026, 2045]),
        ("Antarctica/Casey", [2009, 2010, 2018]),
        ("Africa/Cairo", [1990, 2014, 2030]),
        ("America/Danmarkshavn", [1995, 1996, 1990]),
        ("Asia/Pyongyang", [2015, 2018, 2019]),
    ];
    let (database, mut compared) = (TimeZoneDatabase::bundled(), 0);
    for (name, years) in zones {
        let zone = database.get(name).expect("a zone");
        for change in years.into_iter().flat_map(|year| changes(&zone, year)) {
            for pattern in patterns {
                let (from, to) = (change - 300, change + 1_500);
                let of_minute = |minute: i64| Timestamp::from_millis(minute * 60_000);
                let counted: Vec<_> =
                    Oracle::parse(pattern).occurrences(&zone, from, to).into_iter().map(of_minute).collect();
                let recurrence = Recurrence::parse(&cron(pattern, name)).expect("valid");
                let found = recurrence.occurrences(of_minute(from).shifted(-1), of_minute(to).shifted(-1));
                assert_eq!(
                    found.collect::<Vec<_>>(),
                    counted,
                    "{pattern} in {name} at {}",
                    of_minute(change)
                );
                for run in counted {
                    let from_there = recurrence.occurrences(run.shifted(-1), run);
                    assert_eq!(from_there.collect::<Vec<_>>(), [run], "{pattern} in {name} from {run}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn unknown_zones_are_refused_with_the_nearest_names() {
    let version = zone_database_version();
    assert!(version.len() >= 5 && version.starts_with("20"), "{version}");
    for (name, remedy) in [
        ("Europe/Berlinn", "did you mean Europe/Berlin?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("Amerika/New_York", "did you mean America/New_York?"),
        ("Mars/Olympus", "use the name of a place, such as \"Europe/Berlin\", or \"UTC\""),
        ("+01:00", "use the name of a place, such as \"Europe/Berlin\", or \"UTC\""),
        ("\u{1F30D}", "use the name of a place, such as \"Europe/Berlin\", or \"UTC\""),
        ("Etc/Unknown", "use the name of a place, such as \"Europe/Berlin\", or \"UTC\""),
        ("", "use the name of a place, such as \"Europe/Berlin\", or \"UTC\""),
    ] {
        let told = Zone::parse(name).expect_err(name).to_string();
        assert_eq!(
            told,
            format!("time_zone is not a zone of the IANA database {version}; {remedy}"),
            "{name}"
        );
    }
    for name in ["UTC", "europe/berlin", "US/Eastern", "Etc/GMT-3"] {
        assert_eq!(Zone::parse(name).expect("a zone").name(), name);
    }
}
