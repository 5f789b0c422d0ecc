"""How large records may be, as the topics' configs say."""

import pytest

from runnel.client.bodies import BATCH_BYTES
from runnel.client.errors import RecordTooLarge, Refused
from runnel.client.limits import OLD_SECONDS, REQUEST_HEADER, REQUESTS, SMALL, UNLIMITED, Limit, Limits


class Cluster:
    """Configs that can be changed, and how often they were asked for."""

    def __init__(self, limit):
        self.limit = limit
        self.segment = "1073741824"
        self.requests = "104857600"
        self.asked = 0
        self.now = 0.0

    def configs(self, topic):
        self.asked += 1
        if self.limit is None:
            raise Refused(f"describing the configs of {topic}", "not allowed")
        return {"max.message.bytes": str(self.limit), "segment.bytes": self.segment, "other": None}

    def broker_configs(self):
        if self.requests is None:
            raise Refused("describing the configs of broker 1", "not allowed")
        return {"socket.request.max.bytes": self.requests}

    def limits(self):
        return Limits(self, lambda: self.now)


def test_small_records_are_written_without_a_question():
    cluster = Cluster(1_000)
    limits = cluster.limits()
    assert limits.of("t", SMALL - 1) == UNLIMITED
    assert cluster.asked == 0
    assert limits.of("t", SMALL) == 1_000
    assert limits.of("t", 1) == 1_000
    assert cluster.asked == 1


def test_a_segment_is_a_limit_too():
    cluster = Cluster(1_000)
    cluster.segment = "500"
    assert cluster.limits().fresh("t") == Limit(500, "segment.bytes")


def test_what_a_broker_takes_as_a_request_is_a_limit_too():
    cluster = Cluster(200_000_000)
    assert cluster.limits().fresh("t") == Limit(REQUESTS - REQUEST_HEADER, "socket.request.max.bytes")
    cluster.requests = "150000000"
    assert cluster.limits().fresh("t").bytes == 150_000_000 - REQUEST_HEADER
    cluster.requests = None  # it is not for everybody to see
    assert cluster.limits().fresh("t").bytes == REQUESTS - REQUEST_HEADER
    cluster.requests = "300000000"
    assert cluster.limits().fresh("t") == Limit(200_000_000, "max.message.bytes")


def test_a_limit_is_asked_for_again_when_it_is_old():
    cluster = Cluster(1_000)
    limits = cluster.limits()
    assert limits.fresh("t").bytes == 1_000
    cluster.limit = 2_000
    assert limits.fresh("t").bytes == 1_000
    cluster.now = OLD_SECONDS
    assert limits.fresh("t").bytes == 2_000


def test_a_refusal_is_believed_once():
    cluster = Cluster(1_000)
    limits = cluster.limits()
    error = RecordTooLarge("t", "no")
    limits.refused(error)
    assert limits.of("t", 1) == 1_000
    with pytest.raises(RecordTooLarge):
        limits.refused(error)
    cluster.limit = 500
    limits.refused(error)
    assert limits.of("t", 1) == 500


def test_a_refusal_by_a_limit_that_may_not_be_asked_for_is_told():
    with pytest.raises(RecordTooLarge):
        Cluster(None).limits().refused(RecordTooLarge("t", "no"))


def test_batches_of_several_records_stay_below_the_limit():
    cluster = Cluster(100_000)
    limits = cluster.limits()
    assert limits.batch_bytes("t") == BATCH_BYTES
    limits.fresh("t")
    assert 80_000 < limits.batch_bytes("t") < 100_000 - 61
