//! Values of JSON into columns.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Parser;
use crate::columns::{Accept, Column, Reject, Store, Struct, end_list, end_map, entries};
use crate::decimals::{plain_decimal, rescaled, unscaled};
use crate::times;

/// Appends the bytes of canonical base64: padded, nothing else in it, no bits left over.
fn base64(text: &[u8], out: &mut Vec<u8>) -> Accept<()> {
    STANDARD.decode_vec(text, out).map_err(|_| Reject)
}

/// Returns whether a text may also be hex: of even length, with eight digits or more, in one case.
fn like_hex(text: &[u8]) -> bool {
    let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let upper = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    text.len() >= 8 && text.len() % 2 == 0 && (text.iter().all(lower) || text.iter().all(upper))
}

impl Parser<'_> {
    /// Reads the properties of an object whose brace has been consumed.
    pub(super) fn object(&mut self, columns: &mut Struct) -> Accept<()> {
        let row = columns.rows;
        let mut found = 0;
        let mut position = 0;
        self.items(b'}', |parser| {
            if parser.token()? != b'"' {
                return Err(Reject);
            }
            let field = match columns.names.expected(position, &parser.data[parser.at..]) {
                Some(key) => {
                    parser.at += key.length;
                    if !key.colon {
                        parser.expect(b':')?;
                    }
                    key.field
                }
                None => {
                    let field = parser.unexpected_key(columns, position)?;
                    parser.expect(b':')?;
                    field
                }
            };
            position += 1;
            let Some(place) = field else { return parser.skip() };
            let column = &mut columns.fields[place];
            if column.len() != row {
                return Err(Reject); // the key occurs twice
            }
            found += 1;
            parser.value(column)
        })?;
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
    pub(super) fn value(&mut self, column: &mut Column) -> Accept<()> {
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
                self.items(b']', |parser| parser.value(&mut store.element))?;
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
            Store::Decimal(store, precision, scale) => store.push(self.number()?.decimal(*precision, *scale)?),
            Store::Date(store) => store.push(times::days(self.text()?)?),
            Store::Micros(store, zoned) => store.push(times::micros(self.text()?, *zoned)?),
            Store::Flag(store) => {
                store.push(match first {
                    b't' | b'f' => self.boolean()?,
                    _ => match self.integer()? {
                        number @ 0..=1 => number as u8,
                        _ => return Err(Reject),
                    },
                });
            }
            Store::Days(store) => store.push(times::within(self.integer()?)?),
            Store::Moment(store, unit) => {
                store.push(match first {
                    b'"' => times::moment(self.text()?)?,
                    _ => times::counted(self.integer()?, *unit)?,
                });
            }
            Store::Clock(store, clock) => {
                store.push(match first {
                    b'"' => clock.read(self.text()?)?,
                    _ => clock.counted(self.integer()?)?,
                });
            }
            Store::Digits(store, precision, scale) => {
                store.push(match first {
                    b'"' => plain_decimal(self.text()?, *precision, *scale)?,
                    _ => self.number()?.decimal(*precision, *scale)?,
                });
            }
            Store::Unscaled(store, precision, scale, written) => {
                store.push(match first {
                    b'"' => {
                        let mut bytes = Vec::new();
                        base64(self.text()?, &mut bytes)?;
                        rescaled(unscaled(&bytes)?, *scale as i32 - *written as i32, *precision)?
                    }
                    // With `decimal.format` = NUMERIC it is the number itself.
                    _ => self.number()?.decimal(*precision, *scale)?,
                });
            }
            Store::Binary(store) => {
                let text = self.text()?;
                if column.wary && like_hex(text) {
                    return Err(Reject);
                }
                base64(text, &mut store.values)?;
                store.end()?;
            }
            Store::Anything(store) => {
                self.anything(first, &mut store.values)?;
                store.end()?;
            }
            Store::Variant(store) => self.variant(store)?,
            Store::Map(store) => {
                self.open(b'{')?;
                let (keys, values, rows) = entries(&mut store.element)?;
                let key = |parser: &mut Self| {
                    parser.string(&mut keys.values)?;
                    keys.end()
                };
                self.members(key, |parser| parser.value(values))?;
                end_map(&mut store.offsets, keys, rows)?;
            }
            Store::Nanos(_) | Store::Constant(..) => return Err(Reject),
        }
        column.mark_valid();
        Ok(())
    }

    /// The text of a scalar; arrays and objects are left to the reference.
    fn anything(&mut self, first: u8, out: &mut Vec<u8>) -> Accept<()> {
        match first {
            b'"' => {
                self.at += 1;
                self.string(out)
            }
            b't' | b'f' => {
                out.extend_from_slice(if self.boolean()? == 1 { b"true" } else { b"false" });
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
}
