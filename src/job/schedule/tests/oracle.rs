//! Counts minutes: walks through every minute of UTC, reads the wall clock, and compares it with the fields by a matcher of its
//! own. It knows neither croner nor how jiff resolves wall-clock times.

use jiff::tz::TimeZone;

/// A pattern of five fields with `*`, numbers, lists, ranges and steps.
pub struct Oracle {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    both_days: bool,
    has_fixed_times: bool,
}

impl Oracle {
    pub fn parse(text: &str) -> Self {
        let fields: Vec<&str> = text.split(' ').collect();
        let begins_with_star = |field: &str| field.starts_with('*');
        let mut weekdays = bits(fields[4].trim_start_matches('+'), 0, 7);
        weekdays |= weekdays >> 7 & 1;
        Self {
            minutes: bits(fields[0], 0, 59),
            hours: bits(fields[1], 0, 23),
            days: bits(fields[2], 1, 31),
            months: bits(fields[3], 1, 12),
            weekdays,
            both_days: begins_with_star(fields[2])
                || begins_with_star(fields[4])
                || fields[4].starts_with('+'),
            has_fixed_times: !fields[0].contains('*') && !fields[1].contains('*'),
        }
    }

    /// The occurrences from one minute to another, excluded, in minutes since 1970.
    pub fn occurrences(&self, zone: &TimeZone, from: i64, to: i64) -> Vec<i64> {
        let mut found = Vec::new();
        let wall = |minute: i64| {
            let moment = jiff::Timestamp::from_second(minute * 60).expect("in range");
            minute + i64::from(zone.to_offset(moment).seconds()) / 60
        };
        // The latest time that the wall clock has shown, for which a day before is long enough.
        let mut latest = (from - 1_500..from).map(wall).max().expect("not empty");
        for minute in from..to {
            let shown = wall(minute);
            let runs = if self.has_fixed_times {
                // With the times that the clock has left out.
                (latest + 1..=shown).any(|time| self.matches(time))
            } else {
                self.matches(shown)
            };
            found.extend(runs.then_some(minute));
            latest = latest.max(shown);
        }
        found
    }

    fn matches(&self, wall_minute: i64) -> bool {
        let has = |bits: u64, value: i64| bits >> value & 1 == 1;
        if !has(self.minutes, wall_minute.rem_euclid(60))
            || !has(self.hours, wall_minute.div_euclid(60).rem_euclid(24))
        {
            return false;
        }
        let day = wall_minute.div_euclid(1_440);
        let (month, day_of_month) = month_and_day(day);
        let (by_day, by_weekday) =
            (has(self.days, day_of_month), has(self.weekdays, (day + 4).rem_euclid(7)));
        has(self.months, month) && if self.both_days { by_day && by_weekday } else { by_day || by_weekday }
    }
}

fn bits(field: &str, min: u32, max: u32) -> u64 {
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let mut bits = 0;
    for item in field.split(',') {
        let (range, step) = item.split_once('/').map_or((item, 1), |(range, step)| (range, number(step)));
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first), number(last)),
            None if range == "*" => (min, max),
            None => (number(range), number(range)),
        };
        for value in (first..=last).step_by(step as usize) {
            bits |= 1 << value;
        }
    }
    bits
}

/// By the days since 1970, in the Gregorian calendar: the years are counted from March, so that a leap day ends one.
fn month_and_day(days: i64) -> (i64, i64) {
    let of_era = (days + 719_468).rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    ((month + 2) % 12 + 1, of_year - (153 * month + 2) / 5 + 1)
}
