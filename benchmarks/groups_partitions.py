"""Who gets which partitions of the one topic, and how members of the classic protocol tell each other.

The eager members divide anew each time. The cooperative ones keep what they have as far as that is fair, and a
partition that goes to another member is given in the next generation only, when its former owner has let it go.
"""

import struct
from collections.abc import Iterable, Mapping

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
VERSION = 1  # the first that tells what a member owns
NOTHING = INT32.pack(-1)  # no user data

Partitions = frozenset[int]


def divided(members: Iterable[str], partitions: int) -> dict[str, Partitions]:
    """Anew, as equally as can be."""
    names = sorted(members)
    return {name: frozenset(range(number, partitions, len(names))) for number, name in enumerate(names)}


def divided_again(owned: Mapping[str, Partitions], partitions: int) -> dict[str, Partitions]:
    """As equally as can be, with the least that moves; what another member owns is not given yet."""
    least, larger = divmod(partitions, len(owned))
    kept: dict[str, list[int]] = {}
    for name in sorted(owned, key=lambda name: (-len(owned[name]), name)):
        room = least + (larger > 0)
        kept[name] = sorted(owned[name])[:room]
        larger -= len(kept[name]) > least
    moved = sorted(set(range(partitions)).difference(*kept.values()))
    free = set(moved).difference(*owned.values())
    for partition in moved:
        name = min(kept, key=lambda name: (len(kept[name]), name))
        kept[name].append(partition)
    return {name: frozenset(had) - (frozenset(moved) - free) for name, had in kept.items()}


def is_settled(owned: Iterable[Partitions], partitions: int) -> bool:
    """Whether each partition has one owner and nobody has two more than another."""
    sets = list(owned)
    sizes = [len(each) for each in sets]
    covers = sum(sizes) == partitions and len(frozenset().union(*sets)) == partitions
    return covers and max(sizes) - min(sizes) <= 1


# --- bytes


def subscription(topic: str, owned: Partitions) -> bytes:
    return INT16.pack(VERSION) + INT32.pack(1) + _string(topic) + NOTHING + _topic_partitions(topic, owned)


def owned_in(metadata: bytes, topic: str) -> Partitions:
    return _partitions_at(metadata, INT16.size + INT32.size + len(_string(topic)) + len(NOTHING), topic)


def assignment(topic: str, partitions: Partitions) -> bytes:
    return INT16.pack(VERSION) + _topic_partitions(topic, partitions) + NOTHING


def partitions_in(data: bytes, topic: str) -> Partitions:
    """Of an assignment; no bytes are none."""
    return _partitions_at(data, INT16.size, topic) if data else frozenset()


def _string(text: str) -> bytes:
    return INT16.pack(len(text)) + text.encode("ascii")


def _topic_partitions(topic: str, partitions: Partitions) -> bytes:
    numbers = b"".join(map(INT32.pack, sorted(partitions)))
    return INT32.pack(1) + _string(topic) + INT32.pack(len(partitions)) + numbers


def _partitions_at(data: bytes, position: int, topic: str) -> Partitions:
    position += INT32.size + len(_string(topic))
    (count,) = INT32.unpack_from(data, position)
    return frozenset(struct.unpack_from(f">{count}i", data, position + INT32.size))
