"""What stands for a record that is too large."""

import hashlib
import json

import pytest

from runnel.capture.events import Position
from runnel.capture.outgoing import Outgoing, Page
from runnel.capture.publisher import _columns
from runnel.capture.rejections import Refused, put_aside, size_of
from runnel.client.column_bodies import column_bodies
from runnel.client.errors import RecordTooLarge
from runnel.records import batch_around

KEY = '{"id":1}'
SOURCE = {"table": "orders", "lsn": 7, "txId": 555}
VALUE = json.dumps({"before": None, "after": {"note": "x" * 5000}, "source": SOURCE, "op": "c", "transaction": None})


def aside(room, *, key=KEY, value=VALUE, headers=()):
    given, out = Outgoing(), Outgoing()
    given.add("p.main.orders", key, value, 1234, headers)
    refused = Refused("p.main.orders", given.pages["p.main.orders"], 0, 5_200, 1_000)
    put_aside(refused, "shop", Position({"lsn": 8}, 3), room, out)
    ((topic, page),) = out.pages.items()
    assert topic == "p.main.orders.rejected"
    assert size_of(page.keys[0], page.values[0], page.headers[0]) <= room
    return page.keys[0], page.values[0], dict(page.headers[0]), page.times[0]


def test_it_has_the_key_and_tells_where_the_row_is_and_why():
    key, value, headers, time = aside(2_000, headers=(("__debezium.oldkey", "{}"),))
    assert (key, time) == (KEY, 1234)
    assert json.loads(value) == {"op": "c", "source": SOURCE, "transaction": None}
    assert headers == {
        "__debezium.oldkey": "{}",
        "runnel.capture": "shop",
        "runnel.topic": "p.main.orders",
        "runnel.reason": "it has 5,200 bytes, and topic p.main.orders takes 1,000 (max.message.bytes)",
        "runnel.bytes": "5200",
        "runnel.limit": "1000",
        "runnel.timestamp": "1234",
        "runnel.position": '{"at":{"lsn":8},"index":3}',
        "runnel.column": "note",
        "runnel.transaction": "555",
    }


@pytest.mark.parametrize(
    ("size", "config", "advice"),
    [
        (5_200, "max.message.bytes", "raise its max.message.bytes"),
        (5_200, "socket.request.max.bytes", "raise the brokers' socket.request.max.bytes"),
        (2**31, "max.message.bytes", "Kafka takes none of 2 GiB: leave its largest column out with --without-columns"),
    ],
)
def test_what_to_do_about_it_is_told_by_what_refuses_it(size, config, advice):
    refused = Refused("t", Page(), 0, size, 1_000, config)
    assert refused.advice == advice
    assert refused.reason == f"it has {size:,} bytes, and topic t takes 1,000 ({config})"


def test_a_value_with_its_schema_and_the_transaction_topics_own_id_are_understood():
    block = {"id": "555:8", "total_order": 1}
    inside = {"source": SOURCE, "op": "c", "transaction": block}
    _, value, headers, _ = aside(2_000, value=json.dumps({"schema": {}, "payload": inside}))
    assert json.loads(value)["transaction"] == block
    assert headers["runnel.transaction"] == "555:8"


@pytest.mark.parametrize("value", [b"\x00\xff" * 999, "x" * 999, "[1]", '"a"', "{}"])
def test_a_value_that_is_no_envelope_is_named_by_its_key(value):
    key, found, headers, _ = aside(2_000, value=value)
    assert (key, found) == (KEY, None)
    assert "runnel.transaction" not in headers


def test_what_does_not_fit_is_left_out_the_value_first_and_then_the_key():
    kept = [tuple(part is not None for part in aside(room)[0:2]) for room in range(1_000, 300, -10)]
    assert list(dict.fromkeys(kept)) == [(True, True), (True, False), (False, False)]
    key, value, headers, _ = aside(2_000, key="k" * 5_000)
    assert (key, value) == (None, None)
    assert headers["runnel.key.sha256"] == hashlib.sha256(b"k" * 5_000).hexdigest()
    key, _, headers, _ = aside(330, key="k" * 5_000)
    assert (key, set(headers)) == (None, {"runnel.topic", "runnel.bytes", "runnel.key.sha256"})


def test_a_topic_that_takes_nothing_is_an_error():
    with pytest.raises(RecordTooLarge, match=r'"p\.main\.orders\.rejected" is too large: it takes 100 bytes'):
        aside(100)


@pytest.mark.parametrize("headers", [(), (("a", "b" * 300), ("c", ""))])
@pytest.mark.parametrize("value", [None, "", "v" * 20_000, "ü" * 3_000_000])
def test_no_batch_is_larger_than_it_was_taken_for(value, headers):
    out = Outgoing()
    out.add("t", "key", value, 1_700_000_000_000, headers)
    (body,) = column_bodies(*_columns(out.pages["t"]))
    assert len(batch_around(body.data, body.contents)) <= size_of("key", value, headers)
