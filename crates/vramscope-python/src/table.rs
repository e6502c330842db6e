//! Tables for other libraries, through the Arrow PyCapsule interface without copies.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::answers::failed;

/// A table of a recording, for polars, pandas, DuckDB, pyarrow and other libraries that accept Arrow data.
///
/// They read the columns in place: nothing is copied, and the table stays alive while one of them uses it. Texts are
/// dictionary-encoded (pandas and polars: categorical), and times are in UTC.
///
///     import polars
///     events = polars.DataFrame(recording.events)
#[pyclass(frozen, module = "vramscope")]
pub(crate) struct Table {
    name: String,
    batch: RecordBatch,
}

impl Table {
    pub(crate) fn new(name: String, batch: RecordBatch) -> Self {
        Self { name, batch }
    }
}

#[pymethods]
impl Table {
    /// The column names, in order. Each name ends in its unit.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The memory of the columns, in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batch.columns().iter().map(|column| column.get_buffer_memory_size()).sum()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<Table {}: {} rows, columns {}>", self.name, self.num_rows(), self.column_names().join(", "))
    }

    /// The column types, for Arrow's C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.batch.schema()).map_err(|e| failed(&self.name, e))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The columns, for Arrow's C stream interface: one batch with all rows. A requested schema is ignored, as the interface
    /// permits; the caller casts the result.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }
}
