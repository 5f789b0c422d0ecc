"""What an app is to tell when it happens: a value for each kind, and a rule that says of what, and to whom.

    app.alert(Alert.late(share=0.01), Alert.lag(records=100_000), topic="ops.alerts")

The log is always told. A rule tells once when it begins, and once when it ends.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from runnel.graph.durations import milliseconds
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.names import checked_name
from runnel.start import AGE
from runnel.start import UNITS as SHORT_UNITS

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
WAYS = "late[=SHARE], rejected[=SHARE], lag[=RECORDS], slow[=TIME], still[=TIME], disk[=SIZE]"


class Kind(StrEnum):
    LATE = "late"
    REJECTED = "rejected"
    LAG = "lag"
    SLOW = "slow"
    STILL = "still"
    DISK = "disk"


@dataclass(frozen=True)
class Alert:
    """Made by one of the methods that have the names of the kinds. `limit` is a share, records, milliseconds or bytes;
    `span` is the time that is looked at, or for which it must have lasted, in milliseconds.
    """

    kind: Kind
    limit: float
    span: int = 0

    @classmethod
    def late(cls, share: float = 0.01, *, over: str = "5 minutes") -> Alert:
        """More than this share of the rows that were read in so much time was late."""
        return cls(Kind.LATE, _share(share, Kind.LATE), _time(over, Kind.LATE, "over"))

    @classmethod
    def rejected(cls, share: float = 0.0, *, over: str = "5 minutes") -> Alert:
        """More than this share of the rows was rejected; without a share, a single one is enough."""
        return cls(Kind.REJECTED, _share(share, Kind.REJECTED), _time(over, Kind.REJECTED, "over"))

    @classmethod
    def lag(cls, records: int = 100_000, *, lasting: str = "1 minute") -> Alert:
        """The inputs together are more records behind than that, for so long."""
        if not isinstance(records, int) or isinstance(records, bool) or records < 0:
            raise _wrong(Kind.LAG, "records", records, "give a whole number, 0 or more")
        return cls(Kind.LAG, records, _time(lasting, Kind.LAG, "lasting", least=0))

    @classmethod
    def slow(cls, batch: str = "10 seconds") -> Alert:
        """A batch takes longer than that: the last one, or the one under way."""
        return cls(Kind.SLOW, _time(batch, Kind.SLOW, "batch"))

    @classmethod
    def still(cls, lasting: str = "10 minutes") -> Alert:
        """The watermark has stood still for so long, though rows have been read: no window closes."""
        return cls(Kind.STILL, _time(lasting, Kind.STILL, "lasting"))

    @classmethod
    def disk(cls, free: str | int = "1 GiB") -> Alert:
        """The disk of the data directory has less room than that."""
        return cls(Kind.DISK, _size(free))

    @classmethod
    def parse(cls, text: str) -> Alert:
        """As people type it: `late`, `late=5%`, `lag=1000`, `slow=10s`, `disk=2GiB`."""
        kind, _, limit = text.partition("=")
        match kind.strip():
            case Kind.LATE | Kind.REJECTED as name:
                make = cls.late if name == Kind.LATE else cls.rejected
                return make(_number(limit, name)) if limit else make()
            case Kind.LAG:
                return cls.lag(_whole(limit)) if limit else cls.lag()
            case Kind.SLOW:
                return cls.slow(limit) if limit else cls.slow()
            case Kind.STILL:
                return cls.still(limit) if limit else cls.still()
            case Kind.DISK:
                return cls.disk(limit) if limit else cls.disk()
        raise InvalidDeclaration("an alert", "kind", f"{kind!r} is none", hint=f"expected one of {WAYS}")


@dataclass(frozen=True)
class AlertRule:
    """`outputs` are names; None: all of the app. `topic` and `command` are told beside the log."""

    alert: Alert
    outputs: tuple[str, ...] | None = None
    topic: str | None = None
    command: str | None = None

    def is_of(self, output: str) -> bool:
        return self.outputs is None or output in self.outputs


def _share(share: object, kind: Kind) -> float:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise _wrong(kind, "share", share, "give a share of the rows from 0 to below 1, such as 0.01")
    return float(share)


def _time(text: object, kind: Kind, argument: str, *, least: int = 1) -> int:
    where = f"Alert.{kind}"
    short = AGE.fullmatch(text) if isinstance(text, str) else None
    found = int(short[1]) * SHORT_UNITS[short[2]] if short else milliseconds(str(text), where, argument)
    if found < least:
        raise InvalidDeclaration(where, argument, f"is {text!r}", hint="give a duration above 0")
    return found


def _size(size: object) -> float:
    found = SIZE.fullmatch(str(size).strip()) if not isinstance(size, bool) else None
    bytes_ = float(found[1]) * (1024 if found[3] else 1000) ** POWERS[found[2].upper()] if found else 0.0
    if bytes_ <= 0 or not math.isfinite(bytes_):
        raise _wrong(Kind.DISK, "free", size, 'give a size such as "1 GiB", or a number of bytes')
    return bytes_


def _number(text: str, kind: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise _wrong(Kind(kind), "share", text, "give a share such as 0.01 or 1%") from None


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise _wrong(Kind.LAG, "records", text, "give a whole number, 0 or more")
    return int(text)


def _wrong(kind: Kind, argument: str, given: object, hint: str) -> InvalidDeclaration:
    return InvalidDeclaration(f"Alert.{kind}", argument, f"is {given!r}", hint=hint)


def rules(
    alerts: tuple[object, ...], outputs: tuple[str, ...] | None, topic: object, command: object
) -> list[AlertRule]:
    """What `app.alert` was given, checked."""
    where = "alert"
    if not alerts:
        raise InvalidDeclaration(where, "alerts", "are missing", hint="name one, such as Alert.late(share=0.01)")
    for alert in alerts:
        if not isinstance(alert, Alert):
            hint = "make one by Alert.late(...), rejected, lag, slow, still or disk"
            raise InvalidDeclaration(where, "alerts", f"has {alert!r}, which is none", hint=hint)
        if alert.kind is Kind.DISK and outputs is not None:
            raise InvalidDeclaration(where, "of", "is given for the disk, which is the app's", hint="leave it out")
    if command is not None and (not isinstance(command, str) or not command.strip()):
        raise InvalidDeclaration(where, "command", f"is {command!r}", hint='give one line for the shell: "notify.sh"')
    chosen = None if topic is None else checked_name(topic, where, "topic")
    return [
        AlertRule(alert, outputs, chosen, command if isinstance(command, str) else None)
        for alert in alerts
        if isinstance(alert, Alert)
    ]
