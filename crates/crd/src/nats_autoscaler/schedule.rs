//! Limits at certain times: when a schedule begins, and whether it is in force. Pure.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::validate::SpecError;
use crate::common::Duration;

/// A schedule may last this long; one that is in force is looked for among as many days.
const DAYS_MAX: i64 = 31;

/// Other limits at certain times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.minReplicas) || has(self.maxReplicas)")
    .message("a schedule sets minReplicas, maxReplicas or both"))]
pub struct Schedule {
    /// When it begins: minute, hour, day of the month, month, day of the week (0 is Sunday), with `*`, lists, ranges and steps.
    #[schemars(length(min = 9, max = 256))]
    pub cron: String,
    /// How long it is in force, at most 31 days.
    pub duration: Duration,
    /// Time zone of the clock, such as `Europe/Berlin`. `UTC` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// Least replicas then, also without work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub min_replicas: Option<i32>,
    /// Most replicas then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub max_replicas: Option<i32>,
}

impl Schedule {
    /// The time zone.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn zone(&self) -> Result<TimeZone, SpecError> {
        match self.time_zone.as_deref() {
            None | Some("UTC") => Ok(TimeZone::UTC),
            Some(zone) => TimeZone::get(zone).map_err(|_| SpecError::Zone { zone: zone.to_owned() }),
        }
    }

    /// Whether it is in force. One that cannot be read never is.
    #[must_use]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        let (Ok(cron), Ok(zone), Ok(duration)) =
            (Cron::parse(&self.cron), self.zone(), self.duration.parse())
        else {
            return false;
        };
        let longest = SignedDuration::from_hours(24 * DAYS_MAX);
        let duration = SignedDuration::try_from(duration).map_or(longest, |duration| duration.min(longest));
        let now = now.to_zoned(zone);
        let mut day = now.date();
        for _ in 0..=DAYS_MAX {
            if cron.is_on(day) && cron.times_on(day, &now).any(|start| covers(&start, duration, &now)) {
                return true;
            }
            match day.checked_sub(1.day()) {
                Ok(before) => day = before,
                Err(_) => return false,
            }
        }
        false
    }
}

fn covers(start: &Zoned, duration: SignedDuration, now: &Zoned) -> bool {
    let since = now.timestamp().duration_since(start.timestamp());
    !since.is_negative() && since < duration
}

/// When something begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Vec<i8>,
    months: Vec<i8>,
    weekdays: Vec<i8>,
    /// Both a day of the month and a day of the week are named: either will do, as everywhere with such texts.
    either_day: bool,
}

impl Cron {
    /// Reads five fields.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("write five fields instead of {}", fields.len()));
        };
        let mut week = field(weekdays, 0, 7)?;
        // Sunday has two numbers.
        if week.contains(&7) {
            week.retain(|day| *day != 7 && *day != 0);
            week.insert(0, 0);
        }
        Ok(Self {
            minutes: field(minutes, 0, 59)?,
            hours: field(hours, 0, 23)?,
            days: field(days, 1, 31)?,
            months: field(months, 1, 12)?,
            weekdays: week,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        })
    }

    fn is_on(&self, date: Date) -> bool {
        let in_month = self.days.contains(&date.day());
        let in_week = self.weekdays.contains(&date.weekday().to_sunday_zero_offset());
        let day = if self.either_day { in_month || in_week } else { in_month && in_week };
        day && self.months.contains(&date.month())
    }

    /// Beginnings on a day, in the time zone of `like`. A time that the clock skips is taken at the next one that it shows.
    fn times_on<'a>(&'a self, date: Date, like: &'a Zoned) -> impl Iterator<Item = Zoned> + 'a {
        let times = self.hours.iter().flat_map(|hour| self.minutes.iter().map(|minute| (*hour, *minute)));
        times.filter_map(move |(hour, minute)| {
            date.at(hour, minute, 0, 0).to_zoned(like.time_zone().clone()).ok()
        })
    }
}

/// Numbers of a field: `*`, numbers, ranges and steps, with commas between.
fn field(text: &str, first: i8, last: i8) -> Result<Vec<i8>, String> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let wrong = || format!("`{part}` is not within {first}-{last}");
        let number =
            |text: &str| text.parse::<i8>().ok().filter(|n| (first..=last).contains(n)).ok_or_else(wrong);
        let (range, step) = match part.split_once('/') {
            None => (part, 1),
            Some((range, step)) => {
                let step = step.parse::<usize>().ok().filter(|step| (1..=60).contains(step));
                (range, step.ok_or_else(|| format!("`{part}` has no step of 1-60"))?)
            }
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from)?, number(to)?),
            None if range == "*" => (first, last),
            // A number with a step goes on to the end.
            None if step > 1 => (number(range)?, last),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(wrong());
        }
        numbers.extend((from..=to).step_by(step));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force(cron: &str, duration: &str, zone: Option<&str>, now: &str) -> bool {
        let schedule = Schedule {
            cron: cron.to_owned(),
            duration: Duration(duration.to_owned()),
            time_zone: zone.map(str::to_owned),
            min_replicas: Some(1),
            max_replicas: None,
        };
        assert!(Cron::parse(cron).is_ok(), "{cron}");
        schedule.is_in_force(now.parse().unwrap())
    }

    #[test]
    fn a_schedule_lasts_from_its_beginning_to_its_end() {
        // 2026-12-02 is a Wednesday.
        let work = |now| in_force("0 8 * * 1-5", "10h", None, now);
        assert!(!work("2026-12-02T07:59:59Z"));
        assert!(work("2026-12-02T08:00:00Z"));
        assert!(work("2026-12-02T17:59:59Z"));
        assert!(!work("2026-12-02T18:00:00Z"));
        assert!(!work("2026-12-05T12:00:00Z"), "a Saturday");
        assert!(in_force("0 22 * * *", "8h", None, "2026-12-02T05:00:00Z"), "over midnight");
        assert!(in_force("0 0 1 * *", "72h", None, "2026-12-03T23:00:00Z"), "over days");
    }

    #[test]
    fn clocks_of_other_places_are_followed() {
        let night = |now| in_force("30 1 * * *", "1h", Some("Europe/Berlin"), now);
        assert!(night("2026-12-02T00:30:00Z"), "an hour ahead in winter");
        assert!(!night("2026-12-02T01:30:00Z"));
        assert!(night("2026-07-01T23:30:00Z"), "two in summer");
    }

    #[test]
    fn fields_have_lists_ranges_and_steps() {
        assert_eq!(field("*/15", 0, 59).unwrap(), [0, 15, 30, 45]);
        assert_eq!(field("1,3-5,3", 0, 59).unwrap(), [1, 3, 4, 5]);
        assert_eq!(field("50/5", 0, 59).unwrap(), [50, 55]);
        assert!(in_force("0 0 * * 7", "1h", None, "2026-12-06T00:30:00Z"), "Sunday has two numbers");
        assert!(in_force("0 0 13 * 5", "1h", None, "2026-12-04T00:30:00Z"), "either day");
        for wrong in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "* * 0 * *",
        ] {
            assert!(Cron::parse(wrong).is_err(), "{wrong}");
        }
    }
}
