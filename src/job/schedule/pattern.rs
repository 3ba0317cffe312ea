//! Patterns of cron: which wall-clock times match. Knows no time zone.
//!
//! The crate croner parses them and searches the calendar. Its errors name no field and no remedy, it takes names of days for
//! numbers anywhere, and it ignores empty items of a list, so a pattern is checked and translated to numbers before.

use std::{fmt, sync::Arc};

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::civil::DateTime;

use super::ScheduleError;

/// Longest text, in bytes.
const MAX_TEXT: usize = 256;

/// Short names of patterns.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// One of the six fields.
struct Field {
    name: &'static str,
    /// What it may be, for refusals.
    valid: &'static str,
    /// Names of its values, and the number of the first.
    names: (&'static [&'static str], usize),
    /// Words with a meaning of their own.
    words: &'static [&'static str],
}

const NO_NAMES: (&[&str], usize) = (&[], 0);

const FIELDS: [Field; 6] = [
    Field {
        name: "second",
        valid: "0-59, such as \"0\", \"0,30\", \"10-20\" or \"*/15\"",
        names: NO_NAMES,
        words: &[],
    },
    Field {
        name: "minute",
        valid: "0-59, such as \"30\", \"0,30\", \"10-20\" or \"*/15\"",
        names: NO_NAMES,
        words: &[],
    },
    Field {
        name: "hour",
        valid: "0-23, such as \"9\", \"9,17\", \"9-17\" or \"*/2\"",
        names: NO_NAMES,
        words: &[],
    },
    Field {
        name: "day of month",
        valid: "1-31, \"L\" (the last), \"15W\" (the working day nearest to the 15th) or \"LW\", such as \"1,15\" or \"*\"",
        names: NO_NAMES,
        words: &["L", "W", "LW"],
    },
    Field {
        name: "month",
        valid: "1-12 or JAN-DEC, such as \"6\", \"MAR,SEP\" or \"*/3\"",
        names: (&MONTHS, 1),
        words: &[],
    },
    Field {
        name: "day of week",
        valid: "0-7 or SUN-SAT (0 and 7 are Sunday), such as \"MON-FRI\", \"MON#1\" (the first Monday), \"FRI#L\" (the last Friday) or \"+MON\" (and the day of month must match as well)",
        names: (&DAYS, 0),
        words: &["L"],
    },
];
const DAY_OF_MONTH: usize = 3;
const MONTH: usize = 4;
const DAY_OF_WEEK: usize = 5;

/// A pattern of cron.
#[derive(Clone)]
pub struct CronPattern {
    text: Box<str>,
    /// Over 5 KB, most of it for the years.
    cron: Arc<Cron>,
    has_fixed_times: bool,
    has_seconds: bool,
}

impl CronPattern {
    /// Parses 5 fields (minute, hour, day of month, month, day of week), 6 with seconds first, or a name such as `@daily`.
    /// A day matches by its day of month *or* its day of week, unless one of the fields begins with `*`, as in Vixie cron,
    /// or the day of week begins with `+`: then both must match.
    ///
    /// # Errors
    /// [`ScheduleError`] if the text is something else. Whether any date matches is not checked.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let refused = |problem: String| ScheduleError::new("cron", problem);
        if text.len() > MAX_TEXT {
            return Err(refused(format!("must be at most {MAX_TEXT} characters long")));
        }
        let expanded = expand_nickname(text.trim()).map_err(refused)?;
        let fields = split(expanded).map_err(refused)?;
        let (cron, fields) = compile(&fields).map_err(refused)?;
        let has_fixed_times = !fields[1].contains('*') && !fields[2].contains('*');
        Ok(Self { text: text.into(), cron: Arc::new(cron), has_fixed_times, has_seconds: fields[0] != "0" })
    }

    /// The text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether hour and minute are without `*`. Such a run belongs to a time of day, others to the time that passes.
    pub(super) fn has_fixed_times(&self) -> bool {
        self.has_fixed_times
    }

    /// Whether two times may be less than a minute apart.
    pub(super) fn has_seconds(&self) -> bool {
        self.has_seconds
    }

    /// The first time at or after `from`, in whole seconds, that matches. The search goes month by month, then day by day,
    /// and ends in the year 5000.
    pub(super) fn first_match(&self, from: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&from, true).ok()
    }
}

impl PartialEq for CronPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CronPattern {}

impl fmt::Debug for CronPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

fn expand_nickname(text: &str) -> Result<&str, String> {
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Err("must not name a time zone; set time_zone instead".to_owned());
    }
    if !text.starts_with('@') {
        return Ok(text);
    }
    if text.starts_with("@every") {
        return Err("must not be an interval; set every instead of cron".to_owned());
    }
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, pattern)| *pattern).ok_or_else(|| {
        let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
        format!("is not a known name; the names are {}", names.join(", "))
    })
}

const YEAR: &str = "must not have a year; leave it out, and set start and end instead (a pattern of six fields begins with the second)";

/// The six fields, from second to day of week.
fn split(text: &str) -> Result<[&str; 6], String> {
    let mut fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let got = fields.len();
    let is_year = |text: &&str| text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    if got == 7 || fields.last().is_some_and(is_year) {
        return Err(YEAR.to_owned());
    }
    if got == 5 {
        fields.insert(0, "0");
    }
    let fields: [&str; 6] = fields.try_into().map_err(|_| {
        format!("must have 5 fields (minute, hour, day of month, month, day of week) or 6 with the second first, got {got}")
    })?;
    // As services write it that put the minute first and a year last: "0 9 ? * MON-FRI *".
    let is_for = |field: usize| translate(fields[MONTH], &FIELDS[field]).is_some();
    if !is_for(MONTH) && is_for(DAY_OF_WEEK) {
        return Err(YEAR.to_owned());
    }
    Ok(fields)
}

/// The pattern, and its fields in numbers.
fn compile(fields: &[&str; 6]) -> Result<(Cron, [String; 6]), String> {
    let refused = |at: usize| {
        let Field { name, valid, .. } = &FIELDS[at];
        format!("has the {name} {:?}, which must be {valid}", fields[at])
    };
    let mut numbers: [String; 6] = Default::default();
    for (at, field) in FIELDS.iter().enumerate() {
        numbers[at] = translate(fields[at], field).ok_or_else(|| refused(at))?;
    }
    let begins_with_star = [DAY_OF_MONTH, DAY_OF_WEEK].iter().any(|at| numbers[*at].starts_with('*'));
    match parser(begins_with_star).parse(&numbers.join(" ")) {
        Ok(cron) => Ok((cron, numbers)),
        Err(error) => {
            let is_at_fault = |at: &usize| {
                let mut alone = ["*"; 6];
                alone[*at] = &numbers[*at];
                parser(false).parse(&alone.join(" ")).is_err()
            };
            let at_fault = (0..FIELDS.len()).find(is_at_fault);
            Err(at_fault.map_or_else(|| format!("is malformed: {error}"), refused))
        }
    }
}

fn parser(both_days: bool) -> CronParser {
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
    parser.dom_and_dow(both_days).build()
}

/// A field with numbers in place of names; `None` if it has a word that means nothing there, or an empty item.
fn translate(text: &str, field: &Field) -> Option<String> {
    let text = text.to_ascii_uppercase();
    let is_of_days = !field.words.is_empty();
    if text == "?" && is_of_days {
        return Some("*".to_owned());
    }
    let items: Vec<&str> = text.split(',').collect();
    let has = |item: &str| items.contains(&item);
    // croner reads "L,LW" as "LW", and "L" as no day of the week at all.
    let is_ignored = has("L") && (has("LW") || !field.names.0.is_empty());
    if items.iter().any(|item| item.is_empty()) || is_ignored || text.contains('?') {
        return None;
    }
    let mut numbers = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(char::is_alphabetic) {
        let (before, after) = rest.split_at(start);
        let (word, after) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        numbers.push_str(before);
        let touches_number = before.ends_with(|c: char| c.is_ascii_digit());
        match number(word, field) {
            Some(number) if !touches_number => numbers.push_str(&number_in_range(number, before)),
            Some(_) | None if !field.words.contains(&word) => {
                let day = word.strip_suffix('L').filter(|_| field.words == ["L"])?;
                numbers.push_str(&format!("{}L", number(day, field).filter(|_| !touches_number)?));
            }
            Some(_) | None => numbers.push_str(word),
        }
        if after.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        rest = after;
    }
    Some(numbers + rest)
}

/// The number of a name.
fn number(word: &str, field: &Field) -> Option<usize> {
    let (names, first) = field.names;
    Some(names.iter().position(|name| *name == word)? + first)
}

/// Sunday ends a week as well as it begins one.
fn number_in_range(number: usize, before: &str) -> String {
    if number == 0 && before.ends_with('-') { "7".to_owned() } else { number.to_string() }
}
