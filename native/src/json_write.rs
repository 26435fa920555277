//! Rows -> JSON documents, byte for byte as the encoder in Python writes them (`formats/json/writing.py`).
//!
//! Anything that it refuses, or rarely writes, causes `Reject`; it then writes the whole batch.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::columns::{Accept, Reject};
use crate::numbers;
use crate::times;

/// How the values of a column are written.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    Boolean,
    Integer,
    Decimal,
    Float,
    /// Numbers only: infinity and NaN are refused.
    Finite,
    Text,
    Base64,
    Date,
    /// ISO 8601; an instant in UTC if true.
    Moment(bool),
    /// Numbers since 1970 in a unit of this many microseconds.
    Epoch(i64),
    List(Box<Member>),
    /// Keys are texts.
    Map(Box<Member>),
    Object(Vec<Member>),
}

/// How a null is written.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Nulls {
    Refused,
    Written,
    /// Nothing, not even the name; in objects only.
    LeftOut,
}

/// A column; `begin` is written before its value.
#[derive(Deserialize)]
pub struct Member {
    pub begin: String,
    pub missing: Nulls,
    pub shape: Shape,
}

/// The values of a column of one batch.
struct Cells {
    begin: Vec<u8>,
    missing: Nulls,
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Boolean(arrow_array::BooleanArray),
    Integer(arrow_array::Int64Array),
    Decimal(arrow_array::Decimal128Array, i8),
    /// The numbers, and whether all must be finite.
    Float32(arrow_array::Float32Array, bool),
    Float64(arrow_array::Float64Array, bool),
    Text(Strings),
    Base64(Strings),
    Date(arrow_array::Date32Array),
    Moment(arrow_array::TimestampMicrosecondArray, bool),
    Epoch(arrow_array::TimestampMicrosecondArray, i64),
    /// The bounds of lists or maps, the keys of maps, the items.
    Items(Vec<i64>, Option<Strings>, Box<Cells>),
    /// The members, and whether any may be left out.
    Object(Vec<Cells>, bool),
}

/// Texts or bytes, with offsets of either width.
pub struct Strings {
    offsets: Vec<i64>,
    data: arrow_buffer::Buffer,
}

impl Strings {
    fn new(array: &ArrayRef) -> Accept<Strings> {
        let data = array.to_data();
        let (offsets, bytes) = match array.data_type() {
            DataType::Utf8 | DataType::Binary => (wide::<i32>(&data), &data.buffers()[1]),
            DataType::LargeUtf8 | DataType::LargeBinary => (wide::<i64>(&data), &data.buffers()[1]),
            _ => return Err(Reject),
        };
        Ok(Strings { offsets, data: bytes.clone() })
    }

    pub fn without_nulls(array: &ArrayRef) -> Accept<Strings> {
        if array.null_count() > 0 { Err(Reject) } else { Strings::new(array) }
    }

    /// Texts, all of which are UTF-8.
    fn text(array: &ArrayRef) -> Accept<Strings> {
        let found = Strings::new(array)?;
        let (first, last) = (found.offsets[0] as usize, found.offsets[found.offsets.len() - 1] as usize);
        let all = &found.data[first..last];
        if !all.is_ascii() {
            for row in 0..found.offsets.len() - 1 {
                simdutf8::basic::from_utf8(found.get(row)).map_err(|_| Reject)?;
            }
        }
        Ok(found)
    }

    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

fn wide<T: OffsetSizeTrait>(data: &arrow_data::ArrayData) -> Vec<i64> {
    if data.is_empty() {
        return vec![0];
    }
    let every = data.buffers()[0].typed_data::<T>();
    every[data.offset()..=data.offset() + data.len()].iter().map(|each| each.as_usize() as i64).collect()
}

/// Writes all rows in sequence, `header` before each; returns the bytes and the ends of the rows, beginning with 0.
pub fn write(member: &Member, array: &ArrayRef, header: &[u8]) -> Accept<(Vec<u8>, Vec<i64>)> {
    let rows = array.len();
    let cells = Cells::new(member, array)?;
    let mut out = Vec::with_capacity(rows * (64 + header.len()));
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0);
    for row in 0..rows {
        out.extend_from_slice(header);
        cells.write(row, &mut out)?;
        ends.push(out.len() as i64);
    }
    Ok((out, ends))
}

impl Cells {
    fn new(member: &Member, array: &ArrayRef) -> Accept<Cells> {
        let values = match (&member.shape, array.data_type()) {
            (Shape::Boolean, DataType::Boolean) => Values::Boolean(array.as_boolean().clone()),
            (Shape::Integer, DataType::Int8) => Values::Integer(array.as_primitive::<Int8Type>().unary(i64::from)),
            (Shape::Integer, DataType::Int16) => Values::Integer(array.as_primitive::<Int16Type>().unary(i64::from)),
            (Shape::Integer, DataType::Int32) => Values::Integer(array.as_primitive::<Int32Type>().unary(i64::from)),
            (Shape::Integer, DataType::Int64) => Values::Integer(array.as_primitive::<Int64Type>().clone()),
            (Shape::Decimal, DataType::Decimal128(_, scale)) => {
                Values::Decimal(array.as_primitive::<Decimal128Type>().clone(), *scale)
            }
            (Shape::Float | Shape::Finite, DataType::Float32) => {
                Values::Float32(array.as_primitive::<Float32Type>().clone(), matches!(member.shape, Shape::Finite))
            }
            (Shape::Float | Shape::Finite, DataType::Float64) => {
                Values::Float64(array.as_primitive::<Float64Type>().clone(), matches!(member.shape, Shape::Finite))
            }
            (Shape::Text, DataType::Utf8 | DataType::LargeUtf8) => Values::Text(Strings::text(array)?),
            (Shape::Base64, DataType::Binary | DataType::LargeBinary) => Values::Base64(Strings::new(array)?),
            (Shape::Date, DataType::Date32) => Values::Date(array.as_primitive::<Date32Type>().clone()),
            (Shape::Moment(utc), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
                Values::Moment(array.as_primitive::<TimestampMicrosecondType>().clone(), *utc)
            }
            (Shape::Epoch(unit), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
                Values::Epoch(array.as_primitive::<TimestampMicrosecondType>().clone(), *unit)
            }
            (Shape::List(element), DataType::List(_)) => {
                let list = array.as_list::<i32>();
                let offsets = list.offsets().iter().map(|each| i64::from(*each)).collect();
                Values::Items(offsets, None, Box::new(Cells::new(element, list.values())?))
            }
            (Shape::Map(value), DataType::Map(..)) => {
                let map = array.as_map();
                let offsets = map.offsets().iter().map(|each| i64::from(*each)).collect();
                let keys = Strings::text(map.keys())?;
                Values::Items(offsets, Some(keys), Box::new(Cells::new(value, map.values())?))
            }
            (Shape::Object(members), DataType::Struct(fields)) if fields.len() == members.len() => {
                let columns = array.as_struct().columns();
                let cells = members.iter().zip(columns).map(|(each, column)| Cells::new(each, column));
                let gaps = members.is_empty() || members.iter().any(|each| each.missing == Nulls::LeftOut);
                Values::Object(cells.collect::<Accept<Vec<_>>>()?, gaps)
            }
            _ => return Err(Reject),
        };
        Ok(Cells {
            begin: member.begin.clone().into_bytes(),
            missing: member.missing,
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0).cloned(),
            values,
        })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Accept<()> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            match self.missing {
                Nulls::Refused => return Err(Reject),
                Nulls::LeftOut => {}
                Nulls::Written => {
                    out.extend_from_slice(&self.begin);
                    out.extend_from_slice(b"null");
                }
            }
            return Ok(());
        }
        out.extend_from_slice(&self.begin);
        match &self.values {
            Values::Boolean(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            Values::Integer(values) => numbers::integer(values.value(row), out),
            Values::Decimal(values, scale) => numbers::decimal(values.value(row), *scale, out),
            Values::Float32(values, finite) if *finite && !values.value(row).is_finite() => return Err(Reject),
            Values::Float64(values, finite) if *finite && !values.value(row).is_finite() => return Err(Reject),
            Values::Float32(values, _) => numbers::float(values.value(row), out),
            Values::Float64(values, _) => numbers::double(values.value(row), out),
            Values::Text(values) => quoted(values.get(row), out),
            Values::Base64(values) => {
                let bytes = values.get(row);
                out.push(b'"');
                let begin = out.len();
                out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
                STANDARD.encode_slice(bytes, &mut out[begin..]).map_err(|_| Reject)?;
                out.push(b'"');
            }
            Values::Date(values) => {
                let days = times::within(i64::from(values.value(row)))?;
                out.push(b'"');
                times::write_date(days, out);
                out.push(b'"');
            }
            Values::Moment(values, utc) => {
                let micros = times::micros_within(values.value(row))?;
                out.push(b'"');
                times::write_moment(micros, *utc, out);
                out.push(b'"');
            }
            Values::Epoch(values, unit) => {
                let micros = times::micros_within(values.value(row))?;
                numbers::fraction(micros, *unit, out);
            }
            Values::Items(offsets, keys, item) => {
                out.push(if keys.is_some() { b'{' } else { b'[' });
                for place in offsets[row]..offsets[row + 1] {
                    if place > offsets[row] {
                        out.push(b',');
                    }
                    if let Some(keys) = keys {
                        quoted(keys.get(place as usize), out);
                        out.push(b':');
                    }
                    item.write(place as usize, out)?;
                }
                out.push(if keys.is_some() { b'}' } else { b']' });
            }
            Values::Object(members, gaps) => {
                let begin = out.len();
                for member in members {
                    member.write(row, out)?;
                }
                if *gaps {
                    // The first member that is written begins the object.
                    match out.get_mut(begin) {
                        Some(separator) => *separator = b'{',
                        None => out.push(b'{'),
                    }
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
}

/// The escape of each byte of a string: 0 for the byte itself, 'u' for a number, else the letter after a backslash.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 0x20 {
        table[code] = b'u';
        code += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0A] = b'n';
    table[0x0C] = b'f';
    table[0x0D] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut done = 0;
    for (place, &byte) in text.iter().enumerate() {
        let escape = ESCAPES[byte as usize];
        if escape != 0 {
            out.extend_from_slice(&text[done..place]);
            out.extend_from_slice(&[b'\\', escape]);
            if escape == b'u' {
                let digits = b"0123456789abcdef";
                out.extend_from_slice(&[b'0', b'0', digits[(byte >> 4) as usize], digits[(byte & 15) as usize]]);
            }
            done = place + 1;
        }
    }
    out.extend_from_slice(&text[done..]);
    out.push(b'"');
}
