//! Native decoding and encoding of events for pyspark-pravega: payloads in a buffer <-> Arrow columns, without the GIL.
//!
//! A decoder accepts only events that it is sure about. For all others, bad or unusual, it returns their
//! positions; the caller reads them with the reference decoder, whose values and reasons count.

mod avro;
mod columns;
mod decimals;
mod frames;
mod json;
mod json_write;
mod numbers;
mod routing;
mod search;
mod spec;
mod times;
mod writing;

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use columns::{Column, Store, Struct};
use search::Texts;

/// The version of the interface between Python and this module. Python refuses any other.
const INTERFACE: u32 = 9;

/// The digest of the sources of this module, by which the build knows whether it is up to date.
const SOURCES: &str = match option_env!("NATIVE_SOURCES") {
    Some(digest) => digest,
    None => "unknown",
};

enum Plan {
    JsonObject,
    /// The object after these bytes, which begin an object around it.
    JsonMember(Vec<u8>),
    JsonValue,
    Avro(avro::Record),
}

/// Decodes payloads of one schema.
#[pyclass(frozen)]
struct Decoder {
    plan: Plan,
    columns: Struct,
    data_type: DataType,
    /// Payloads with one of these texts are not accepted.
    refused: Texts,
}

/// An array for pyarrow: columns as one struct, or payloads.
#[pyclass(frozen)]
struct Batch {
    data: ArrayData,
}

#[pymethods]
impl Batch {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema; // the interface allows ignoring it
        let field = Field::new("", self.data.data_type().clone(), false);
        let schema = FFI_ArrowSchema::try_from(&field).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let array = FFI_ArrowArray::new(&self.data);
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}

#[pymethods]
impl Decoder {
    /// `columns`: a struct, as `spec` describes. `value`: the document is the value of the only column. `refused`:
    /// payloads with one of these texts are not accepted.
    #[staticmethod]
    fn json(columns: &Bound<PyTuple>, value: bool, refused: Vec<Vec<u8>>) -> PyResult<Self> {
        let plan = if value { Plan::JsonValue } else { Plan::JsonObject };
        Decoder::new(plan, columns, refused)
    }

    /// The columns of the object that ends a document, which begins with `prefix`, where refused texts do not matter.
    #[staticmethod]
    fn json_member(columns: &Bound<PyTuple>, prefix: Vec<u8>, refused: Vec<Vec<u8>>) -> PyResult<Self> {
        Decoder::new(Plan::JsonMember(prefix), columns, refused)
    }

    /// `plan`: the `Value` that stands for the writer's record.
    #[staticmethod]
    fn avro(columns: &Bound<PyTuple>, plan: &Bound<PyAny>, refused: Vec<Vec<u8>>) -> PyResult<Self> {
        spec::structure(columns)?; // refuses columns so deep that their plan would take too much stack
        match spec::plan::<avro::Value>(plan)?.read {
            avro::Read::Record(record) => Decoder::new(Plan::Avro(record), columns, refused),
            _ => Err(spec::unsupported("the plan must be a record")),
        }
    }

    /// Decodes the payloads of `data` that begin at `starts` and have `lengths` bytes (both int64).
    ///
    /// Returns the columns of the accepted payloads, in order, and the positions of the others as the bytes of
    /// int64 (None if there are none).
    fn decode<'py>(
        &self,
        py: Python<'py>,
        data: PyBuffer<u8>,
        starts: PyBuffer<i64>,
        lengths: PyBuffer<i64>,
        padded: bool,
    ) -> PyResult<(Batch, Option<Bound<'py, PyBytes>>)> {
        let payloads = Payloads::new(&data, &starts, &lengths)?;
        let (data, rejected) = py.detach(|| self.run(&payloads, padded));
        let rejected = if rejected.is_empty() { None } else { Some(PyBytes::new(py, bytes_of(&rejected))) };
        Ok((Batch { data }, rejected))
    }
}

impl Decoder {
    fn new(plan: Plan, columns: &Bound<PyTuple>, refused: Vec<Vec<u8>>) -> PyResult<Self> {
        let data_type = spec::imported_type(&columns.get_item(1)?)?;
        Ok(Decoder { plan, columns: spec::structure(columns)?, data_type, refused: Texts::new(&refused) })
    }

    fn run(&self, payloads: &Payloads, padded: bool) -> (ArrayData, Vec<i64>) {
        // A panic would be a bug in this crate; the reference decoder then reads all of these events.
        catch_unwind(AssertUnwindSafe(|| self.decode_all(payloads, padded))).unwrap_or_else(|_| {
            let none = self.fresh(0).finish();
            (none, (0..payloads.len() as i64).collect())
        })
    }

    fn fresh(&self, rows: usize) -> Column {
        let mut column = Column::new(self.data_type.clone(), false, Store::Struct(self.columns.clone()));
        column.reserve(rows);
        column
    }

    fn decode_all(&self, payloads: &Payloads, padded: bool) -> (ArrayData, Vec<i64>) {
        let mut root = self.fresh(payloads.len());
        let mut rejected = Vec::new();
        for index in 0..payloads.len() {
            let Store::Struct(columns) = &mut root.store else { unreachable!("the root is a struct") };
            let mut payload = payloads.get(index);
            let accepted = match &self.plan {
                Plan::Avro(record) => avro::read_event(record, payload, padded, columns),
                plan => {
                    while padded && payload.last() == Some(&0) {
                        payload = &payload[..payload.len() - 1];
                    }
                    match plan {
                        Plan::JsonValue => json::read_value(payload, columns),
                        Plan::JsonMember(prefix) => json::read_last_member(payload, prefix, columns),
                        _ => json::read_object(payload, columns),
                    }
                }
            };
            // Searched while the payload is still in the processor's cache.
            let searched = match &self.plan {
                Plan::JsonMember(prefix) => payload.get(prefix.len()..).unwrap_or_default(),
                _ => payload,
            };
            if accepted.is_err() || self.refused.is_any_in(searched) {
                root.truncate(index - rejected.len());
                rejected.push(index as i64);
            }
        }
        (root.finish(), rejected)
    }
}

/// Payloads in a buffer, all of which lie inside it.
struct Payloads<'a> {
    data: &'a [u8],
    starts: &'a [i64],
    lengths: &'a [i64],
}

impl<'a> Payloads<'a> {
    fn new(data: &'a PyBuffer<u8>, starts: &'a PyBuffer<i64>, lengths: &'a PyBuffer<i64>) -> PyResult<Self> {
        let found = Payloads { data: slice(data)?, starts: slice(starts)?, lengths: slice(lengths)? };
        let outside = |(&start, &length): (&i64, &i64)| {
            start < 0 || length < 0 || start.checked_add(length).is_none_or(|end| end as u64 > found.data.len() as u64)
        };
        if found.starts.len() != found.lengths.len() || found.starts.iter().zip(found.lengths).any(outside) {
            return Err(PyValueError::new_err("payloads must lie inside the buffer"));
        }
        Ok(found)
    }

    #[inline]
    fn len(&self) -> usize {
        self.starts.len()
    }

    #[inline]
    fn get(&self, index: usize) -> &'a [u8] {
        let start = self.starts[index] as usize;
        &self.data[start..start + self.lengths[index] as usize]
    }
}

fn slice<T: pyo3::buffer::Element>(buffer: &PyBuffer<T>) -> PyResult<&[T]> {
    if !buffer.is_c_contiguous() || buffer.dimensions() != 1 {
        return Err(PyValueError::new_err("a buffer must be one contiguous block"));
    }
    if buffer.item_count() == 0 {
        return Ok(&[]);
    }
    // SAFETY: contiguous, and kept alive by the borrow. Events are never written to once they are in a buffer.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<T>(), buffer.item_count()) })
}

/// The encoding id that all payloads begin with (0x01, then big-endian), or None if they differ or have none.
#[pyfunction]
fn common_encoding_id(data: PyBuffer<u8>, starts: PyBuffer<i64>, lengths: PyBuffer<i64>) -> PyResult<Option<i32>> {
    let payloads = Payloads::new(&data, &starts, &lengths)?;
    if payloads.len() == 0 {
        return Ok(None);
    }
    let Some(&[1, a, b, c, d]) = payloads.get(0).first_chunk::<5>() else {
        return Ok(None);
    };
    let id = i32::from_be_bytes([a, b, c, d]);
    let same = (1..payloads.len()).all(|index| payloads.get(index).first_chunk::<5>() == Some(&[1, a, b, c, d]));
    Ok(if same && id >= 0 { Some(id) } else { None })
}

/// Finds the whole events in `data[begin:end]`, as `frames` describes.
///
/// Returns the starts and lengths of payloads, as the bytes of int64, and the start of the first incomplete frame.
#[pyfunction]
fn whole_frames<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    begin: usize,
    end: usize,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, usize)> {
    let data = slice(&data)?.get(..end).filter(|_| begin <= end);
    let data = data.ok_or_else(|| PyValueError::new_err("frames must lie inside the buffer"))?;
    let found = py.detach(|| frames::whole_frames(data, begin));
    Ok((PyBytes::new(py, bytes_of(&found.starts)), PyBytes::new(py, bytes_of(&found.lengths)), found.end))
}

/// The positions of the payloads that contain one of the texts, as the bytes of int64; None if there are none.
#[pyfunction]
fn find_payloads<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    starts: PyBuffer<i64>,
    lengths: PyBuffer<i64>,
    texts: Vec<Vec<u8>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let payloads = Payloads::new(&data, &starts, &lengths)?;
    let every = (0..payloads.len()).map(|index| payloads.get(index));
    let texts = Texts::new(&texts);
    let found: Vec<i64> = py
        .detach(|| every.zip(0..).filter(|(payload, _)| texts.is_any_in(payload)).map(|(_, number)| number).collect());
    Ok(if found.is_empty() { None } else { Some(PyBytes::new(py, bytes_of(&found))) })
}

fn bytes_of(numbers: &[i64]) -> &[u8] {
    // SAFETY: every int64 is eight bytes, without gaps.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast::<u8>(), std::mem::size_of_val(numbers)) }
}

#[pymodule]
fn _native(module: &Bound<PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add("SOURCES", SOURCES)?;
    module.add_class::<Decoder>()?;
    module.add_class::<writing::JsonEncoder>()?;
    module.add_function(wrap_pyfunction!(common_encoding_id, module)?)?;
    module.add_function(wrap_pyfunction!(whole_frames, module)?)?;
    module.add_function(wrap_pyfunction!(find_payloads, module)?)?;
    module.add_function(wrap_pyfunction!(writing::hash_keys, module)?)?;
    module.add_function(wrap_pyfunction!(writing::frames, module)?)?;
    Ok(())
}
