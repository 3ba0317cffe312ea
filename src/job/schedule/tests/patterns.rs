//! Which patterns are accepted, and what the others are told.

use proptest::prelude::*;

use super::*;

fn refusal(pattern: &str) -> String {
    let parsed = Recurrence::parse(&cron(pattern, "UTC")).and_then(|recurrence| recurrence.check());
    parsed.map_or_else(|error| error.to_string(), |()| format!("{pattern} is accepted"))
}

#[test]
fn the_forms_of_the_contract_are_accepted() {
    for pattern in [
        "30 9 * * MON-FRI",
        "0 30 9 * * mon-fri",
        " 0\t0  1 jan,JUL *  ",
        "*/15 8-18/2 * * *",
        "0 0 L * *",
        "0 0 LW * ?",
        "0 0 15W * *",
        "0 0 ? * FRI#L",
        "0 0 * * FRIL",
        "0 0 * * 5L",
        "0 0 * * MON#1,WED#3",
        "0 0 13 * +FRI",
        "0 0 * * SAT-SUN",
        "0 0 * * SUN-TUE",
        "0 0 29 2 *",
        "0 0 29 2 +MON",
        "* * * * * *",
        "@daily",
        "@Midnight",
        "@hourly",
        "@weekly",
        "@monthly",
        "@yearly",
        "@annually",
    ] {
        let parsed = recurrence(&cron(pattern, "UTC"));
        let Rule::Cron { pattern: kept, .. } = parsed.rule() else { panic!("{pattern}") };
        assert_eq!(kept.as_str(), pattern, "the text is kept");
    }
}

#[test]
fn refusals_name_the_field_and_the_remedy() {
    let year = "cron must not have a year; leave it out, and set start and end instead";
    for (pattern, told) in [
        ("", "cron must have 5 fields (minute, hour, day of month, month, day of week)"),
        ("30 9 * *", "or 6 with the second first, got 4"),
        ("0 0 0 0 0 0 0 0", "got 8"),
        ("60 9 * * *", "cron has the minute \"60\", which must be 0-59, such as"),
        ("0 24 * * *", "cron has the hour \"24\", which must be 0-23, such as"),
        ("61 0 0 * * *", "cron has the second \"61\", which must be 0-59, such as"),
        ("0 0 32 * *", "cron has the day of month \"32\", which must be 1-31, \"L\" (the last)"),
        ("0 0 0 * *", "cron has the day of month \"0\""),
        ("0 0 1 13 *", "cron has the month \"13\", which must be 1-12 or JAN-DEC"),
        ("0 0 * * 8", "cron has the day of week \"8\", which must be 0-7 or SUN-SAT"),
        ("0 0 * * MONDAY", "cron has the day of week \"MONDAY\""),
        ("0 0 * * L", "cron has the day of week \"L\""),
        ("0 0 L,LW * *", "cron has the day of month \"L,LW\""),
        ("0 MON * * *", "cron has the hour \"MON\""),
        ("0 0 1MON * *", "cron has the day of month \"1MON\""),
        ("0 0 * * 1MON", "cron has the day of week \"1MON\""),
        ("0 0 * * MON5", "cron has the day of week \"MON5\""),
        ("0 0 * * MON#6", "cron has the day of week \"MON#6\""),
        ("0 0 W * *", "cron has the day of month \"W\""),
        ("0 0 L-3 * *", "cron has the day of month \"L-3\""),
        ("0,,30 * * * *", "cron has the minute \"0,,30\""),
        (", * * * *", "cron has the minute \",\""),
        ("0/10 * * * *", "cron has the minute \"0/10\""),
        ("*/0 * * * *", "cron has the minute \"*/0\""),
        ("0 17-9 * * *", "cron has the hour \"17-9\""),
        ("0 ? * * *", "cron has the hour \"?\""),
        ("0 -1 * * *", "cron has the hour \"-1\""),
        ("0 é * * *", "cron has the hour \"é\""),
        ("0 0 * * FRI-MON", "cron has the day of week \"FRI-MON\""),
        ("0 9 1 1 * 2027", year),
        ("0 0 9 1 1 * 2027", year),
        ("0 9 1 1 2027", year),
        ("0 9 ? * MON-FRI *", year),
        ("0 0 9 ? * MON *", year),
        ("@reboot", "cron is not a known name; the names are @yearly, @annually"),
        ("@every 5m", "cron must not be an interval; set every instead of cron"),
        ("CRON_TZ=Europe/Berlin 0 9 * * *", "cron must not name a time zone; set time_zone instead"),
        ("0 0 31 2 *", "cron never matches in the zone UTC: no year has such a date"),
        ("0 0 30 2 *", "cron never matches in the zone UTC"),
        ("0 0 31 4,6 *", "cron never matches in the zone UTC"),
    ] {
        assert!(refusal(pattern).contains(told), "{pattern:?}: {}", refusal(pattern));
    }
    let long = "0,".repeat(200);
    assert_eq!(refusal(&long), "cron must be at most 256 characters long");
}

#[test]
fn a_pattern_whose_every_match_is_left_out_by_the_clocks_is_refused() {
    // In Cairo the last Friday of April begins at one.
    let midnight = cron("0 */24 * 4 FRI#L", "Africa/Cairo");
    let refused = Recurrence::parse(&midnight).and_then(|recurrence| recurrence.check());
    let told = refused.expect_err("never matches").to_string();
    assert!(told.starts_with("cron never matches in the zone Africa/Cairo"), "{told}");
    let runs_after_the_gap = recurrence(&cron("0 0 * 4 FRI#L", "Africa/Cairo"));
    assert_eq!(
        runs_after_the_gap.following(moment("2027-01-01T00:00:00Z")),
        Some(moment("2027-04-29T22:00:00Z"))
    );
}

#[test]
fn either_a_pattern_or_an_interval_is_needed() {
    let both = RecurrenceFields { every: Some(minutes(1)), ..cron("@daily", "UTC") };
    let zone = RecurrenceFields { time_zone: Some("UTC".to_owned()), ..every(minutes(1)) };
    let (start, end) = (Some(moment("2026-01-02T00:00:00Z")), Some(moment("2026-01-01T00:00:00Z")));
    for (fields, told) in [
        (RecurrenceFields::default(), "cron is missing; set it, such as to \"0 9 * * *\", or set every"),
        (both, "every must not be beside cron; leave one of them out"),
        (zone, "time_zone has no meaning for every; leave it out, or use cron"),
        (every(Duration::from_millis(999)), "every must be between 1 s and 10 years"),
        (every(hours(24 * 366 * 10)), "every must be between 1 s and 10 years"),
        (RecurrenceFields { start, end, ..every(minutes(1)) }, "end must not be before start"),
    ] {
        let refused = Recurrence::parse(&fields).expect_err(told);
        assert_eq!(refused.to_string(), told);
    }
}

proptest! {
    // Enough for a build that is not optimised; thousands found no more.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_parsed_or_refused_without_panic(text in "\\PC{0,40}", like in "[0-9A-Z*,/#?@+ -]{0,24}") {
        let _ = (CronPattern::parse(&text), CronPattern::parse(&like));
    }

    /// What is accepted has an occurrence after any moment.
    #[test]
    fn what_is_accepted_never_ends(
        fields in prop::collection::vec("(\\*|[0-9]{1,2}|\\*/[1-9]|[0-9]-[0-9]{2}|L|15W|[1-7]#[1-5])", 5),
        after_s in 0i64..4_000_000_000,
    ) {
        if let Ok(recurrence) = Recurrence::parse(&cron(&fields.join(" "), "Europe/Berlin"))
            && recurrence.check().is_ok()
        {
            let after = Timestamp::from_millis(after_s * 1_000);
            let following = recurrence.following(after);
            prop_assert!(following.is_some_and(|next| next > after), "{:?}: {:?}", recurrence, following);
        }
    }
}
