"""Records on their way to topics, gathered as columns: what one Kafka transaction holds."""

from __future__ import annotations

from typing import TypeAlias

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Page:
    """The records of one topic: their keys, values, times in milliseconds, and headers."""

    __slots__ = ("has_headers", "headers", "keys", "times", "values")

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.values: list[str | None] = []
        self.times: list[int] = []
        self.headers: list[Headers] = []
        self.has_headers = False


class Outgoing:
    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.records = 0

    def add(self, topic: str, key: str | None, value: str | None, time: int, headers: Headers = ()) -> None:
        page = self.pages.get(topic)
        if page is None:
            page = self.pages[topic] = Page()
        page.keys.append(key)
        page.values.append(value)
        page.times.append(time)
        page.headers.append(headers)
        if headers:
            page.has_headers = True
        self.records += 1
