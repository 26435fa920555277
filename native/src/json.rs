//! JSON documents into columns. The grammar is strictly RFC 8259; anything else that the reference decoder accepts
//! (duplicate keys, halves of surrogate pairs in unread values, unusual forms of times) is left to it.

mod numbers;
mod strings;
mod values;
mod variants;

use crate::columns::{Accept, Reject, Struct};

/// Most levels of nested arrays and objects.
const DEEPEST: u32 = 512;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

struct Parser<'a> {
    data: &'a [u8],
    at: usize,
    depth: u32,
    scratch: Vec<u8>,
}

/// Reads one event as an object.
pub fn read_object(data: &[u8], columns: &mut Struct) -> Accept<()> {
    let mut parser = Parser::new(data)?;
    parser.expect(b'{')?;
    parser.object(columns)?;
    parser.end()
}

/// Reads one event that begins with `prefix`, inside an object, as the value after it, which ends that object.
pub fn read_last_member(data: &[u8], prefix: &[u8], columns: &mut Struct) -> Accept<()> {
    let rest = data.strip_prefix(prefix).ok_or(Reject)?;
    simdutf8::basic::from_utf8(rest).map_err(|_| Reject)?;
    let mut parser = Parser { data: rest, at: 0, depth: 1, scratch: Vec::new() };
    parser.expect(b'{')?;
    parser.object(columns)?;
    parser.expect(b'}')?;
    parser.end()
}

/// Reads one event as the value of the only column; without a column it is only checked.
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

    /// The next byte that is not white space, without consuming it.
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

    /// The next byte that is not white space, consumed.
    #[inline]
    fn next(&mut self) -> Accept<u8> {
        let byte = self.token()?;
        self.at += 1;
        Ok(byte)
    }

    fn end(&self) -> Accept<()> {
        if self.data[self.at..].iter().all(|&byte| is_space(byte)) { Ok(()) } else { Err(Reject) }
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
    fn open(&mut self, byte: u8) -> Accept<()> {
        if self.peek()? != byte {
            return Err(Reject);
        }
        self.at += 1;
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

    /// The next byte that is not white space, which must be this one.
    #[inline]
    fn expect(&mut self, byte: u8) -> Accept<()> {
        if self.next()? == byte { Ok(()) } else { Err(Reject) }
    }

    /// Reads the items of an array or object up to its closing bracket; the opening one has been consumed.
    #[inline]
    fn items(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Accept<()>) -> Accept<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Reject);
        }
        if self.token()? == close {
            self.at += 1;
        } else {
            loop {
                item(self)?;
                match self.next()? {
                    b',' => {}
                    byte if byte == close => break,
                    _ => return Err(Reject),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads the members of an object whose brace has been consumed; `key` begins after its first quote.
    #[inline]
    fn members(
        &mut self,
        mut key: impl FnMut(&mut Self) -> Accept<()>,
        mut value: impl FnMut(&mut Self) -> Accept<()>,
    ) -> Accept<()> {
        self.items(b'}', |parser| {
            parser.expect(b'"')?;
            key(parser)?;
            parser.expect(b':')?;
            value(parser)
        })
    }

    /// Skips a value that is not wanted, but still checks it.
    fn skip(&mut self) -> Accept<()> {
        match self.token()? {
            b'"' => {
                self.at += 1;
                self.skip_string()
            }
            b'{' => {
                self.at += 1;
                self.members(Self::skip_string, Self::skip)
            }
            b'[' => {
                self.at += 1;
                self.items(b']', Self::skip)
            }
            b't' | b'f' => self.boolean().map(|_| ()),
            b'n' => self.literal(b"null"),
            _ => self.number().map(|_| ()),
        }
    }
}
