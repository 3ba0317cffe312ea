//! Which days match, against rules that are written out.

use jiff::civil::{Date, Weekday, date};

use super::*;

/// The days of 2024 to 2031 at whose noon a pattern of days matches.
fn days(pattern: &str) -> Vec<Date> {
    let recurrence = recurrence(&cron(&format!("0 12 {pattern}"), "UTC"));
    let found = recurrence.occurrences(moment("2024-01-01T00:00:00Z"), moment("2032-01-01T00:00:00Z"));
    let day = |noon: Timestamp| {
        date(1970, 1, 1).saturating_add(jiff::SignedDuration::from_millis(noon.as_millis()))
    };
    found.map(day).collect()
}

fn is_working_day(day: Date) -> bool {
    !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// The working day of the month that is nearest to the 15th.
fn is_nearest_to_15th(day: Date) -> bool {
    match (day.weekday(), day.day()) {
        (Weekday::Friday, 14) | (Weekday::Monday, 16) => true,
        (_, 15) => is_working_day(day),
        _ => false,
    }
}

fn is_last_working_day(day: Date) -> bool {
    let later = (day.day() + 1..=day.days_in_month()).map(|later| date(day.year(), day.month(), later));
    is_working_day(day) && !later.into_iter().any(is_working_day)
}

#[test]
fn days_match_as_the_contract_says() {
    type Rule = fn(Date) -> bool;
    let rules: [(&str, Rule); 18] = [
        ("* * *", |_| true),
        ("13 * FRI", |day| day.day() == 13 || day.weekday() == Weekday::Friday),
        ("13 * +FRI", |day| day.day() == 13 && day.weekday() == Weekday::Friday),
        ("13 * *", |day| day.day() == 13),
        ("? * FRI", |day| day.weekday() == Weekday::Friday),
        ("*/2 * FRI", |day| day.day() % 2 == 1 && day.weekday() == Weekday::Friday),
        ("1-7 * */2", |day| day.day() <= 7 && day.weekday().to_sunday_zero_offset() % 2 == 0),
        ("1-31/2 * FRI", |day| day.day() % 2 == 1 || day.weekday() == Weekday::Friday),
        ("L * *", |day| day.day() == day.days_in_month()),
        ("15W * *", is_nearest_to_15th),
        ("LW * *", is_last_working_day),
        ("* * MON#1", |day| day.weekday() == Weekday::Monday && day.day() <= 7),
        ("* * WED#5", |day| day.weekday() == Weekday::Wednesday && day.day() > 28),
        ("* * FRI#L", |day| day.weekday() == Weekday::Friday && day.day() + 7 > day.days_in_month()),
        ("* * FRIL", |day| day.weekday() == Weekday::Friday && day.day() + 7 > day.days_in_month()),
        ("* * SAT-SUN", |day| !is_working_day(day)),
        ("* * 7", |day| day.weekday() == Weekday::Sunday),
        ("29 FEB *", |day| (day.month(), day.day()) == (2, 29)),
    ];
    for (pattern, matches) in rules {
        let all = date(2024, 1, 1).series(jiff::Span::new().days(1)).take_while(|day| day.year() < 2032);
        assert_eq!(days(pattern), all.filter(|day| matches(*day)).collect::<Vec<_>>(), "{pattern}");
    }
}
