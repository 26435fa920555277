//! Strings of JSON: their characters as they are, and their escapes.

use super::Parser;
use crate::columns::{Accept, Reject};

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

impl<'a> Parser<'a> {
    /// The place of the next quote or backslash. Rejects a control character before it.
    #[inline]
    pub(super) fn plain_end(&self) -> Accept<usize> {
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
    pub(super) fn string(&mut self, out: &mut Vec<u8>) -> Accept<()> {
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
    pub(super) fn text(&mut self) -> Accept<&'a [u8]> {
        self.open(b'"')?;
        let begin = self.at;
        let end = self.plain_end()?;
        if self.data[end] != b'"' {
            return Err(Reject);
        }
        self.at = end + 1;
        Ok(&self.data[begin..end])
    }

    pub(super) fn skip_string(&mut self) -> Accept<()> {
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
}
