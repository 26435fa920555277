//! Columns under construction: rows are appended, and taken back when an event turns out to be unusual.
//!
//! Invariant: between events all top-level columns have the same number of rows. `truncate` restores it from
//! any state inside an event, because the lengths of nested columns follow from those above them.

use std::collections::HashMap;

use arrow_array::{Array, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, transform::MutableArrayData};
use arrow_schema::DataType;

use crate::times::Clock;

/// An event that is not read here: bad or only unusual. The reference decoder decides.
#[derive(Debug)]
pub struct Reject;

pub type Accept<T> = Result<T, Reject>;

/// Most bytes in one string column of a batch; Arrow's offsets are int32. Small events can make much text
/// (symbols of enums), so this is checked.
const MOST_TEXT: usize = 1 << 30;

/// Most elements in one list column of a batch.
const MOST_ELEMENTS: usize = i32::MAX as usize - 1;

#[derive(Clone, Default)]
pub struct Bytes {
    pub offsets: Vec<i32>,
    pub values: Vec<u8>,
}

impl Bytes {
    pub fn new() -> Self {
        Bytes { offsets: vec![0], values: Vec::new() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Ends the value that was appended to `values`.
    #[inline]
    pub fn end(&mut self) -> Accept<()> {
        if self.values.len() > MOST_TEXT {
            return Err(Reject);
        }
        self.offsets.push(self.values.len() as i32);
        Ok(())
    }

    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Accept<()> {
        self.values.extend_from_slice(value);
        self.end()
    }

    pub fn value(&self, index: usize) -> &[u8] {
        &self.values[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.values.truncate(self.offsets[rows] as usize);
    }
}

#[derive(Clone)]
pub struct Struct {
    pub rows: usize,
    pub fields: Vec<Column>,
    /// The keys of JSON objects; not used for Avro.
    pub names: Names,
}

#[derive(Clone)]
pub struct List {
    pub offsets: Vec<i32>,
    pub element: Box<Column>,
}

#[derive(Clone)]
pub enum Store {
    Boolean(Vec<u8>),
    /// The same, in JSON also as 0 or 1.
    Flag(Vec<u8>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Date(Vec<i32>),
    /// A date of the years 0001 to 9999, in JSON and Avro as a number of days.
    Days(Vec<i32>),
    /// Microseconds of the years 0001 to 9999, in Avro as a number, in JSON as a number or a text; the number of
    /// microseconds in its unit in JSON, 0 for nanoseconds, -1 if unknown.
    Moment(Vec<i64>, i64),
    /// Microseconds; true: in UTC, false: of local time.
    Micros(Vec<i64>, bool),
    /// Nanoseconds since midnight, in Avro.
    Nanos(Vec<i64>),
    /// The same, in JSON.
    Clock(Vec<i64>, Clock),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    /// Unscaled numbers, the precision, the scale.
    Decimal(Vec<i128>, u8, i8),
    /// The same, in JSON as a number or the text of one.
    Digits(Vec<i128>, u8, i8),
    /// The same, in JSON as the base64 of an unscaled number with the last scale.
    Unscaled(Vec<i128>, u8, i8, i8),
    Utf8(Bytes),
    /// The JSON text of any value; a string is its own text.
    Anything(Bytes),
    Binary(Bytes),
    List(List),
    /// A list of structs of a key and a value.
    Map(List),
    Struct(Struct),
    /// Any value of JSON, as two binary columns.
    Variant(Struct),
    /// The same value in every row: the number of rows, and an array of the value.
    Constant(usize, ArrayData),
}

/// Matches a store. The first arm stands for all numbers, whatever their type; those of the other stores follow.
macro_rules! match_store {
    ($store:expr, $numbers:ident => $result:expr, $($others:tt)*) => {
        match $store {
            Store::Int8($numbers) => $result,
            Store::Int16($numbers) => $result,
            Store::Int32($numbers) | Store::Date($numbers) | Store::Days($numbers) => $result,
            Store::Int64($numbers) | Store::Micros($numbers, _) | Store::Moment($numbers, _) => $result,
            Store::Nanos($numbers) | Store::Clock($numbers, _) => $result,
            Store::Float32($numbers) => $result,
            Store::Float64($numbers) => $result,
            Store::Decimal($numbers, ..) | Store::Digits($numbers, ..) | Store::Unscaled($numbers, ..) => $result,
            $($others)*
        }
    };
}

#[derive(Clone)]
pub struct Column {
    pub data_type: DataType,
    pub nullable: bool,
    /// A missing value is not null but a default, which only the reference knows.
    pub defaulted: bool,
    /// Base64 that may also be hex is left to the reference.
    pub wary: bool,
    pub store: Store,
    /// One byte per row, 1 for valid; empty as long as there is no null.
    valid: Vec<u8>,
}

impl Column {
    pub fn new(data_type: DataType, nullable: bool, store: Store) -> Self {
        Column { data_type, nullable, defaulted: false, wary: false, store, valid: Vec::new() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match_store! { &self.store,
            v => v.len(),
            Store::Boolean(v) | Store::Flag(v) => v.len(),
            Store::Utf8(v) | Store::Anything(v) | Store::Binary(v) => v.len(),
            Store::List(v) | Store::Map(v) => v.offsets.len() - 1,
            Store::Struct(v) | Store::Variant(v) => v.rows,
            Store::Constant(rows, _) => *rows,
        }
    }

    /// Must be called after a value was appended to `store`.
    #[inline]
    pub fn mark_valid(&mut self) {
        if !self.valid.is_empty() {
            self.valid.push(1);
        }
    }

    /// Appends a null, or any value where a surrounding null hides it.
    pub fn push_null(&mut self) {
        let rows = self.len();
        let is_variant = matches!(self.store, Store::Variant(_));
        match_store! { &mut self.store,
            v => v.push(Default::default()),
            Store::Boolean(v) | Store::Flag(v) => v.push(0),
            Store::Utf8(v) | Store::Anything(v) | Store::Binary(v) => v.offsets.push(v.offsets[rows]),
            Store::List(v) | Store::Map(v) => v.offsets.push(v.offsets[rows]),
            Store::Struct(v) | Store::Variant(v) => {
                for field in &mut v.fields {
                    field.push_null();
                    if is_variant {
                        field.valid.clear(); // its parts are never null
                    }
                }
                v.rows += 1;
            }
            Store::Constant(rows, _) => {
                *rows += 1;
                return;
            }
        }
        if self.valid.is_empty() {
            self.valid.reserve(rows + 1);
            self.valid.resize(rows, 1);
        }
        self.valid.push(0);
    }

    /// A null in the event, or a value that the event lacks.
    #[inline]
    pub fn push_missing(&mut self) -> Accept<()> {
        if !self.nullable {
            return Err(Reject);
        }
        self.push_null();
        Ok(())
    }

    pub fn truncate(&mut self, rows: usize) {
        // Where there are no more, values of an unfinished list or string may still be there.
        let rows = rows.min(self.len());
        match_store! { &mut self.store,
            v => v.truncate(rows),
            Store::Boolean(v) | Store::Flag(v) => v.truncate(rows),
            Store::Utf8(v) | Store::Anything(v) | Store::Binary(v) => v.truncate(rows),
            Store::List(v) | Store::Map(v) => {
                v.offsets.truncate(rows + 1);
                v.element.truncate(v.offsets[rows] as usize);
            }
            Store::Struct(v) | Store::Variant(v) => {
                v.fields.iter_mut().for_each(|field| field.truncate(rows));
                v.rows = rows;
            }
            Store::Constant(count, _) => *count = rows,
        }
        self.valid.truncate(rows);
    }

    /// Reserves memory for this many rows.
    pub fn reserve(&mut self, rows: usize) {
        match_store! { &mut self.store,
            v => v.reserve(rows),
            Store::Boolean(v) | Store::Flag(v) => v.reserve(rows),
            Store::Utf8(v) | Store::Anything(v) | Store::Binary(v) => v.offsets.reserve(rows),
            Store::List(v) | Store::Map(v) => v.offsets.reserve(rows),
            Store::Struct(v) | Store::Variant(v) => v.fields.iter_mut().for_each(|field| field.reserve(rows)),
            Store::Constant(..) => {}
        }
    }

    /// The finished array.
    pub fn finish(self) -> ArrayData {
        let rows = self.len();
        let nulls = nulls_of(&self.valid);
        let builder = ArrayData::builder(self.data_type.clone()).len(rows).nulls(nulls);
        let builder = match_store! { self.store,
            v => builder.add_buffer(Buffer::from_vec(v)),
            Store::Boolean(v) | Store::Flag(v) => builder.add_buffer(packed(&v).into_inner()),
            Store::Utf8(v) | Store::Anything(v) | Store::Binary(v) => {
                builder.add_buffer(Buffer::from_vec(v.offsets)).add_buffer(Buffer::from_vec(v.values))
            }
            Store::List(v) | Store::Map(v) => {
                builder.add_buffer(Buffer::from_vec(v.offsets)).add_child_data(v.element.finish())
            }
            Store::Struct(v) | Store::Variant(v) => builder.child_data(v.fields.into_iter().map(Column::finish).collect()),
            Store::Constant(rows, one) => return repeated(&one, rows),
        };
        // SAFETY: every store matches its data type (`spec::column`), offsets ascend and end where the values
        // end, and only valid UTF-8 is appended to Utf8 (checked per value by the decoders).
        unsafe { builder.build_unchecked() }
    }
}

fn nulls_of(valid: &[u8]) -> Option<NullBuffer> {
    if valid.is_empty() || !valid.contains(&0) { None } else { Some(NullBuffer::new(packed(valid))) }
}

fn packed(bytes: &[u8]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(bytes.len(), |index| bytes[index] != 0)
}

fn repeated(one: &ArrayData, rows: usize) -> ArrayData {
    // Doubled until it is long enough.
    let mut found = one.clone();
    while found.len() < rows {
        let mut longer = MutableArrayData::new(vec![&found], false, found.len() * 2);
        // An overflow panics, and then the reference reads the batch.
        longer.try_extend(0, 0, found.len()).expect("room for constants");
        longer.try_extend(0, 0, found.len().min(rows - found.len())).expect("room for constants");
        found = longer.freeze();
    }
    make_array(found).slice(0, rows).to_data()
}

/// Ends a list or map whose elements have been appended.
#[inline]
pub fn end_list(offsets: &mut Vec<i32>, elements: usize) -> Accept<()> {
    if elements > MOST_ELEMENTS {
        return Err(Reject);
    }
    offsets.push(elements as i32);
    Ok(())
}

/// The keys, the values and the number of the entries of maps.
#[inline]
pub fn entries(element: &mut Column) -> Accept<(&mut Bytes, &mut Column, &mut usize)> {
    let Store::Struct(Struct { rows, fields, .. }) = &mut element.store else { return Err(Reject) };
    let [Column { store: Store::Utf8(keys), .. }, value] = &mut fields[..] else { return Err(Reject) };
    Ok((keys, value, rows))
}

/// Ends a map whose keys and values have been appended. Rejects one in which a key occurs twice.
#[inline]
pub fn end_map(offsets: &mut Vec<i32>, keys: &Bytes, rows: &mut usize) -> Accept<()> {
    if has_twins(keys, *rows) {
        return Err(Reject);
    }
    *rows = keys.len();
    end_list(offsets, *rows)
}

/// Whether a key occurs twice among those from `begin` on.
fn has_twins(keys: &Bytes, begin: usize) -> bool {
    let count = keys.len() - begin;
    if count <= 8 {
        return (begin..keys.len()).any(|one| (begin..one).any(|other| keys.value(one) == keys.value(other)));
    }
    let mut seen = std::collections::HashSet::with_capacity(count);
    (begin..keys.len()).any(|index| !seen.insert(keys.value(index)))
}

/// Finds the fields of a struct by their names, quickly when objects have the same keys in the same order.
#[derive(Clone, Default)]
pub struct Names {
    names: Vec<Box<[u8]>>,
    places: HashMap<Box<[u8]>, usize>,
    /// The n-th key of earlier objects.
    learned: Vec<Learned>,
}

/// A key as it was in an object: in quotes, with the colon if it followed at once.
#[derive(Clone, Default)]
struct Learned {
    text: Vec<u8>,
    /// The first bytes of the text, for comparing them at once.
    first: u128,
    mask: u128,
    field: Option<usize>,
}

pub struct Expected {
    pub length: usize,
    /// Whether the colon is among them.
    pub colon: bool,
    pub field: Option<usize>,
}

const FEW: usize = 6;
const MOST_LEARNED: usize = 4096;
const LONGEST_LEARNED: usize = 64;

impl Names {
    pub fn new(names: Vec<String>) -> Self {
        let names: Vec<Box<[u8]>> = names.into_iter().map(|name| name.into_bytes().into_boxed_slice()).collect();
        let places = names.iter().cloned().enumerate().map(|(place, name)| (name, place)).collect();
        Names { names, places, learned: Vec::new() }
    }

    /// Whether the text begins with the earlier key at this position.
    #[inline]
    pub fn expected(&self, position: usize, text: &[u8]) -> Option<Expected> {
        let key = self.learned.get(position)?;
        let length = key.text.len();
        match text.first_chunk::<16>() {
            Some(chunk) => {
                if (u128::from_le_bytes(*chunk) ^ key.first) & key.mask != 0
                    || (length > 16 && !text[16..].starts_with(&key.text[16..]))
                {
                    return None;
                }
            }
            None if text.starts_with(&key.text) => {}
            None => return None,
        }
        // An empty text stands for a key that is not remembered.
        let last = *key.text.last()?;
        Some(Expected { length, colon: last == b':', field: key.field })
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        if self.names.len() <= FEW {
            self.names.iter().position(|each| &**each == name)
        } else {
            self.places.get(name).copied()
        }
    }

    /// Remembers a key that has no escapes, by its text in quotes.
    pub fn learn(&mut self, position: usize, text: &[u8], field: Option<usize>) {
        if position >= MOST_LEARNED || text.len() > LONGEST_LEARNED {
            return;
        }
        while self.learned.len() <= position {
            self.learned.push(Learned::default());
        }
        let learned = &mut self.learned[position];
        learned.text.clear();
        learned.text.extend_from_slice(text);
        let mut first = [0; 16];
        let count = text.len().min(16);
        first[..count].copy_from_slice(&text[..count]);
        learned.first = u128::from_le_bytes(first);
        learned.mask = if count == 16 { u128::MAX } else { (1 << (8 * count)) - 1 };
        learned.field = field;
    }
}
