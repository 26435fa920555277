//! JSON documents into columns. The grammar is RFC 8259 to the letter; whatever else the reference decoder takes
//! (duplicate keys, half surrogate pairs in what is not read, unusual spellings of times) is left to it.

use std::str::from_utf8;

use crate::columns::{Accept, Bytes, Column, Reject, Store, Struct, end_list, has_twins};
use crate::times;

/// Arrays and objects inside one another.
const DEEPEST: u32 = 512;
/// Python refuses integers of more than 4300 digits; no number of interest comes near.
const LONGEST_NUMBER: usize = 1000;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub struct Parser<'a> {
    data: &'a [u8],
    at: usize,
    depth: u32,
    scratch: Vec<u8>,
}

struct Number<'a> {
    text: &'a [u8],
    integer: bool,
    /// All its digits as one number; exact if there are at most 19.
    digits: u64,
    count: usize,
    /// How many of them stand after the point.
    fraction: usize,
    /// Whether it has an exponent.
    exponent: bool,
}

/// The powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

impl Number<'_> {
    /// The nearest double, where one division finds it: both sides are exact, so the quotient is rounded once.
    #[inline]
    fn small(&self) -> Option<f64> {
        if self.exponent || self.count > 19 || self.digits > 1 << 53 {
            return None;
        }
        let value = self.digits as f64 / POWERS.get(self.fraction)?;
        Some(if self.text[0] == b'-' { -value } else { value })
    }

    /// The number as an unscaled integer; rejects one that loses digits or is out of range.
    #[inline]
    fn decimal(&self, precision: u8, scale: i8) -> Accept<i128> {
        if self.exponent || self.count > 19 {
            return decimal(self.text, precision, scale);
        }
        let value = rescaled(self.digits as i128, scale as i32 - self.fraction as i32, precision)?;
        Ok(if self.text[0] == b'-' { -value } else { value })
    }
}

/// Reads one event as an object.
pub fn read_object(data: &[u8], columns: &mut Struct) -> Accept<()> {
    let mut parser = Parser::new(data)?;
    if parser.next()? != b'{' {
        return Err(Reject);
    }
    parser.object(columns)?;
    parser.end()
}

/// Reads one event that begins with `prefix`, inside an object, as the value that follows, which ends that object.
pub fn read_last_member(data: &[u8], prefix: &[u8], columns: &mut Struct) -> Accept<()> {
    let rest = data.strip_prefix(prefix).ok_or(Reject)?;
    simdutf8::basic::from_utf8(rest).map_err(|_| Reject)?;
    let mut parser = Parser { data: rest, at: 0, depth: 1, scratch: Vec::new() };
    if parser.next()? != b'{' {
        return Err(Reject);
    }
    parser.object(columns)?;
    if parser.next()? != b'}' {
        return Err(Reject);
    }
    parser.end()
}

/// Reads one event as the value of the only column; without column it is only looked at.
pub fn read_value(data: &[u8], columns: &mut Struct) -> Accept<()> {
    let mut parser = Parser::new(data)?;
    match columns.fields.first_mut() {
        Some(column) => parser.value(column)?,
        None => parser.skip()?,
    }
    columns.rows += 1;
    parser.end()
}

#[inline]
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks (in each byte's high bit) quotes, backslashes and control characters; only the first mark is exact.
#[inline]
fn special(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    ((word.wrapping_sub(ONES * 0x20) & !word)
        | (quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash))
        & HIGHS
}

/// The number that eight characters are, the first of them in the lowest byte; None if one is no digit.
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
    fn new(data: &'a [u8]) -> Accept<Self> {
        simdutf8::basic::from_utf8(data).map_err(|_| Reject)?;
        let at = if data.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Ok(Parser { data, at, depth: 0, scratch: Vec::new() })
    }

    #[inline]
    fn peek(&self) -> Accept<u8> {
        self.data.get(self.at).copied().ok_or(Reject)
    }

    /// The next byte that is no white space, not consumed.
    #[inline]
    fn token(&mut self) -> Accept<u8> {
        loop {
            let byte = self.peek()?;
            if byte > b' ' {
                return Ok(byte);
            }
            if !is_space(byte) {
                return Err(Reject);
            }
            self.at += 1;
        }
    }

    /// The next byte that is no white space, consumed.
    #[inline]
    fn next(&mut self) -> Accept<u8> {
        let byte = self.token()?;
        self.at += 1;
        Ok(byte)
    }

    fn end(&mut self) -> Accept<()> {
        while self.at < self.data.len() {
            if !is_space(self.data[self.at]) {
                return Err(Reject);
            }
            self.at += 1;
        }
        Ok(())
    }

    #[inline]
    fn literal(&mut self, text: &[u8]) -> Accept<()> {
        if self.data[self.at..].starts_with(text) {
            self.at += text.len();
            Ok(())
        } else {
            Err(Reject)
        }
    }

    #[inline]
    fn enter(&mut self) -> Accept<()> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(Reject) } else { Ok(()) }
    }

    /// Reads the properties of an object whose brace has been consumed.
    fn object(&mut self, columns: &mut Struct) -> Accept<()> {
        self.enter()?;
        let row = columns.rows;
        let mut found = 0;
        let mut position = 0;
        if self.token()? == b'}' {
            self.at += 1;
        } else {
            loop {
                if self.token()? != b'"' {
                    return Err(Reject);
                }
                let field = match columns.names.expected(position, &self.data[self.at..]) {
                    Some(key) => {
                        self.at += key.length;
                        if !key.colon && self.next()? != b':' {
                            return Err(Reject);
                        }
                        key.field
                    }
                    None => {
                        let field = self.unexpected_key(columns, position)?;
                        if self.next()? != b':' {
                            return Err(Reject);
                        }
                        field
                    }
                };
                position += 1;
                match field {
                    Some(place) => {
                        let column = &mut columns.fields[place];
                        if column.len() != row {
                            return Err(Reject); // the key is there twice
                        }
                        self.value(column)?;
                        found += 1;
                    }
                    None => self.skip()?,
                }
                match self.next()? {
                    b',' => {}
                    b'}' => break,
                    _ => return Err(Reject),
                }
            }
        }
        if found < columns.fields.len() {
            for column in &mut columns.fields {
                if column.len() == row {
                    if column.defaulted {
                        return Err(Reject);
                    }
                    column.push_missing()?;
                }
            }
        }
        columns.rows += 1;
        self.depth -= 1;
        Ok(())
    }

    #[cold]
    fn unexpected_key(&mut self, columns: &mut Struct, position: usize) -> Accept<Option<usize>> {
        self.at += 1;
        let begin = self.at;
        let end = self.plain_end()?;
        if self.data[end] == b'"' {
            self.at = end + 1;
            let name = &self.data[begin..end];
            let field = columns.names.find(name);
            let colon = (self.data.get(self.at) == Some(&b':')) as usize;
            columns.names.learn(position, &self.data[begin - 1..self.at + colon], field);
            return Ok(field);
        }
        let mut name = std::mem::take(&mut self.scratch);
        name.clear();
        self.string(&mut name)?;
        let field = columns.names.find(&name);
        self.scratch = name;
        Ok(field)
    }

    /// Reads any value into a column.
    fn value(&mut self, column: &mut Column) -> Accept<()> {
        let first = self.token()?;
        if first == b'n' {
            self.literal(b"null")?;
            return column.push_missing();
        }
        match &mut column.store {
            Store::Utf8(store) => {
                self.open(b'"')?;
                self.string(&mut store.values)?;
                store.end()?;
            }
            Store::Int64(store) => store.push(self.integer()?),
            Store::Float64(store) => store.push(self.double()?),
            Store::Int32(store) => store.push(self.integer()?.try_into().map_err(|_| Reject)?),
            Store::Boolean(store) => store.push(self.boolean()?),
            Store::Struct(store) => {
                self.open(b'{')?;
                self.object(store)?;
            }
            Store::List(store) => {
                self.open(b'[')?;
                self.list(&mut store.element)?;
                end_list(&mut store.offsets, store.element.len())?;
            }
            Store::Int8(store) => store.push(self.integer()?.try_into().map_err(|_| Reject)?),
            Store::Int16(store) => store.push(self.integer()?.try_into().map_err(|_| Reject)?),
            Store::Float32(store) => {
                let number = self.double()?;
                let short = number as f32;
                if short.is_infinite() && number.is_finite() {
                    return Err(Reject);
                }
                store.push(short);
            }
            Store::Decimal(store, precision, scale) => {
                let number = self.number()?;
                store.push(number.decimal(*precision, *scale)?);
            }
            Store::Date(store) => {
                let text = self.text()?;
                store.push(times::days(text)?);
            }
            Store::Micros(store, zoned) => {
                let zoned = *zoned;
                let text = self.text()?;
                store.push(times::micros(text, zoned)?);
            }
            Store::Flag(store) => {
                let flag = match first {
                    b't' | b'f' => self.boolean()?,
                    _ => match self.integer()? {
                        number @ 0..=1 => number as u8,
                        _ => return Err(Reject),
                    },
                };
                store.push(flag);
            }
            Store::Days(store) => store.push(times::within(self.integer()?)?),
            Store::Moment(store, unit) => {
                let micros = match first {
                    b'"' => times::moment(self.text()?)?,
                    _ => times::counted(self.integer()?, *unit)?,
                };
                store.push(micros);
            }
            Store::Digits(store, precision, scale) => {
                let value = match first {
                    b'"' => plain_decimal(self.text()?, *precision, *scale)?,
                    _ => self.number()?.decimal(*precision, *scale)?,
                };
                store.push(value);
            }
            Store::Unscaled(store, precision, scale, written) => {
                let mut bytes = Vec::new();
                base64(self.text()?, &mut bytes)?;
                store.push(rescaled(big_endian(&bytes)?, *scale as i32 - *written as i32, *precision)?);
            }
            Store::Binary(store) => {
                let text = self.text()?;
                base64(text, &mut store.values)?;
                store.end()?;
            }
            Store::Anything(store) => {
                self.anything(first, &mut store.values)?;
                store.end()?;
            }
            Store::Map(store) => {
                self.open(b'{')?;
                let Store::Utf8(keys) = &mut store.key.store else {
                    return Err(Reject);
                };
                self.map(keys, &mut store.value)?;
                let begin = store.offsets[store.offsets.len() - 1] as usize;
                if has_twins(keys, begin) {
                    return Err(Reject);
                }
                end_list(&mut store.offsets, keys.len())?;
            }
            Store::Constant(..) => return Err(Reject),
        }
        column.mark_valid();
        Ok(())
    }

    #[inline]
    fn open(&mut self, byte: u8) -> Accept<()> {
        if self.peek()? != byte {
            return Err(Reject);
        }
        self.at += 1;
        Ok(())
    }

    fn list(&mut self, element: &mut Column) -> Accept<()> {
        self.enter()?;
        if self.token()? == b']' {
            self.at += 1;
        } else {
            loop {
                self.value(element)?;
                match self.next()? {
                    b',' => {}
                    b']' => break,
                    _ => return Err(Reject),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn map(&mut self, keys: &mut Bytes, values: &mut Column) -> Accept<()> {
        self.enter()?;
        if self.token()? == b'}' {
            self.at += 1;
        } else {
            loop {
                if self.next()? != b'"' {
                    return Err(Reject);
                }
                self.string(&mut keys.values)?;
                keys.end()?;
                if self.next()? != b':' {
                    return Err(Reject);
                }
                self.value(values)?;
                match self.next()? {
                    b',' => {}
                    b'}' => break,
                    _ => return Err(Reject),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn boolean(&mut self) -> Accept<u8> {
        if self.peek()? == b't' {
            self.literal(b"true")?;
            Ok(1)
        } else {
            self.literal(b"false")?;
            Ok(0)
        }
    }

    /// Where the next quote or backslash is. Rejects a control character before it.
    #[inline]
    fn plain_end(&self) -> Accept<usize> {
        let mut at = self.at;
        while let Some(chunk) = self.data.get(at..at + 8) {
            let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
            let marks = special(word);
            if marks != 0 {
                at += (marks.trailing_zeros() / 8) as usize;
                return if self.data[at] < 0x20 { Err(Reject) } else { Ok(at) };
            }
            at += 8;
        }
        while let Some(&byte) = self.data.get(at) {
            if byte == b'"' || byte == b'\\' {
                return Ok(at);
            }
            if byte < 0x20 {
                return Err(Reject);
            }
            at += 1;
        }
        Err(Reject)
    }

    /// Appends the rest of a string whose opening quote has been consumed.
    #[inline]
    fn string(&mut self, out: &mut Vec<u8>) -> Accept<()> {
        loop {
            let end = self.plain_end()?;
            out.extend_from_slice(&self.data[self.at..end]);
            self.at = end + 1;
            if self.data[end] == b'"' {
                return Ok(());
            }
            self.escape(out)?;
        }
    }

    /// The characters of a string, which must have no escapes: dates and such.
    #[inline]
    fn text(&mut self) -> Accept<&'a [u8]> {
        self.open(b'"')?;
        let begin = self.at;
        let end = self.plain_end()?;
        if self.data[end] != b'"' {
            return Err(Reject);
        }
        self.at = end + 1;
        Ok(&self.data[begin..end])
    }

    fn skip_string(&mut self) -> Accept<()> {
        loop {
            let end = self.plain_end()?;
            self.at = end + 1;
            if self.data[end] == b'"' {
                return Ok(());
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.clear();
            self.escape(&mut scratch)?;
            self.scratch = scratch;
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, out: &mut Vec<u8>) -> Accept<()> {
        let byte = self.peek()?;
        self.at += 1;
        out.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.escaped_character(out),
            _ => return Err(Reject),
        });
        Ok(())
    }

    fn escaped_character(&mut self, out: &mut Vec<u8>) -> Accept<()> {
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) {
            self.literal(b"\\u")?;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(Reject);
            }
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        let character = char::from_u32(code).ok_or(Reject)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex4(&mut self) -> Accept<u32> {
        let digits = self.data.get(self.at..self.at + 4).ok_or(Reject)?;
        let mut code = 0;
        for &digit in digits {
            code = code * 16 + (digit as char).to_digit(16).ok_or(Reject)?;
        }
        self.at += 4;
        Ok(code)
    }

    /// Reads digits, of which there must be one, onto a number; gives how many.
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

    /// Reads digits onto a number, eight at a time, as long as there are eight.
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
    fn number(&mut self) -> Accept<Number<'a>> {
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
    fn integer(&mut self) -> Accept<i64> {
        let negative = self.peek()? == b'-';
        if negative {
            self.at += 1;
        }
        let begin = self.at;
        let mut value: u64 = 0;
        self.eight_digits(&mut value);
        while let Some(&byte) = self.data.get(self.at) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                if matches!(byte, b'.' | b'e' | b'E') {
                    return Err(Reject);
                }
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(digit as u64);
            self.at += 1;
        }
        let count = self.at - begin;
        // 19 digits always fit in 64 bits without sign.
        if count == 0 || count > 19 || (count > 1 && self.data[begin] == b'0') {
            return Err(Reject);
        }
        if negative {
            if value > 1 << 63 { Err(Reject) } else { Ok((value as i64).wrapping_neg()) }
        } else {
            i64::try_from(value).map_err(|_| Reject)
        }
    }

    fn double(&mut self) -> Accept<f64> {
        if self.peek()? == b'"' {
            return match self.text()? {
                b"NaN" => Ok(f64::NAN),
                b"Infinity" => Ok(f64::INFINITY),
                b"-Infinity" => Ok(f64::NEG_INFINITY),
                _ => Err(Reject),
            };
        }
        let number = self.number()?;
        if number.text == b"-0" {
            return Ok(0.0); // the integer 0 has no sign
        }
        if let Some(value) = number.small() {
            return Ok(value);
        }
        let text = from_utf8(number.text).map_err(|_| Reject)?;
        let value: f64 = text.parse().map_err(|_| Reject)?;
        if value.is_finite() { Ok(value) } else { Err(Reject) }
    }

    /// The text of a scalar; arrays and objects are left to the reference.
    fn anything(&mut self, first: u8, out: &mut Vec<u8>) -> Accept<()> {
        match first {
            b'"' => {
                self.at += 1;
                self.string(out)
            }
            b't' | b'f' => {
                let text: &[u8] = if self.boolean()? == 1 { b"true" } else { b"false" };
                out.extend_from_slice(text);
                Ok(())
            }
            b'-' | b'0'..=b'9' => {
                let number = self.number()?;
                let plain = if number.integer && number.text == b"-0" { b"0" } else { number.text };
                out.extend_from_slice(plain);
                Ok(())
            }
            _ => Err(Reject),
        }
    }

    /// Skips a value that is not wanted, but checks it all the same.
    fn skip(&mut self) -> Accept<()> {
        match self.token()? {
            b'"' => {
                self.at += 1;
                self.skip_string()
            }
            b'{' => {
                self.at += 1;
                self.skip_object()
            }
            b'[' => {
                self.at += 1;
                self.skip_list()
            }
            b't' | b'f' => self.boolean().map(|_| ()),
            b'n' => self.literal(b"null"),
            _ => self.number().map(|_| ()),
        }
    }

    fn skip_object(&mut self) -> Accept<()> {
        self.enter()?;
        if self.token()? == b'}' {
            self.at += 1;
        } else {
            loop {
                if self.next()? != b'"' {
                    return Err(Reject);
                }
                self.skip_string()?;
                if self.next()? != b':' {
                    return Err(Reject);
                }
                self.skip()?;
                match self.next()? {
                    b',' => {}
                    b'}' => break,
                    _ => return Err(Reject),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn skip_list(&mut self) -> Accept<()> {
        self.enter()?;
        if self.token()? == b']' {
            self.at += 1;
        } else {
            loop {
                self.skip()?;
                match self.next()? {
                    b',' => {}
                    b']' => break,
                    _ => return Err(Reject),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// As `Number::decimal`, for a number of any length.
fn decimal(text: &[u8], precision: u8, scale: i8) -> Accept<i128> {
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

/// The decimal that a text of digits is; anything more is left to the reference.
fn plain_decimal(text: &[u8], precision: u8, scale: i8) -> Accept<i128> {
    let mut parts = text.strip_prefix(b"-").unwrap_or(text).splitn(2, |&byte| byte == b'.');
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    if text.len() > LONGEST_NUMBER || !parts.all(digits) {
        return Err(Reject);
    }
    decimal(text, precision, scale)
}

/// The number in two's complement that some bytes are.
fn big_endian(bytes: &[u8]) -> Accept<i128> {
    if bytes.len() > 16 {
        return Err(Reject);
    }
    let sign = if bytes.first().is_some_and(|&byte| byte >= 0x80) { -1 } else { 0 };
    Ok(bytes.iter().fold(sign, |value: i128, &byte| value << 8 | byte as i128))
}

/// value * 10^shift as a decimal of this precision; rejects what does not fit or would lose digits.
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

/// Decodes canonical base64: padded, nothing else in it, no bits left over.
fn base64(text: &[u8], out: &mut Vec<u8>) -> Accept<()> {
    if text.len() % 4 != 0 {
        return Err(Reject);
    }
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    let mut chunks = digits.chunks_exact(4);
    for chunk in &mut chunks {
        let mut word = 0u32;
        for &digit in chunk {
            word = word << 6 | sextet(digit)?;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..]);
    }
    let rest = chunks.remainder();
    let mut word = 0u32;
    for &digit in rest {
        word = word << 6 | sextet(digit)?;
    }
    match rest.len() {
        0 => Ok(()),
        2 if word & 0xf == 0 => {
            out.push((word >> 4) as u8);
            Ok(())
        }
        3 if word & 0x3 == 0 => {
            out.extend_from_slice(&[(word >> 10) as u8, (word >> 2) as u8]);
            Ok(())
        }
        _ => Err(Reject),
    }
}

#[inline]
fn sextet(digit: u8) -> Accept<u32> {
    Ok(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return Err(Reject),
    } as u32)
}
