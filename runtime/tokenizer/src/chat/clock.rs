//! `strftime_now`: the date and time in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A broken-down time, proleptic Gregorian.
struct Time {
    year: i64,
    /// 1 to 12.
    month: i64,
    /// 1 to 31.
    day: i64,
    /// 0 is Sunday.
    weekday: i64,
    /// 1 to 366.
    yearday: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Time {
    fn at(now: SystemTime) -> Time {
        let seconds = match now.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(0),
            Err(before) => i64::try_from(before.duration().as_secs()).map_or(0, |seconds| -seconds),
        };
        let days = seconds.div_euclid(86_400);
        let time = seconds.rem_euclid(86_400);
        // Years start in March, so that the leap day is the last: an era of 400 years has 146097
        // days, and month m (from March) starts at day (153 m + 2) / 5.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = 400 * era + year_of_era + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let yearday = if month <= 2 { day_of_year - 305 } else { day_of_year + 60 + i64::from(leap) };
        Time {
            year,
            month,
            day,
            weekday: (days + 4).rem_euclid(7),
            yearday,
            hour: time / 3_600,
            minute: time / 60 % 60,
            second: time % 60,
        }
    }
}

/// Formats `now` by the directives of C's `strftime` in the C locale that name parts of date and
/// time; `-` after the percent sign leaves out padding. Any other is an error.
pub(super) fn strftime(now: SystemTime, format: &str) -> Result<String, Error> {
    let time = Time::at(now);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next();
        let padded = directive != Some('-');
        if !padded {
            directive = chars.next();
        }
        let text = directive.and_then(|directive| expand(&time, directive, padded)).ok_or_else(|| {
            Error::new(ErrorKind::InvalidOperation, format!("strftime_now: unknown directive in `{format}`"))
        })?;
        out.push_str(&text);
    }
    Ok(out)
}

fn expand(time: &Time, directive: char, padded: bool) -> Option<String> {
    let number = |value: i64, width: usize| {
        if padded { format!("{value:0width$}") } else { value.to_string() }
    };
    let name = |names: &[&str], at: i64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).map(str::to_owned)
    };
    let short = |text: String| text.chars().take(3).collect::<String>();
    let hour12 = (time.hour + 11) % 12 + 1;
    Some(match directive {
        'Y' => number(time.year, 4),
        'y' => number(time.year.rem_euclid(100), 2),
        'm' => number(time.month, 2),
        'd' => number(time.day, 2),
        'e' if padded => format!("{:2}", time.day),
        'e' => number(time.day, 1),
        'j' => number(time.yearday, 3),
        'H' => number(time.hour, 2),
        'I' => number(hour12, 2),
        'M' => number(time.minute, 2),
        'S' => number(time.second, 2),
        'w' => number(time.weekday, 1),
        'u' => number((time.weekday + 6) % 7 + 1, 1),
        'p' => if time.hour < 12 { "AM" } else { "PM" }.to_owned(),
        'B' => name(&MONTHS, time.month - 1)?,
        'b' | 'h' => short(name(&MONTHS, time.month - 1)?),
        'A' => name(&DAYS, time.weekday)?,
        'a' => short(name(&DAYS, time.weekday)?),
        'F' => format!("{:04}-{:02}-{:02}", time.year, time.month, time.day),
        'D' => format!("{:02}/{:02}/{:02}", time.month, time.day, time.year.rem_euclid(100)),
        'T' => format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second),
        'R' => format!("{:02}:{:02}", time.hour, time.minute),
        'Z' => "UTC".to_owned(),
        'z' => "+0000".to_owned(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64, format: &str) -> String {
        strftime(UNIX_EPOCH + Duration::from_secs(seconds), format).unwrap()
    }

    #[test]
    fn known_moments() {
        assert_eq!(at(0, "%A %d %B %Y %H:%M:%S %j"), "Thursday 01 January 1970 00:00:00 001");
        // 29 February 2024, 13:05:09.
        assert_eq!(at(1_709_211_909, "%a %-d %b %y %I:%M:%S %p %j"), "Thu 29 Feb 24 01:05:09 PM 060");
        assert_eq!(at(1_709_211_909, "%F %T %D %R %e|%u%w%%"), "2024-02-29 13:05:09 02/29/24 13:05 29|44%");
        // 31 December 2024 and 2100-03-01, the day after a February without leap day.
        assert_eq!(at(1_735_603_200, "%F %j %a"), "2024-12-31 366 Tue");
        assert_eq!(at(4_107_542_400, "%F %j %e"), "2100-03-01 060  1");
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(strftime(before, "%F %T").unwrap(), "1969-12-31 23:59:59");
    }

    #[test]
    fn unknown_directives_are_errors() {
        for format in ["%Q", "%", "%-"] {
            assert!(strftime(UNIX_EPOCH, format).is_err(), "{format}");
        }
    }
}
