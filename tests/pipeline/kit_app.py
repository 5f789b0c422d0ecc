"""Apps for the tests of the test kit: one with every kind of input and output, and some with one thing each."""

from __future__ import annotations

import json

from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Avro, Raw, Reading, Text

app = App("kit")
clicks = app.stream("clicks", schema="page string, customer long, at timestamp", time="at", late="30 seconds")
customers = app.table("customers", key="id", schema="id long, name string")


@app.view(clicks, key=["window", "page"])
def clicks_per_minute(clicks):
    return clicks.groupBy(F.window("at", "1 minute"), "page").count()


@app.view(clicks_per_minute.changes(), key="page")
def pages(changes):
    """Of the changes of a view."""
    return changes.groupBy("page").agg(F.count_if(F.col("_change") == "insert").alias("minutes"))


@app.stream(clicks, customers)
def named(clicks, customers):
    return clicks.join(customers, clicks.customer == customers.id).select("name", "page")


# One stream is made of another: for crashes, of which each costs a start.
short = App("short")
visits = short.stream("visits", schema="page string, at timestamp", time="at", late="30 seconds")


@short.stream(visits, key="page", time="start", late="0 seconds")
def closed_minutes(visits):
    return visits.groupBy(F.window("at", "1 minute"), "page").count().select("window.start", "page", "count")


@short.view(closed_minutes, key="page")
def visits_in_all(minutes):
    return minutes.groupBy("page").agg(F.sum("count").alias("visits"))


failing = App("failing")


def number_of(line):
    return int(line)


@failing.stream(failing.stream("lines", schema="line string"))
def numbers(lines):
    return lines.select(F.udf(number_of, "int")("line").alias("number"))


AVRO = json.dumps({"type": "record", "name": "line", "fields": [{"name": "line", "type": "string"}]})
formats = App("formats")
LINES = {
    "avro": formats.stream("avro", schema=Avro(AVRO)),
    "text": formats.stream("text", schema=Text()),
    "raw": formats.stream("raw", schema=Raw()),
    "many": formats.stream("many", schema="line string", read=Reading(topics="sites-.*", start="latest")),
}


@formats.stream(*(each.with_metadata() for each in LINES.values()))
def lines(avro, text, raw, many):
    def line(frame, column):
        return frame.select(F.col(column).cast("string").alias("line"), "_topic", "_partition", "_key")

    return line(avro, "line").union(line(text, "value")).union(line(raw, "value")).union(line(many, "line"))
