//! Avro's binary encoding into columns, by a plan made from the writer's schema and the table's columns.
//!
//! As strict as the reference decoder: everything is checked, wanted or not, except whether unwanted strings
//! are UTF-8. The reference reads again what is not accepted here.

use std::str::from_utf8;

use serde::Deserialize;

use crate::columns::{Accept, Bytes, Column, Reject, Store, Struct, end_list, end_map, entries};
use crate::decimals::{rescaled, unscaled};
use crate::times::{micros_within, of_day, within};

/// How to skip a value that is not wanted.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Skip {
    Null,
    Boolean,
    Int,
    Long,
    /// This many bytes: float, double, fixed.
    Fixed(usize),
    /// bytes and string
    Bytes,
    /// The number of symbols.
    Enum(i64),
    Array(Box<Skip>),
    Map(Box<Skip>),
    Union(Vec<Skip>),
    Record(Vec<Skip>),
    /// A value with some records that contain themselves or each other.
    Among {
        records: Vec<Vec<Skip>>,
        value: Box<Skip>,
    },
    /// One of these records, by its place.
    Again(usize),
}

/// Most levels of records that are skipped here, because of the stack; the reference has no limit.
const DEEPEST: u32 = 1000;

/// How a value goes into its column.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Read {
    /// A null, in a column of nulls.
    Null,
    Boolean,
    Int,
    Long,
    /// Milliseconds (as an int if true) that become microseconds.
    Millis(bool),
    /// A time of day (as an int if true), in a unit of this many nanoseconds, into a type with this step.
    Time(bool, i64, i64),
    Float,
    Double,
    /// bytes and string
    Bytes,
    Fixed(usize),
    /// A big-endian number with this many fraction digits; its size, or None if a length precedes it.
    Decimal(Option<usize>, i32),
    /// 16 bytes, as text.
    Uuid,
    /// The texts of the symbols; None for one that the reader's enum lacks.
    Enum(Vec<Option<String>>),
    Record(Record),
    Array(Box<Value>),
    Map(Box<Value>),
}

/// A value, or a union of null and one other type.
#[derive(Deserialize)]
pub struct Value {
    /// The number of the null branch; None if the value is not a union.
    pub null_branch: Option<i64>,
    pub read: Read,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    Skip(Skip),
    /// Into the field at this place.
    Read(usize, Value),
}

#[derive(Deserialize)]
pub struct Record {
    pub steps: Vec<Step>,
    /// The places of fields that the writer does not know.
    pub constants: Vec<usize>,
}

pub struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

/// Reads one event. `padded`: NULs may follow.
#[inline]
pub fn read_event(plan: &Record, data: &[u8], padded: bool, columns: &mut Struct) -> Accept<()> {
    let mut cursor = Cursor { data, at: 0 };
    plan.read(&mut cursor, columns)?;
    let rest = &data[cursor.at..];
    if rest.is_empty() || (padded && rest.iter().all(|&byte| byte == 0)) { Ok(()) } else { Err(Reject) }
}

impl<'a> Cursor<'a> {
    #[inline]
    fn byte(&mut self) -> Accept<u8> {
        let byte = *self.data.get(self.at).ok_or(Reject)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn long(&mut self) -> Accept<i64> {
        let byte = self.byte()?;
        if byte < 128 {
            return Ok((byte >> 1) as i64 ^ -((byte & 1) as i64));
        }
        self.long_from(byte)
    }

    fn long_from(&mut self, first: u8) -> Accept<i64> {
        let mut number = (first & 127) as u64;
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(Reject);
            }
            number |= ((byte & 127) as u64) << shift;
            if byte < 128 {
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
            shift += 7;
        }
    }

    #[inline]
    fn int(&mut self) -> Accept<i32> {
        i32::try_from(self.long()?).map_err(|_| Reject)
    }

    #[inline]
    fn int_or_long(&mut self, int: bool) -> Accept<i64> {
        if int { self.int().map(i64::from) } else { self.long() }
    }

    /// Milliseconds as microseconds.
    fn millis(&mut self, int: bool) -> Accept<i64> {
        self.int_or_long(int)?.checked_mul(1000).ok_or(Reject)
    }

    #[inline]
    fn double(&mut self) -> Accept<f64> {
        Ok(f64::from_le_bytes(self.take(8)?.try_into().map_err(|_| Reject)?))
    }

    fn float(&mut self) -> Accept<f32> {
        Ok(f32::from_le_bytes(self.take(4)?.try_into().map_err(|_| Reject)?))
    }

    #[inline]
    fn boolean(&mut self) -> Accept<u8> {
        let byte = self.byte()?;
        if byte > 1 { Err(Reject) } else { Ok(byte) }
    }

    #[inline]
    fn take(&mut self, count: usize) -> Accept<&'a [u8]> {
        let end = self.at.checked_add(count).ok_or(Reject)?;
        let bytes = self.data.get(self.at..end).ok_or(Reject)?;
        self.at = end;
        Ok(bytes)
    }

    #[inline]
    fn bytes(&mut self) -> Accept<&'a [u8]> {
        let count = usize::try_from(self.long()?).map_err(|_| Reject)?;
        self.take(count)
    }

    /// How many items follow; at most one per remaining byte, because items without bytes are refused.
    #[inline]
    fn block(&mut self) -> Accept<usize> {
        let mut count = self.long()?;
        if count < 0 {
            if self.long()? < 0 {
                return Err(Reject);
            }
            count = count.checked_neg().ok_or(Reject)?;
        }
        let count = usize::try_from(count).map_err(|_| Reject)?;
        if count > self.data.len() - self.at { Err(Reject) } else { Ok(count) }
    }

    /// Reads the items of an array or a map, which come in blocks, the last of which is empty.
    #[inline]
    fn items(&mut self, mut item: impl FnMut(&mut Self) -> Accept<()>) -> Accept<()> {
        loop {
            let count = self.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                item(self)?;
            }
        }
    }
}

impl Skip {
    /// `records` are those of the value around this one, `depth` how many of them may still be entered.
    fn skip(&self, cursor: &mut Cursor, records: &[Vec<Skip>], depth: u32) -> Accept<()> {
        match self {
            Skip::Null => Ok(()),
            Skip::Boolean => cursor.boolean().map(|_| ()),
            Skip::Int => cursor.int().map(|_| ()),
            Skip::Long => cursor.long().map(|_| ()),
            Skip::Fixed(size) => cursor.take(*size).map(|_| ()),
            Skip::Bytes => cursor.bytes().map(|_| ()),
            Skip::Enum(count) => {
                let symbol = cursor.long()?;
                if (0..*count).contains(&symbol) { Ok(()) } else { Err(Reject) }
            }
            Skip::Array(item) => cursor.items(|cursor| item.skip(cursor, records, depth)),
            Skip::Map(item) => cursor.items(|cursor| {
                cursor.bytes()?;
                item.skip(cursor, records, depth)
            }),
            Skip::Union(branches) => {
                let branch = usize::try_from(cursor.long()?).map_err(|_| Reject)?;
                branches.get(branch).ok_or(Reject)?.skip(cursor, records, depth)
            }
            Skip::Record(fields) => fields.iter().try_for_each(|field| field.skip(cursor, records, depth)),
            Skip::Among { records, value } => value.skip(cursor, records, DEEPEST),
            Skip::Again(place) => {
                let left = depth.checked_sub(1).ok_or(Reject)?;
                let fields = records.get(*place).ok_or(Reject)?;
                fields.iter().try_for_each(|field| field.skip(cursor, records, left))
            }
        }
    }
}

impl Record {
    #[inline]
    fn read(&self, cursor: &mut Cursor, columns: &mut Struct) -> Accept<()> {
        for step in &self.steps {
            match step {
                Step::Skip(skip) => skip.skip(cursor, &[], DEEPEST)?,
                Step::Read(place, value) => value.read(cursor, &mut columns.fields[*place])?,
            }
        }
        for place in &self.constants {
            let column = &mut columns.fields[*place];
            if let Store::Constant(rows, _) = &mut column.store {
                *rows += 1;
            }
        }
        columns.rows += 1;
        Ok(())
    }
}

impl Value {
    #[inline]
    fn read(&self, cursor: &mut Cursor, column: &mut Column) -> Accept<()> {
        if let Some(null_branch) = self.null_branch {
            let branch = cursor.long()?;
            if branch == null_branch {
                return column.push_missing();
            }
            if branch != 1 - null_branch {
                return Err(Reject);
            }
        }
        // The most common first, so that their code is in the caller's loop.
        match (&self.read, &mut column.store) {
            (Read::Bytes, Store::Utf8(store)) => text(cursor.bytes()?, store)?,
            (Read::Long, Store::Int64(store)) => store.push(cursor.long()?),
            (Read::Int, Store::Int32(store)) => store.push(cursor.int()?),
            (Read::Double, Store::Float64(store)) => store.push(cursor.double()?),
            _ => return self.read.read(cursor, column),
        }
        column.mark_valid();
        Ok(())
    }
}

impl Read {
    fn read(&self, cursor: &mut Cursor, column: &mut Column) -> Accept<()> {
        match (self, &mut column.store) {
            (Read::Null, _) => return column.push_missing(),
            (Read::Int, _) => integer(cursor.int()? as i64, column)?,
            (Read::Long, _) => integer(cursor.long()?, column)?,
            (Read::Bytes, Store::Utf8(store)) => text(cursor.bytes()?, store)?,
            (Read::Bytes, Store::Binary(store)) => store.push(cursor.bytes()?)?,
            (Read::Double, Store::Float64(store)) => store.push(cursor.double()?),
            (Read::Double, Store::Float32(store)) => store.push(cursor.double()? as f32),
            (Read::Float, Store::Float64(store)) => store.push(cursor.float()? as f64),
            (Read::Float, Store::Float32(store)) => store.push(cursor.float()?),
            (Read::Boolean, Store::Boolean(store)) => store.push(cursor.boolean()?),
            (Read::Millis(int), Store::Micros(store, _)) => store.push(cursor.millis(*int)?),
            (Read::Millis(int), Store::Moment(store, _)) => store.push(micros_within(cursor.millis(*int)?)?),
            (Read::Time(int, unit, step), Store::Nanos(store)) => {
                store.push(of_day(cursor.int_or_long(*int)?, *unit, *step)?);
            }
            (Read::Fixed(size), Store::Binary(store)) => store.push(cursor.take(*size)?)?,
            (Read::Decimal(size, written_scale), Store::Decimal(store, precision, scale)) => {
                let bytes = match size {
                    Some(size) => cursor.take(*size)?,
                    None => cursor.bytes()?,
                };
                store.push(rescaled(unscaled(bytes)?, *scale as i32 - written_scale, *precision)?);
            }
            (Read::Uuid, Store::Utf8(store)) => {
                for (place, byte) in cursor.take(16)?.iter().enumerate() {
                    if matches!(place, 4 | 6 | 8 | 10) {
                        store.values.push(b'-');
                    }
                    store.values.extend([HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]]);
                }
                store.end()?;
            }
            (Read::Enum(symbols), Store::Utf8(store)) => {
                let symbol = usize::try_from(cursor.long()?).map_err(|_| Reject)?;
                let name = symbols.get(symbol).and_then(Option::as_ref).ok_or(Reject)?;
                store.push(name.as_bytes())?;
            }
            (Read::Record(record), Store::Struct(store)) => record.read(cursor, store)?,
            (Read::Array(item), Store::List(store)) => {
                cursor.items(|cursor| item.read(cursor, &mut store.element))?;
                end_list(&mut store.offsets, store.element.len())?;
            }
            (Read::Map(item), Store::Map(store)) => {
                let (keys, values, rows) = entries(&mut store.element)?;
                cursor.items(|cursor| {
                    text(cursor.bytes()?, keys)?;
                    item.read(cursor, values)
                })?;
                end_map(&mut store.offsets, keys, rows)?;
            }
            _ => return Err(Reject),
        }
        column.mark_valid();
        Ok(())
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A whole number into any column that accepts one.
#[inline]
fn integer(value: i64, column: &mut Column) -> Accept<()> {
    match &mut column.store {
        Store::Int64(store) | Store::Micros(store, _) => store.push(value),
        Store::Int32(store) | Store::Date(store) => store.push(value.try_into().map_err(|_| Reject)?),
        Store::Days(store) => store.push(within(value)?),
        Store::Moment(store, _) => store.push(micros_within(value)?),
        Store::Int16(store) => store.push(value.try_into().map_err(|_| Reject)?),
        Store::Int8(store) => store.push(value.try_into().map_err(|_| Reject)?),
        Store::Float64(store) => store.push(value as f64),
        Store::Float32(store) => store.push(value as f32),
        _ => return Err(Reject),
    }
    Ok(())
}

#[inline]
fn text(bytes: &[u8], store: &mut Bytes) -> Accept<()> {
    if !is_ascii(bytes) {
        from_utf8(bytes).map_err(|_| Reject)?;
    }
    store.push(bytes)
}

#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let mut chunks = bytes.chunks_exact(8);
    let mut bits = 0;
    for chunk in &mut chunks {
        bits |= u64::from_ne_bytes(chunk.try_into().expect("eight bytes"));
    }
    for &byte in chunks.remainder() {
        bits |= byte as u64;
    }
    bits & 0x8080_8080_8080_8080 == 0
}
