//! Dates and timestamps of JSON in their most common form.

use chrono::{Datelike, NaiveDate};

use crate::columns::{Accept, Reject};
use crate::numbers::padded;

/// 1970-01-01 as a number of days, of which 0001-01-01 is the first.
const EPOCH: i32 = 719_163;
const DAY_MICROS: i64 = 86_400_000_000;
const FIRST_MICROS: i64 = -62_135_596_800_000_000;
/// The last microsecond of the year 9999.
const LAST_MICROS: i64 = 253_402_300_799_999_999;

/// Days since 1970-01-01 of YYYY-MM-DD, in the years 0001 to 9999.
#[inline]
pub fn days(text: &[u8]) -> Accept<i32> {
    if text.len() != 10 || text[4] != b'-' || text[7] != b'-' {
        return Err(Reject);
    }
    let year = number2(&text[0..2])? * 100 + number2(&text[2..4])?;
    let date = NaiveDate::from_ymd_opt(year as i32, number2(&text[5..7])?, number2(&text[8..10])?).ok_or(Reject)?;
    within((date.num_days_from_ce() - EPOCH) as i64)
}

#[inline]
fn number2(digits: &[u8]) -> Accept<u32> {
    let tens = digits[0].wrapping_sub(b'0');
    let ones = digits[1].wrapping_sub(b'0');
    if tens > 9 || ones > 9 { Err(Reject) } else { Ok(tens as u32 * 10 + ones as u32) }
}

const FIRST_DAY: i64 = FIRST_MICROS / DAY_MICROS;
const LAST_DAY: i64 = LAST_MICROS / DAY_MICROS;

/// Days since 1970 in the years 0001 to 9999.
#[inline]
pub fn within(days: i64) -> Accept<i32> {
    if (FIRST_DAY..=LAST_DAY).contains(&days) { Ok(days as i32) } else { Err(Reject) }
}

/// Microseconds of a number of units since 1970; `unit` as in `Store::Moment`.
#[inline]
pub fn counted(number: i64, unit: i64) -> Accept<i64> {
    match unit {
        0 => micros_within(number.div_euclid(1000)),
        1.. => micros_within(number.checked_mul(unit).ok_or(Reject)?),
        _ => Err(Reject),
    }
}

/// Microseconds of a timestamp with or without an offset; without one it is in UTC.
#[inline]
pub fn moment(text: &[u8]) -> Accept<i64> {
    micros(text, true).or_else(|_| micros(text, false))
}

/// Microseconds of YYYY-MM-DD[Tt ]HH:MM:SS[.fraction], with Z, z or an offset ±HH:MM if `zoned`. Further digits of
/// the fraction are cut off. Leap seconds are left to Python.
#[inline]
pub fn micros(text: &[u8], zoned: bool) -> Accept<i64> {
    if text.len() < 19 || !matches!(text[10], b'T' | b't' | b' ') || text[13] != b':' || text[16] != b':' {
        return Err(Reject);
    }
    let days = days(&text[..10])? as i64;
    let (seconds, fraction, rest) = clock(&text[11..], 6)?;
    micros_within(days * DAY_MICROS + (seconds - offset(rest, zoned)?) * 1_000_000 + fraction)
}

/// The seconds since midnight of HH:MM:SS, the fraction after it with this many places, and the rest of a text that has
/// colons in their places. Further digits of the fraction are cut off.
#[inline(always)]
fn clock(text: &[u8], places: usize) -> Accept<(i64, i64, &[u8])> {
    let (hours, minutes, seconds) = (number2(&text[..2])?, number2(&text[3..5])?, number2(&text[6..8])?);
    if hours > 23 || minutes > 59 || seconds > 59 {
        return Err(Reject);
    }
    let mut rest = &text[8..];
    let mut fraction: i64 = 0;
    if let Some(digits) = rest.strip_prefix(b".") {
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 || count > 9 {
            return Err(Reject);
        }
        let written = digits[..count].iter().map(|digit| (digit - b'0') as i64);
        fraction = written.chain(std::iter::repeat(0)).take(places).fold(0, |value, digit| value * 10 + digit);
        rest = &digits[count..];
    }
    Ok(((hours * 3600 + minutes * 60 + seconds) as i64, fraction, rest))
}

/// Seconds east of UTC. Offsets beyond 18 hours, which only some formats allow, are left to Python.
fn offset(text: &[u8], zoned: bool) -> Accept<i64> {
    if !zoned {
        return if text.is_empty() { Ok(0) } else { Err(Reject) };
    }
    if text == b"Z" || text == b"z" {
        return Ok(0);
    }
    if text.len() != 6 || !matches!(text[0], b'+' | b'-') || text[3] != b':' {
        return Err(Reject);
    }
    let (hours, minutes) = (number2(&text[1..3])?, number2(&text[4..6])?);
    if minutes > 59 || hours * 60 + minutes > 18 * 60 {
        return Err(Reject);
    }
    let seconds = (hours * 3600 + minutes * 60) as i64;
    Ok(if text[0] == b'-' { -seconds } else { seconds })
}

/// How JSON has the times of day of a column.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Nanoseconds between two values of the column's type.
    pub step: i64,
    /// Nanoseconds in one of the numbers; 0 if numbers are no values.
    pub unit: i64,
    /// Whether texts are values, and whether these may end with Z.
    pub texts: bool,
    pub utc: bool,
}

/// Nanoseconds since midnight of this many units, if they are a time of day of a type with this step.
#[inline]
pub fn of_day(number: i64, unit: i64, step: i64) -> Accept<i64> {
    let nanos = number.checked_mul(unit).ok_or(Reject)?;
    if (0..DAY_MICROS * 1000).contains(&nanos) && nanos % step == 0 { Ok(nanos) } else { Err(Reject) }
}

impl Clock {
    /// Nanoseconds since midnight of a number.
    #[inline]
    pub fn counted(&self, number: i64) -> Accept<i64> {
        if self.unit == 0 { Err(Reject) } else { of_day(number, self.unit, self.step) }
    }

    /// Nanoseconds since midnight of HH:MM[:SS[.fraction]], with up to nine digits.
    #[inline]
    pub fn read(&self, text: &[u8]) -> Accept<i64> {
        let text = if self.utc { text.strip_suffix(b"Z").unwrap_or(text) } else { text };
        let mut minute = *b"00:00:00";
        let text = match text.len() {
            5 => {
                minute[..5].copy_from_slice(text);
                &minute[..]
            }
            _ => text,
        };
        if !self.texts || text.len() < 8 || text[2] != b':' || text[5] != b':' {
            return Err(Reject);
        }
        match clock(text, 9)? {
            (seconds, fraction, b"") => of_day(seconds * 1_000_000_000 + fraction, 1, self.step),
            _ => Err(Reject),
        }
    }
}

/// Microseconds since 1970 in the years 0001 to 9999.
#[inline]
pub fn micros_within(micros: i64) -> Accept<i64> {
    if (FIRST_MICROS..=LAST_MICROS).contains(&micros) { Ok(micros) } else { Err(Reject) }
}

/// YYYY-MM-DD.
pub fn write_date(days: i32, out: &mut Vec<u8>) {
    let date = NaiveDate::from_num_days_from_ce_opt(days + EPOCH).expect("a date of the years 0001 to 9999");
    padded(date.year() as u64, 4, out);
    out.push(b'-');
    padded(date.month() as u64, 2, out);
    out.push(b'-');
    padded(date.day() as u64, 2, out);
}

/// YYYY-MM-DDTHH:MM:SS.ffffff, with a Z after it if it is an instant.
pub fn write_moment(micros: i64, utc: bool, out: &mut Vec<u8>) {
    write_date(micros.div_euclid(DAY_MICROS) as i32, out);
    let of_day = micros.rem_euclid(DAY_MICROS) as u64;
    let seconds = of_day / 1_000_000;
    for (before, value, digits) in [
        (b'T', seconds / 3600, 2),
        (b':', seconds / 60 % 60, 2),
        (b':', seconds % 60, 2),
        (b'.', of_day % 1_000_000, 6),
    ] {
        out.push(before);
        padded(value, digits, out);
    }
    if utc {
        out.push(b'Z');
    }
}
