"""The unit of times that are numbers: what a declaration reads must be what a capture writes, which depends on the type
of the column. A record does not say, and a time that is wrong by 1000 is a time as well.
"""

from __future__ import annotations

from runnel.capture.selection import Selected
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.formats import Columns, Debezium
from runnel.graph.types import Simple

TIMES = (Simple("timestamp"), Simple("timestamp_ntz"))
WRITTEN = {
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
}


def check_time_units(where: str, declared: Columns, selected: Selected) -> None:
    if not isinstance(declared.format, Debezium):
        return
    units = _written(declared, selected)
    for column, unit in units.items():
        read = declared.format.unit_of(column)
        if read != unit:
            what = f"reads the times of {selected.table.id}.{column} in {read}, and they are written in {unit}"
            raise InvalidDeclaration(
                where, "schema", what, hint=f"give schema=Debezium(..., time_unit={_given(units)})"
            )


def _written(declared: Columns, selected: Selected) -> dict[str, str]:
    """Of the columns that are declared as times and written as numbers."""
    names = {field.name for field in declared.fields if field.type in TIMES}
    forms = {column.name: column.form.schema.get("name") for _, column in selected.columns if column.name in names}
    return {name: WRITTEN[form] for name, form in forms.items() if form in WRITTEN}


def _given(units: dict[str, str]) -> str:
    """One for all, or by column where they differ."""
    different = set(units.values())
    return repr(different.pop() if len(different) == 1 else units)
