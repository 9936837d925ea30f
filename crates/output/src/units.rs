//! Sizes and durations: parsing from the command line, and formatting for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses `--pool 512MiB`: digits with KiB, MiB, GiB or K, M, G, which mean the same (1024). Digits
/// alone are bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = split_unit(text);
    let factor: u64 = match unit {
        "" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err(format!("{text:?} is not a size such as 65536, 96MiB or 4G")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("{text:?} is not a size such as 65536, 96MiB or 4G"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is more bytes than any machine has"))
}

/// Parses `--page 8KiB`: one of the three page sizes.
pub fn parse_page_size(text: &str) -> Result<u32, String> {
    match parse_size(text)? {
        4096 => Ok(4096),
        8192 => Ok(8192),
        16384 => Ok(16384),
        _ => Err("a page is 4KiB, 8KiB or 16KiB".into()),
    }
}

/// Parses `--recovery-target 10s`: digits with ms, s or m.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 500ms, 10s or 5m");
    let (digits, unit) = split_unit(text);
    let ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(wrong)
}

/// Parses `--seconds 60`: seconds, at most a year; fractions are allowed.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    if !(0.0..=31_536_000.0).contains(&number) {
        return Err(format!("{text} is not a number of seconds between 0 and a year"));
    }
    Ok(Duration::from_secs_f64(number))
}

/// Parses `--days 14`: days, more than 0 and at most a hundred years; fractions are allowed.
pub fn parse_days(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a number of days between 0 and 36525");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    if !(number > 0.0 && number <= 36_525.0) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(number * 86_400.0))
}

/// Parses a moment in UTC, as microseconds since 1970: `2026-11-24T14:03:20Z` and shorter,
/// `14:03`, which is the last one before `now_us`, or `-10m`, which is so long before.
pub fn parse_moment(text: &str, now_us: u64) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time such as 14:03, 14:03:20, -10m or 2026-11-24T14:03");
    if let Some(ago) = text.strip_prefix('-') {
        let length = parse_duration(ago).or_else(|_| {
            let hours: u64 = ago.strip_suffix('h').and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
            Ok::<Duration, String>(Duration::from_secs(hours.checked_mul(3600).ok_or_else(wrong)?))
        })?;
        return Ok(now_us.saturating_sub(length.as_micros() as u64));
    }
    let day_us = 86_400_000_000;
    if let Some(of_day) = time_of_day(text) {
        let today = now_us / day_us * day_us + of_day;
        return Ok(if today <= now_us { today } else { today.saturating_sub(day_us) });
    }
    let (date, time) = text.trim_end_matches('Z').split_once(['T', ' ']).ok_or_else(wrong)?;
    let of_day = time_of_day(time).ok_or_else(wrong)?;
    let midnight = humantime::parse_rfc3339_weak(&format!("{date} 00:00:00")).map_err(|_| wrong())?;
    let midnight = midnight.duration_since(UNIX_EPOCH).map_err(|_| wrong())?;
    Ok(midnight.as_micros() as u64 + of_day)
}

/// Parses `14:03` or `14:03:20`, as microseconds of the day.
fn time_of_day(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    let [hours, minutes, seconds] = match parts.as_slice() {
        [hours, minutes] => [*hours, *minutes, "0"],
        [hours, minutes, seconds] => [*hours, *minutes, *seconds],
        _ => return None,
    };
    let number = |text: &str, below: u64| {
        let plain = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten().filter(|n: &u64| *n < below)
    };
    Some((number(hours, 24)? * 3600 + number(minutes, 60)? * 60 + number(seconds, 60)?) * 1_000_000)
}

/// Parses the time of a measurement, `--seconds 0.5`: seconds, more than 0.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    if time.is_zero() { Err("nothing can be measured in 0 seconds".into()) } else { Ok(time) }
}

/// Parses `--rate 500`: transactions a second, more than 0.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.parse().map_err(|_| format!("{text:?} is not a number of transactions a second"))?;
    if !(0.001..=1e9).contains(&number) {
        return Err(format!("{text} is not a rate between 0.001 and a billion transactions a second"));
    }
    Ok(number)
}

fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Formats a size for people: `1.2 GiB`, `512 MiB`, `17 B`.
pub fn show_size(bytes: f64) -> String {
    for (unit, factor) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        let factor = factor as f64;
        if bytes >= factor {
            let value = bytes / factor;
            return if value >= 100.0 || value.fract() == 0.0 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
    }
    format!("{bytes:.0} B")
}

/// Formats a count for people: `1 234 567`.
pub fn show_count(n: f64) -> String {
    let digits = format!("{:.0}", n.abs());
    let mut out = String::new();
    if n <= -0.5 {
        out.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Formats a time in microseconds for people: `850 µs`, `1.9 ms`, `2.5 s`.
pub fn show_micros(us: f64) -> String {
    if us < 10.0 {
        format!("{us:.1} µs")
    } else if us < 1000.0 {
        format!("{us:.0} µs")
    } else if us < 1_000_000.0 {
        format!("{:.1} ms", us / 1000.0)
    } else {
        format!("{:.2} s", us / 1_000_000.0)
    }
}

/// The last second that has a date of four digits for its year.
const LAST_SECOND: u64 = 253_402_300_799;

/// Formats a moment, microseconds since 1970, in UTC: `2026-11-24T14:03:20Z`. `None` after the year
/// 9999, which only a wrong clock or another unit gives.
pub(crate) fn date(unix_us: u64) -> Option<String> {
    let seconds = unix_us / 1_000_000;
    (seconds <= LAST_SECOND)
        .then(|| humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string())
}

/// The same for people: without a date, the seconds.
pub fn show_date(unix_us: u64) -> String {
    date(unix_us).unwrap_or_else(|| format!("{} s after 1970", unix_us / 1_000_000))
}

/// Returns the time of day, microseconds since 1970; 0 if the clock is before that.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let at =
            |text: &str| humantime::parse_rfc3339_weak(text).unwrap().duration_since(UNIX_EPOCH).unwrap();
        let now_us = at("2026-11-24 14:10:00").as_micros() as u64;
        for (text, moment) in [
            ("14:03", "2026-11-24 14:03:00"),
            ("14:03:20", "2026-11-24 14:03:20"),
            ("14:10", "2026-11-24 14:10:00"),
            ("14:11", "2026-11-23 14:11:00"),
            ("-10m", "2026-11-24 14:00:00"),
            ("-2h", "2026-11-24 12:10:00"),
            ("2026-11-20T23:59", "2026-11-20 23:59:00"),
            ("2026-11-20 01:02:03", "2026-11-20 01:02:03"),
            ("2026-11-20T01:02:03Z", "2026-11-20 01:02:03"),
        ] {
            assert_eq!(parse_moment(text, now_us), Ok(at(moment).as_micros() as u64), "{text}");
        }
        for text in [
            "",
            "14",
            "24:00",
            "14:60",
            "1403",
            "14:03:20:1",
            "-10",
            "-m",
            "-99999999999999999999h",
            "2026-13-01T00:00",
            "yesterday",
            "14:+3",
        ] {
            assert!(parse_moment(text, now_us).is_err(), "{text}");
        }
        assert_eq!(parse_days("0.5"), Ok(Duration::from_secs(43_200)));
        for text in ["", "0", "-1", "36526", "NaN", "inf"] {
            assert!(parse_days(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("4K", 4096),
            ("4KiB", 4096),
            ("96MiB", 96 << 20),
            ("96M", 96 << 20),
            ("3GiB", 3 << 30),
            ("3G", 3 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "1.5G",
            "-1",
            "96MB",
            "96 MiB",
            "1T",
            "0x10",
            "99999999999999999999",
            "18446744073709551615K",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pages_come_in_three_sizes() {
        assert_eq!(parse_page_size("4K"), Ok(4096));
        assert_eq!(parse_page_size("8192"), Ok(8192));
        assert_eq!(parse_page_size("16KiB"), Ok(16384));
        assert!(parse_page_size("5000").is_err());
        assert!(parse_page_size("32K").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        for text in ["", "10", "s", "-1s", "1.5s", "1h", "99999999999999999999s", "99999999999999999m"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_and_rates() {
        assert_eq!(parse_seconds("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "x", "-1", "inf", "NaN", "1e30"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
        assert_eq!((parse_time("0.5"), parse_seconds("0")), (parse_seconds("0.5"), Ok(Duration::ZERO)));
        assert!(parse_time("0").is_err() && parse_time("-1").is_err());
        assert_eq!(parse_rate("500"), Ok(500.0));
        for text in ["0", "-5", "NaN", "inf", "fast"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_for_people() {
        assert_eq!(show_size(17.0), "17 B");
        assert_eq!(show_size(1536.0), "1.5 KiB");
        assert_eq!(show_size(512.0 * 1048576.0), "512 MiB");
        assert_eq!(show_count(1234567.0), "1 234 567");
        assert_eq!(show_count(999.0), "999");
        assert_eq!(show_micros(3.25), "3.2 µs");
        assert_eq!(show_micros(1900.0), "1.9 ms");
    }

    /// The program panicked where a time was in milliseconds.
    #[test]
    fn a_moment_after_the_year_9999_has_no_date() {
        assert_eq!(show_date(1_732_456_999_500_000), "2024-11-24T14:03:19Z");
        assert_eq!(show_date(253_402_300_799_999_999), "9999-12-31T23:59:59Z");
        assert_eq!(show_date(253_402_300_800_000_000), "253402300800 s after 1970");
        assert_eq!(show_date(u64::MAX), "18446744073709 s after 1970");
    }
}
