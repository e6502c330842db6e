"""Opens a dataset of recordings with pyarrow, DuckDB and polars, and prints the counts of each library: one JSON object with a key per
library."""

import json
import sys

import duckdb
import polars
import pyarrow.compute
import pyarrow.dataset

folder = sys.argv[1]


def with_pyarrow():
    def table(name):
        return pyarrow.dataset.dataset(f"{folder}/{name}", partitioning="hive").to_table()

    events = table("events").group_by("rank").aggregate([([], "count_all"), ("allocated_bytes", "max")])
    holders = table("holders").group_by(["rank", "grouped_by"]).aggregate([("bytes", "sum")])
    summary = table("summary").select(["rank", "file", "peak_allocated_bytes", "error"])
    rows = [[list(row.values()) for row in t.to_pylist()] for t in (events, holders, summary)]
    return rows


def with_duckdb():
    def rows(columns, name, rest=""):
        sql = f"SELECT {columns} FROM read_parquet('{folder}/{name}/*/*.parquet', hive_partitioning = true) {rest}"
        return [list(row) for row in duckdb.sql(sql).fetchall()]

    return [
        rows("rank, count(*), max(allocated_bytes)", "events", "GROUP BY rank"),
        [[*row[:2], int(row[2])] for row in rows("rank, grouped_by, sum(bytes)", "holders", "GROUP BY ALL")],
        rows("rank, file, peak_allocated_bytes, error", "summary"),
    ]


def with_polars():
    def table(name):
        return polars.scan_parquet(f"{folder}/{name}/**/*.parquet", hive_partitioning=True)

    events = table("events").group_by("rank").agg(polars.len(), polars.col("allocated_bytes").max())
    holders = table("holders").group_by("rank", "grouped_by").agg(polars.col("bytes").sum())
    summary = table("summary").select("rank", "file", "peak_allocated_bytes", "error")
    return [[list(row) for row in t.collect().rows()] for t in (events, holders, summary)]


def counted(rows):
    events, holders, summary = (sorted(part, key=str) for part in rows)
    return {"events": events, "holders": holders, "summary": summary}


libraries = {"pyarrow": with_pyarrow, "duckdb": with_duckdb, "polars": with_polars}
print(json.dumps({name: counted(rows()) for name, rows in libraries.items()}))
