//! Decimals as unscaled integers.

use std::str::from_utf8;

use crate::columns::{Accept, Reject};

/// Python refuses integers of more than 4300 digits; no number of interest comes near.
pub const LONGEST_NUMBER: usize = 1000;

/// The number in a text as an unscaled integer; rejects one that loses digits or is out of range.
pub fn decimal(text: &[u8], precision: u8, scale: i8) -> Accept<i128> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut value: i128 = 0;
    let mut significant = 0;
    let mut exponent: i32 = 0;
    let mut fraction = false;
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'0'..=b'9' => {
                if significant > 0 || byte != b'0' {
                    significant += 1;
                    if significant > 38 {
                        return Err(Reject);
                    }
                }
                value = value * 10 + (byte - b'0') as i128;
                exponent -= fraction as i32;
            }
            b'.' => fraction = true,
            _ => {
                let text = from_utf8(rest.as_slice()).map_err(|_| Reject)?;
                let written: i32 = text.parse().map_err(|_| Reject)?;
                if written.abs() > 1000 {
                    return Err(Reject);
                }
                exponent += written;
                break;
            }
        }
    }
    let value = rescaled(value, exponent + scale as i32, precision)?;
    Ok(if negative { -value } else { value })
}

/// The decimal in a text of digits; anything more is left to the reference.
pub fn plain_decimal(text: &[u8], precision: u8, scale: i8) -> Accept<i128> {
    let mut parts = text.strip_prefix(b"-").unwrap_or(text).splitn(2, |&byte| byte == b'.');
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    if text.len() > LONGEST_NUMBER || !parts.all(digits) {
        return Err(Reject);
    }
    decimal(text, precision, scale)
}

/// A big-endian two's complement number of at most 38 digits; no bytes stand for zero.
pub fn unscaled(bytes: &[u8]) -> Accept<i128> {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let (sign, mut value) = if negative { (0xff, -1i128) } else { (0, 0) };
    let surplus = bytes.len().saturating_sub(16);
    if bytes[..surplus].iter().any(|&byte| byte != sign) || (surplus > 0 && (bytes[surplus] ^ sign) & 0x80 != 0) {
        return Err(Reject);
    }
    for &byte in &bytes[surplus..] {
        value = value << 8 | byte as i128;
    }
    if value.unsigned_abs() >= 10u128.pow(38) { Err(Reject) } else { Ok(value) }
}

/// value * 10^shift as a decimal of this precision; rejects a number that does not fit or would lose digits.
pub fn rescaled(value: i128, shift: i32, precision: u8) -> Accept<i128> {
    if value == 0 {
        return Ok(0);
    }
    if !(-38..=38).contains(&shift) {
        return Err(Reject);
    }
    let power = 10i128.pow(shift.unsigned_abs());
    let value = if shift >= 0 {
        value.checked_mul(power).ok_or(Reject)?
    } else {
        if value % power != 0 {
            return Err(Reject);
        }
        value / power
    };
    if value.unsigned_abs() >= 10u128.pow(precision as u32) { Err(Reject) } else { Ok(value) }
}
