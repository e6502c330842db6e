"""Tables through the Arrow PyCapsule interface."""

import ctypes
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import vramscope

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLES = ("events", "allocations", "segments", "holders")


@pytest.fixture(scope="module")
def recording() -> vramscope.Recording:
    return vramscope.read(EXAMPLES / "training.pickle.zst")


def addresses(table: pyarrow.Table) -> list[int]:
    """Returns the addresses of all columns' buffers, including dictionaries."""
    found = []
    for column in table.columns:
        (chunk,) = column.chunks
        parts = [chunk, chunk.dictionary] if pyarrow.types.is_dictionary(chunk.type) else [chunk]
        found += [buffer.address for part in parts for buffer in part.buffers() if buffer is not None]
    return found


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_not_copied(recording: vramscope.Recording, name: str):
    table = recording.table(name)
    first, second = pyarrow.table(table), pyarrow.table(table)
    assert addresses(first) == addresses(second)
    assert len(addresses(first)) >= len(table.column_names)
    if name != "holders":
        # The table is created once and cached.
        assert addresses(pyarrow.table(recording.table(name))) == addresses(first)


def test_numpy_sees_the_same_bytes(recording: vramscope.Recording):
    numpy = pytest.importorskip("numpy")
    column = pyarrow.table(recording.events)["allocated_bytes"].chunk(0)
    assert column.to_numpy(zero_copy_only=True).__array_interface__["data"][0] == column.buffers()[1].address
    assert numpy.max(column.to_numpy()) == recording.peaks()["peak_allocated_bytes"]


def test_a_table_outlives_its_recording():
    column = pyarrow.table(vramscope.read(EXAMPLES / "oom.pickle").events)["event"]
    assert column.to_pylist() == list(range(len(column)))


@pytest.mark.parametrize("name", ["events", "allocations", "segments"])
def test_it_is_the_table_that_parquet_has(recording: vramscope.Recording, name: str, tmp_path: Path):
    recording.export(tmp_path / "t.parquet", table=name)
    parquet = pyarrow.parquet.read_table(tmp_path / "t.parquet")
    table = pyarrow.table(recording.table(name))
    assert table.column_names == parquet.column_names == recording.table(name).column_names
    for column in table.column_names:
        plain = table[column].cast(parquet[column].type)
        assert plain.equals(parquet[column]), column


def test_holders_sum_to_the_peak(recording: vramscope.Recording):
    for by in ("line", "function", "file", "module", "stack", "pool", "stream", "category", "layer"):
        table = pyarrow.table(recording.table("holders", by=by))
        assert sum(table["bytes"].to_pylist()) == recording.peaks()["peak_allocated_bytes"], by
        rows = recording.holders(by)
        for key in ("key", "bytes", "requested_bytes", "count", "preexisting"):
            assert table[key].to_pylist() == [row[key] for row in rows], (by, key)


def test_the_schema_is_that_of_the_stream(recording: vramscope.Recording):
    for name in TABLES:
        table = recording.table(name)
        assert pyarrow.schema(table) == pyarrow.table(table).schema
        assert len(table) == table.num_rows == pyarrow.table(table).num_rows
        assert table.nbytes > 0


def numbers(table: pyarrow.Table) -> dict[str, int]:
    """Returns the addresses of columns' values; their texts are not in a dictionary."""
    plain = [name for name in table.column_names if not pyarrow.types.is_dictionary(table[name].type)]
    return {name: table[name].chunk(0).buffers()[1].address for name in plain}


@pytest.mark.parametrize("name", TABLES)
def test_polars_reads_numbers_where_they_lie(recording: vramscope.Recording, name: str):
    polars = pytest.importorskip("polars")
    table = recording.table(name)
    given = numbers(pyarrow.table(table))
    frame = polars.DataFrame(table)
    # `to_arrow` exposes polars' own buffers.
    assert {column: frame[column].to_arrow().buffers()[1].address for column in given} == given
    assert len(given) >= 3


@pytest.mark.parametrize("name", TABLES)
def test_pandas_reads_every_column_where_it_lies(recording: vramscope.Recording, name: str):
    pandas = pytest.importorskip("pandas")
    table = pyarrow.table(recording.table(name))
    frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    columns = {column: frame[column].array.__arrow_array__() for column in table.column_names}
    assert addresses(pyarrow.table(columns)) == addresses(table)


def test_duckdb_reads_the_columns_where_they_lie():
    duckdb = pytest.importorskip("duckdb")
    events = vramscope.read(EXAMPLES / "training.pickle.zst").events
    question = "select sum(allocated_bytes) from events"
    before = duckdb.sql(question).fetchall()[0][0]
    # DuckDB shows no addresses. Modifying the table's memory, which is forbidden elsewhere, must change its answer.
    first = ctypes.c_uint64.from_address(numbers(pyarrow.table(events))["allocated_bytes"])
    first.value += 12345
    assert duckdb.sql(question).fetchall()[0][0] == before + 12345


def test_every_library_gives_the_same_numbers(recording: vramscope.Recording):
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    duckdb = pytest.importorskip("duckdb")
    events = recording.events
    peak = recording.peaks()["peak_allocated_bytes"]
    assert polars.DataFrame(events)["allocated_bytes"].max() == peak
    assert pandas.DataFrame.from_arrow(events)["allocated_bytes"].max() == peak
    assert duckdb.sql("select max(allocated_bytes) from events").fetchall() == [(peak,)]
    lines = pyarrow.table(events)["line"].to_pylist()
    assert polars.DataFrame(events)["line"].to_list() == lines
    assert [line for (line,) in duckdb.sql("select line from events").fetchall()] == lines
