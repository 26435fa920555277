//! Functions for Python that write events: rows to JSON, keys to positions, payloads to the frames of each segment.
//!
//! As with reading, a case that is not certain returns None, and Python handles it: its bytes and errors count.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{Accept, Reject};
use crate::json_write::{self, Member, Strings};
use crate::spec::{imported_array, plan};
use crate::{Batch, routing, slice};

/// Bytes before each payload: its type, which is 0, and its length.
const HEADER_BYTES: usize = 8;

/// Writes rows as JSON documents.
#[pyclass(frozen)]
pub struct JsonEncoder {
    member: Member,
    header: Vec<u8>,
}

#[pymethods]
impl JsonEncoder {
    /// `member`: the `Member` that stands for all columns, or for the only one. `header` comes before each document.
    #[new]
    fn new(member: &Bound<PyAny>, header: Vec<u8>) -> PyResult<Self> {
        Ok(JsonEncoder { member: plan(member)?, header })
    }

    /// The document of each row as a large_binary array, None if the encoder in Python must write them.
    fn encode(&self, py: Python, rows: &Bound<PyAny>) -> PyResult<Option<Batch>> {
        let rows = make_array(imported_array(rows)?);
        // A panic would be a bug in this crate; the encoder in Python then writes all of these rows.
        let write = AssertUnwindSafe(|| json_write::write(&self.member, &rows, &self.header));
        let Ok(Ok((bytes, ends))) = py.detach(|| catch_unwind(write)) else { return Ok(None) };
        let data = ArrayData::builder(DataType::LargeBinary)
            .len(rows.len())
            .add_buffer(Buffer::from_vec(ends))
            .add_buffer(Buffer::from_vec(bytes))
            .build()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Some(Batch { data }))
    }
}

/// The positions of keys, a string array, as the bytes of doubles. None if one is null, not a text, or too long.
#[pyfunction]
pub fn hash_keys<'py>(
    py: Python<'py>,
    keys: &Bound<PyAny>,
    seed: u64,
    most: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let keys = make_array(imported_array(keys)?);
    Ok(py.detach(|| positions(&keys, seed, most)).ok().map(|found| PyBytes::new(py, &found)))
}

fn positions(keys: &ArrayRef, seed: u64, most: usize) -> Accept<Vec<u8>> {
    let texts = Strings::without_nulls(keys)?;
    let mut units = Vec::new();
    let mut found = Vec::with_capacity(keys.len() * 8);
    for row in 0..keys.len() {
        found.extend_from_slice(&routing::position(texts.get(row), seed, most, &mut units)?.to_ne_bytes());
    }
    Ok(found)
}

/// Writes frames of payloads, a large_binary array without nulls, into the buffer of each place, which must have exactly
/// the right size.
#[pyfunction]
pub fn frames(py: Python, payloads: &Bound<PyAny>, places: PyBuffer<i64>, rooms: Vec<PyBuffer<u8>>) -> PyResult<()> {
    let payloads = make_array(imported_array(payloads)?);
    let places = slice(&places)?;
    let wrong = || PyValueError::new_err("the frames do not fill their buffers");
    let events = Strings::without_nulls(&payloads).map_err(|_| wrong())?;
    if places.len() != payloads.len() || rooms.iter().any(|room| room.readonly() || !room.is_c_contiguous()) {
        return Err(wrong());
    }
    let mut left: Vec<&mut [u8]> = Vec::with_capacity(rooms.len());
    for room in &rooms {
        left.push(if room.item_count() == 0 {
            &mut []
        } else {
            // SAFETY: writable and contiguous, kept alive by the borrow, and only the caller knows these buffers.
            unsafe { std::slice::from_raw_parts_mut(room.buf_ptr().cast::<u8>(), room.item_count()) }
        });
    }
    if py.detach(|| framed(&events, places, left)).is_ok() { Ok(()) } else { Err(wrong()) }
}

fn framed(events: &Strings, places: &[i64], mut left: Vec<&mut [u8]>) -> Accept<()> {
    for (row, &place) in places.iter().enumerate() {
        let payload = events.get(row);
        let length = i32::try_from(payload.len()).map_err(|_| Reject)?;
        let room = left.get_mut(usize::try_from(place).map_err(|_| Reject)?).ok_or(Reject)?;
        let (frame, rest) = std::mem::take(room).split_at_mut_checked(HEADER_BYTES + payload.len()).ok_or(Reject)?;
        frame[..HEADER_BYTES].copy_from_slice(&i64::from(length).to_be_bytes());
        frame[HEADER_BYTES..].copy_from_slice(payload);
        *room = rest;
    }
    if left.iter().all(|room| room.is_empty()) { Ok(()) } else { Err(Reject) }
}
