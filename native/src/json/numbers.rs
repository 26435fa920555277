//! Numbers of JSON.

use std::str::from_utf8;

use super::Parser;
use crate::columns::{Accept, Reject};
use crate::decimals::{LONGEST_NUMBER, decimal, rescaled};

const ONES: u64 = 0x0101_0101_0101_0101;

pub(super) struct Number<'a> {
    pub(super) text: &'a [u8],
    pub(super) integer: bool,
    /// All its digits as one number; exact if there are at most 19.
    pub(super) digits: u64,
    pub(super) count: usize,
    /// The number of digits after the point.
    pub(super) fraction: usize,
    /// Whether the number has an exponent.
    pub(super) exponent: bool,
}

/// The powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The nearest double to a quotient. Neither number is 0.
#[inline]
fn quotient(numerator: u64, denominator: u64) -> f64 {
    let (up, down) = (numerator.leading_zeros(), denominator.leading_zeros());
    let (dividend, divisor) = (((numerator << up) as u128) << 62, (denominator << down) as u128);
    // A double keeps 53 of its 62 or 63 bits, so the last bit can stand for all that follow, and rounding is one step.
    let bits = (dividend / divisor) as u64;
    let bits = bits | (bits as u128 * divisor != dividend) as u64;
    let exponent = 1023 - 62 + down as u64 - up as u64;
    bits as f64 * f64::from_bits(exponent << 52)
}

impl Number<'_> {
    /// The nearest double of a quotient of whole numbers: a number without an exponent, of at most 19 digits.
    #[inline]
    fn plain(&self) -> Option<f64> {
        if self.exponent || self.count > 19 {
            return None;
        }
        let power = POWERS.get(self.fraction)?;
        // Where both sides are exact doubles, their quotient is rounded once.
        let small = self.digits <= 1 << 53;
        let value = if small { self.digits as f64 / power } else { quotient(self.digits, *power as u64) };
        Some(if self.text[0] == b'-' { -value } else { value })
    }

    /// The number as an unscaled integer; rejects one that loses digits or is out of range.
    #[inline]
    pub(super) fn decimal(&self, precision: u8, scale: i8) -> Accept<i128> {
        if self.exponent || self.count > 19 {
            return decimal(self.text, precision, scale);
        }
        let value = rescaled(self.digits as i128, scale as i32 - self.fraction as i32, precision)?;
        Ok(if self.text[0] == b'-' { -value } else { value })
    }
}

/// The number in eight characters, the first in the lowest byte; None if one is not a digit.
#[inline]
fn of_eight_digits(word: u64) -> Option<u64> {
    const HIGH_HALVES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const OTHERS: u64 = 0x0000_00ff_0000_00ff;
    // Characters of digits are 0x30 to 0x39, and stay below 0x40 with 6 more.
    let halves = (word & HIGH_HALVES) | ((word.wrapping_add(ONES * 6) & HIGH_HALVES) >> 4);
    if halves != ONES * 0x33 {
        return None;
    }
    let digits = word - ONES * b'0' as u64;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8); // in every other byte
    let first = (pairs & OTHERS).wrapping_mul(100 + (1_000_000 << 32));
    let second = (pairs >> 16 & OTHERS).wrapping_mul(1 + (10_000 << 32));
    Some(first.wrapping_add(second) >> 32)
}

impl<'a> Parser<'a> {
    /// Appends digits, at least one, to a number; returns how many.
    #[inline]
    fn digits(&mut self, number: &mut u64) -> Accept<usize> {
        let begin = self.at;
        self.eight_digits(number);
        while let Some(&byte) = self.data.get(self.at) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            *number = number.wrapping_mul(10).wrapping_add(digit as u64);
            self.at += 1;
        }
        if self.at == begin { Err(Reject) } else { Ok(self.at - begin) }
    }

    /// Appends digits to a number, eight at a time, as long as there are eight.
    #[inline]
    fn eight_digits(&mut self, number: &mut u64) {
        while let Some(chunk) = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let Some(eight) = of_eight_digits(u64::from_le_bytes(*chunk)) else { return };
            *number = number.wrapping_mul(100_000_000).wrapping_add(eight);
            self.at += 8;
        }
    }

    /// The next number.
    #[inline]
    pub(super) fn number(&mut self) -> Accept<Number<'a>> {
        let begin = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        let mut digits = 0;
        let mut count = 1;
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            count = self.digits(&mut digits)?;
        }
        let mut fraction = 0;
        if self.data.get(self.at) == Some(&b'.') {
            self.at += 1;
            fraction = self.digits(&mut digits)?;
        }
        let mut exponent = false;
        if matches!(self.data.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.data.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits(&mut 0)?;
            exponent = true;
        }
        let text = &self.data[begin..self.at];
        if text.len() > LONGEST_NUMBER {
            return Err(Reject);
        }
        let integer = fraction == 0 && !exponent;
        Ok(Number { text, integer, digits, count: count + fraction, fraction, exponent })
    }

    #[inline]
    pub(super) fn integer(&mut self) -> Accept<i64> {
        let negative = self.peek()? == b'-';
        if negative {
            self.at += 1;
        }
        let begin = self.at;
        let mut value: u64 = 0;
        let count = self.digits(&mut value)?;
        let goes_on = matches!(self.data.get(self.at), Some(b'.' | b'e' | b'E'));
        // 19 digits always fit in 64 bits without sign.
        if goes_on || count > 19 || (count > 1 && self.data[begin] == b'0') {
            return Err(Reject);
        }
        if negative {
            if value > 1 << 63 { Err(Reject) } else { Ok((value as i64).wrapping_neg()) }
        } else {
            i64::try_from(value).map_err(|_| Reject)
        }
    }

    pub(super) fn double(&mut self) -> Accept<f64> {
        if self.peek()? == b'"' {
            return match self.text()? {
                b"NaN" => Ok(f64::NAN),
                b"Infinity" => Ok(f64::INFINITY),
                b"-Infinity" => Ok(f64::NEG_INFINITY),
                _ => Err(Reject),
            };
        }
        let number = self.number()?;
        if let Some(value) = number.plain() {
            return Ok(value);
        }
        let text = from_utf8(number.text).map_err(|_| Reject)?;
        let value: f64 = text.parse().map_err(|_| Reject)?;
        if value.is_finite() { Ok(value) } else { Err(Reject) }
    }
}
