//! VARIANT values, byte for byte as Spark's `VariantBuilder` in Python makes them. Large ones, and numbers and keys that
//! Java and Python do not treat alike, are left to the reference.

use std::str::from_utf8;

use super::Parser;
use crate::columns::{Accept, Reject, Store, Struct};

/// Most bytes of a value, whose offsets then have three bytes.
const LARGEST: usize = 1 << 20;
/// Most keys of a value; they are compared one by one.
const MOST_KEYS: usize = 1000;
const OBJECT: u8 = 2;
const ARRAY: u8 = 3;

/// The keys of all objects of one value, in the order in which they occur first.
#[derive(Default)]
struct Keys {
    names: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn name(&self, number: usize) -> &[u8] {
        &self.names[number.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[number]]
    }

    fn number(&mut self, name: &[u8]) -> Accept<usize> {
        let count = self.ends.len();
        if let Some(number) = (0..count).find(|&number| self.name(number) == name) {
            return Ok(number);
        }
        // Java sorts characters beyond U+FFFF before some others.
        if count == MOST_KEYS || name.iter().any(|&byte| byte >= 0xf0) {
            return Err(Reject);
        }
        self.names.extend_from_slice(name);
        self.ends.push(self.names.len());
        Ok(count)
    }
}

fn width(number: usize) -> usize {
    1 + (number > 0xff) as usize + (number > 0xffff) as usize
}

fn push(out: &mut Vec<u8>, number: usize, width: usize) {
    out.extend_from_slice(&number.to_le_bytes()[..width]);
}

/// Puts the header of an array or object before its parts, which begin at `start`; the ids are those of an object's keys.
fn finish(out: &mut Vec<u8>, start: usize, kind: u8, ids: &[usize], offsets: &[usize]) {
    let (size, large) = (out.len() - start, offsets.len() > 0xff);
    let (id_width, offset_width) = (width(ids.iter().copied().max().unwrap_or(0)), width(size));
    let form = if kind == OBJECT { (large as u8) << 4 | (id_width as u8 - 1) << 2 } else { (large as u8) << 2 };
    let mut header = vec![(form | (offset_width as u8 - 1)) << 2 | kind];
    push(&mut header, offsets.len(), if large { 4 } else { 1 });
    ids.iter().for_each(|&id| push(&mut header, id, id_width));
    offsets.iter().chain(&[size]).for_each(|&offset| push(&mut header, offset, offset_width));
    out.splice(start..start, header);
}

impl Parser<'_> {
    /// Reads any value but null into the columns of a value and its keys.
    pub(super) fn variant(&mut self, columns: &mut Struct) -> Accept<()> {
        let [value, metadata] = &mut columns.fields[..] else { return Err(Reject) };
        let (Store::Binary(bytes), Store::Binary(names)) = (&mut value.store, &mut metadata.store) else {
            return Err(Reject);
        };
        let (mut keys, begin) = (Keys::default(), bytes.values.len());
        self.part(&mut keys, &mut bytes.values)?;
        if bytes.values.len() - begin > LARGEST || keys.names.len() > LARGEST {
            return Err(Reject);
        }
        let width = width(keys.names.len().max(keys.ends.len()));
        names.values.push(1 | (width as u8 - 1) << 6); // of version 1
        [keys.ends.len(), 0].iter().chain(&keys.ends).for_each(|&number| push(&mut names.values, number, width));
        names.push(&keys.names)?;
        bytes.end()?;
        columns.rows += 1;
        Ok(())
    }

    fn part(&mut self, keys: &mut Keys, out: &mut Vec<u8>) -> Accept<()> {
        let (start, first) = (out.len(), self.token()?);
        match first {
            b'{' => {
                self.at += 1;
                let mut fields = Vec::new();
                self.items(b'}', |parser| {
                    parser.expect(b'"')?;
                    let mut name = std::mem::take(&mut parser.scratch);
                    name.clear();
                    parser.string(&mut name)?;
                    fields.push((keys.number(&name)?, out.len() - start));
                    parser.scratch = name;
                    parser.expect(b':')?;
                    parser.part(keys, out)
                })?;
                fields.sort_by(|one, other| keys.name(one.0).cmp(keys.name(other.0)));
                if fields.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return Err(Reject);
                }
                let (ids, offsets): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
                finish(out, start, OBJECT, &ids, &offsets);
            }
            b'[' => {
                self.at += 1;
                let mut offsets = Vec::new();
                self.items(b']', |parser| {
                    offsets.push(out.len() - start);
                    parser.part(keys, out)
                })?;
                finish(out, start, ARRAY, &[], &offsets);
            }
            b'"' => {
                self.at += 1;
                out.push(0);
                self.string(out)?;
                let size = out.len() - start - 1;
                out[start] = if size < 64 { (size as u8) << 2 | 1 } else { 16 << 2 };
                if size >= 64 {
                    out.splice(start + 1..start + 1, (size as u32).to_le_bytes());
                }
            }
            b'n' => {
                self.literal(b"null")?;
                out.push(0);
            }
            b't' | b'f' => out.push((2 - self.boolean()?) << 2),
            _ => self.number_part(out)?,
        }
        Ok(())
    }

    fn number_part(&mut self, out: &mut Vec<u8>) -> Accept<()> {
        let number = self.number()?;
        let value = number.digits as i128 * if number.text[0] == b'-' { -1 } else { 1 };
        if number.exponent {
            let double: f64 = from_utf8(number.text).map_err(|_| Reject)?.parse().map_err(|_| Reject)?;
            out.push(7 << 2);
            out.extend_from_slice(&double.to_le_bytes());
            return if double.is_finite() { Ok(()) } else { Err(Reject) };
        }
        if number.count > 19 || number.integer && i64::try_from(value).is_err() {
            return Err(Reject);
        }
        if number.integer {
            let size = [7, 15, 31].iter().take_while(|&&bits| !(-1 << bits..1 << bits).contains(&value)).count();
            out.push((3 + size as u8) << 2);
            out.extend_from_slice(&value.to_le_bytes()[..1 << size]);
        } else {
            let digits = (number.digits.max(1).ilog10() as usize + 1).max(number.fraction);
            let size = [9, 18].iter().take_while(|&&most| digits > most).count();
            out.extend_from_slice(&[(8 + size as u8) << 2, number.fraction as u8]);
            out.extend_from_slice(&value.to_le_bytes()[..4 << size]);
        }
        Ok(())
    }
}
