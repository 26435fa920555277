//! Turns Python's descriptions into plans and columns.
//!
//! Columns are nested tuples: ("leaf", arrow type, nullable) | ("anything", ...) | ("flag", ...) | ("days", ...) |
//! ("wary", ...) | ("variant", ...) | ("moment", ..., unit) | ("clock", ..., step, unit, texts, utc) | ("digits", ...) |
//! ("unscaled", ..., scale) | ("list", ..., element) | ("map", ..., key, value) |
//! ("struct", ..., [name, ...], [column, ...]) | ("constant", ..., array of one value) | ("defaulted", ..., column).

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pythonize::depythonize;
use serde::de::DeserializeOwned;

use crate::columns::{Bytes, Column, List, Names, Store, Struct};
use crate::times::Clock;

/// Most levels of nested types; deeper schemas are left to the reference, so that the stack does not overflow.
const DEEPEST: usize = 100;

pub fn unsupported(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

fn item<'py, T>(spec: &Bound<'py, PyTuple>, place: usize) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    spec.get_item(place)?.extract::<T>().map_err(Into::into)
}

pub fn structure(spec: &Bound<PyTuple>) -> PyResult<Struct> {
    let column = column(spec, 0)?;
    match column.store {
        Store::Struct(store) => Ok(store),
        _ => Err(unsupported("the columns must be a struct")),
    }
}

fn column(spec: &Bound<PyTuple>, depth: usize) -> PyResult<Column> {
    if depth == DEEPEST {
        return Err(unsupported("the types are nested too deeply"));
    }
    let kind: String = item(spec, 0)?;
    let data_type = imported_type(&spec.get_item(1)?)?;
    let nullable: bool = item(spec, 2)?;
    let inner = |place: usize| column(&item::<Bound<PyTuple>>(spec, place)?, depth + 1);
    if kind == "defaulted" {
        let mut column = inner(3)?;
        column.defaulted = true;
        return Ok(column);
    }
    if kind == "wary" {
        let mut column = Column::new(data_type, nullable, Store::Binary(Bytes::new()));
        column.wary = true;
        return Ok(column);
    }
    let store = match (kind.as_str(), &data_type) {
        ("leaf", _) => leaf(&data_type)?,
        ("flag", DataType::Boolean) => Store::Flag(Vec::new()),
        ("days", DataType::Date32) => Store::Days(Vec::new()),
        ("moment", DataType::Timestamp(TimeUnit::Microsecond, _)) => Store::Moment(Vec::new(), item(spec, 3)?),
        ("clock", DataType::Time64(TimeUnit::Nanosecond)) => {
            let (step, unit, texts, utc) = (item(spec, 3)?, item(spec, 4)?, item(spec, 5)?, item(spec, 6)?);
            Store::Clock(Vec::new(), Clock { step, unit, texts, utc })
        }
        ("digits", DataType::Decimal128(precision, scale)) => Store::Digits(Vec::new(), *precision, *scale),
        ("unscaled", DataType::Decimal128(precision, scale)) => {
            Store::Unscaled(Vec::new(), *precision, *scale, item(spec, 3)?)
        }
        ("anything", DataType::Utf8) => Store::Anything(Bytes::new()),
        ("list", DataType::List(_)) => Store::List(List { offsets: vec![0], element: Box::new(inner(3)?) }),
        ("map", DataType::Map(entries, _)) => {
            let pairs = Struct { rows: 0, fields: vec![inner(3)?, inner(4)?], names: Names::default() };
            let element = Column::new(entries.data_type().clone(), false, Store::Struct(pairs));
            Store::Map(List { offsets: vec![0], element: Box::new(element) })
        }
        ("variant", DataType::Struct(parts)) => {
            let part = |type_: &DataType| Ok(Column::new(type_.clone(), false, leaf(type_)?));
            let fields = parts.iter().map(|each| part(each.data_type())).collect::<PyResult<_>>()?;
            Store::Variant(Struct { rows: 0, fields, names: Names::default() })
        }
        ("struct", DataType::Struct(_)) => {
            let names: Vec<String> = item(spec, 3)?;
            let specs: Vec<Bound<PyTuple>> = item(spec, 4)?;
            let fields = specs.iter().map(|each| column(each, depth + 1)).collect::<PyResult<Vec<_>>>()?;
            Store::Struct(Struct { rows: 0, fields, names: Names::new(names) })
        }
        ("constant", _) => Store::Constant(0, imported_array(&spec.get_item(3)?)?),
        _ => {
            return Err(unsupported(format!("cannot build a column of kind {kind} and type {data_type}")));
        }
    };
    Ok(Column::new(data_type, nullable, store))
}

fn leaf(data_type: &DataType) -> PyResult<Store> {
    Ok(match data_type {
        DataType::Boolean => Store::Boolean(Vec::new()),
        DataType::Int8 => Store::Int8(Vec::new()),
        DataType::Int16 => Store::Int16(Vec::new()),
        DataType::Int32 => Store::Int32(Vec::new()),
        DataType::Int64 => Store::Int64(Vec::new()),
        DataType::Float32 => Store::Float32(Vec::new()),
        DataType::Float64 => Store::Float64(Vec::new()),
        DataType::Date32 => Store::Date(Vec::new()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => Store::Micros(Vec::new(), zone.is_some()),
        DataType::Time64(TimeUnit::Nanosecond) => Store::Nanos(Vec::new()),
        DataType::Decimal128(precision, scale) => Store::Decimal(Vec::new(), *precision, *scale),
        DataType::Utf8 => Store::Utf8(Bytes::new()),
        DataType::Binary => Store::Binary(Bytes::new()),
        other => return Err(unsupported(format!("cannot build a column of type {other}"))),
    })
}

/// A plan, which Python describes as nested dicts and sequences.
pub fn plan<T: DeserializeOwned>(spec: &Bound<PyAny>) -> PyResult<T> {
    depythonize(spec).map_err(|error| unsupported(error.to_string()))
}

/// The type that an object with the Arrow C interface stands for.
pub fn imported_type(object: &Bound<PyAny>) -> PyResult<DataType> {
    let capsule = object.call_method0("__arrow_c_schema__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds this struct, alive as long as the capsule.
    let schema = unsafe { pointer.as_ref() };
    DataType::try_from(schema).map_err(|error| unsupported(error.to_string()))
}

/// The array that an object with the Arrow C interface stands for.
pub fn imported_array(object: &Bound<PyAny>) -> PyResult<ArrayData> {
    let (schema, array): (Bound<PyCapsule>, Bound<PyCapsule>) = object.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold these structs; the array is moved out, as the interface says.
    let (schema, array) = unsafe { (schema.as_ref(), FFI_ArrowArray::from_raw(array.as_ptr())) };
    // SAFETY: the producer vouches for the content.
    let mut data = unsafe { from_ffi(array, schema) }.map_err(|error| unsupported(error.to_string()))?;
    data.align_buffers();
    Ok(data)
}
