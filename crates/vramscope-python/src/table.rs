//! Tables that other libraries take through the Arrow PyCapsule interface, without a copy.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::answers::failed;

/// A table of a recording, for polars, pandas, DuckDB, pyarrow and all that takes Arrow's data.
///
/// They read the columns where they lie: nothing is copied, and the table stays as long as one of them needs it. Texts are
/// dictionaries (pandas and polars: categorical), times have the zone UTC.
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
    /// The names of the columns, in their order. Each ends in its unit.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How many rows there are.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// How many bytes of memory the columns take.
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

    /// The types of the columns, as Arrow's C data interface has them.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.batch.schema()).map_err(|e| failed(&self.name, e))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The columns, as Arrow's C stream interface has them: one batch with all rows. A schema that is asked for is not
    /// followed, which the interface allows: who asks casts what comes.
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
