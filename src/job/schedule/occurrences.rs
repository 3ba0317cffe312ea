//! The moments at which a pattern matches in a time zone.
//!
//! A pattern without `*` in hour and minute belongs to times of day: a time that the zone leaves out runs right after the gap,
//! and one that it repeats runs the first time. Any other pattern belongs to the time that passes: times that are left out do
//! not run, and repeated ones run twice. This is what Vixie cron does.
//!
//! croner searches wall-clock times only. Its own search in zones is not used: it fails in gaps of more than two hours, such
//! as the day that Samoa left out.

use jiff::{
    Timestamp, ToSpan,
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

use super::CronPattern;

/// The rarest patterns are for a 29 February on one day of the week, which may be 40 years apart.
const HORIZON_YEARS: i64 = 41;

/// The first occurrence at or after `from`, which is a whole second. `None` if there is none within 41 years.
pub fn first_occurrence(pattern: &CronPattern, zone: &TimeZone, from: Timestamp) -> Option<Timestamp> {
    if pattern.has_fixed_times() {
        first_at_time_of_day(pattern, zone, from)
    } else {
        first_in_passing_time(pattern, zone, from)
    }
}

/// Matches in turn, each at its moment. Later matches have later moments, or the same after a gap.
fn first_at_time_of_day(pattern: &CronPattern, zone: &TimeZone, from: Timestamp) -> Option<Timestamp> {
    // A second earlier, which shows a time before the gap when `from` is right after it: those in the gap belong to that moment.
    let mut wall = first_new_time(zone, from.checked_sub(1.second()).unwrap_or(from));
    loop {
        wall = pattern.first_match(wall)?;
        let moment = moment_of(zone, wall)?;
        if moment >= from {
            return Some(moment);
        }
        wall = wall.checked_add(1.second()).ok()?;
    }
}

/// The first wall-clock time from `from` on that is shown for the first time.
fn first_new_time(zone: &TimeZone, from: Timestamp) -> DateTime {
    let offset = zone.to_offset(from);
    let wall = offset.to_datetime(from);
    let AmbiguousOffset::Fold { before, after } = zone.to_ambiguous_timestamp(wall).offset() else {
        return wall;
    };
    let first_time = before.to_timestamp(wall).ok().filter(|_| offset == after);
    let change = first_time.and_then(|first_time| change_to(zone, after, first_time));
    change.map_or(wall, |change| before.to_datetime(change))
}

/// The moment of a wall-clock time: the first if it is repeated, the end of the gap if it is left out.
fn moment_of(zone: &TimeZone, wall: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset: before } | AmbiguousOffset::Fold { before, .. } => {
            before.to_timestamp(wall).ok()
        }
        AmbiguousOffset::Gap { after, .. } => change_to(zone, after, after.to_timestamp(wall).ok()?),
    }
}

/// When the zone changes to this offset, after a moment. The zone has other changes than those of the offset, too.
fn change_to(zone: &TimeZone, offset: Offset, after: Timestamp) -> Option<Timestamp> {
    let change = zone.following(after).find(|change| change.offset() == offset)?;
    Some(change.timestamp())
}

/// Searches each stretch of one offset in turn.
fn first_in_passing_time(pattern: &CronPattern, zone: &TimeZone, from: Timestamp) -> Option<Timestamp> {
    let end = from.checked_add((HORIZON_YEARS * 366 * 24).hours()).unwrap_or(Timestamp::MAX);
    let (mut start, mut offset) = (from, zone.to_offset(from));
    let mut changes = zone.following(from);
    let mut searched_from = offset.to_datetime(start);
    let mut wall = pattern.first_match(searched_from)?;
    while start < end {
        let first = offset.to_datetime(start);
        // The last search counts for this stretch, too, unless the clock went back behind its beginning.
        if !(searched_from..=wall).contains(&first) {
            (searched_from, wall) = (first, pattern.first_match(first)?);
        }
        let moment = offset.to_timestamp(wall).ok()?;
        match changes.next() {
            Some(change) if change.timestamp() <= moment => {
                (start, offset) = (change.timestamp(), change.offset());
            }
            Some(_) | None => return Some(moment),
        }
    }
    None
}
