"""Records on their way into topics, gathered as columns: what one Kafka transaction holds."""

from __future__ import annotations

from typing import TypeAlias

from runnel.capture.tables import TableId

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Page:
    """The records of one topic: their keys, values, times in milliseconds, and headers.

    `operations` are those of the changes among them, for counting.
    """

    __slots__ = ("has_headers", "headers", "keys", "operations", "times", "values")

    def __init__(self) -> None:
        self.keys: list[str | bytes | None] = []
        self.values: list[str | bytes | None] = []
        self.times: list[int] = []
        self.headers: list[Headers] = []
        self.operations: list[str] = []
        self.has_headers = False

    def halves(self) -> tuple[Page, Page]:
        """The same records in two; what they are counted by stays here."""
        middle = len(self.keys) // 2
        return self._part(slice(None, middle)), self._part(slice(middle, None))

    def _part(self, rows: slice) -> Page:
        part = Page()
        part.keys, part.values, part.times = self.keys[rows], self.values[rows], self.times[rows]
        part.headers, part.has_headers = self.headers[rows], self.has_headers
        return part


class Outgoing:
    def __init__(self, *, is_kept: bool = True) -> None:
        """One that is not kept takes what is in the topics already."""
        self.pages: dict[str, Page] = {}
        self.records = 0
        self.is_kept = is_kept

    def add(
        self,
        topic: str,
        key: str | bytes | None,
        value: str | bytes | None,
        time: int,
        headers: Headers = (),
        operation: str | None = None,
    ) -> None:
        page = self.pages.get(topic)
        if page is None:
            page = self.pages[topic] = Page()
        page.keys.append(key)
        page.values.append(value)
        page.times.append(time)
        page.headers.append(headers)
        if headers:
            page.has_headers = True
        if operation is not None:
            page.operations.append(operation)
        self.records += 1

    def extend(
        self, topic: str, keys: list[str | bytes | None], values: list[str | bytes | None], time: int, operation: str
    ) -> None:
        """As `add`, of many records at once."""
        page = self.pages.get(topic)
        if page is None:
            page = self.pages[topic] = Page()
        page.keys += keys
        page.values += values
        page.times += [time] * len(keys)
        page.headers += [()] * len(keys)
        page.operations += [operation] * len(keys)
        self.records += len(keys)


def topic_of_table(prefix: str, table: TableId) -> str:
    return f"{prefix}.{topic_part(table.schema)}.{topic_part(table.name)}"


def topic_part(name: str) -> str:
    """A name as it can stand in a topic's: what Kafka does not allow there is an underscore."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in name)
