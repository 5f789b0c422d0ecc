"""Every API in every version that our own ApiVersions answer advertises: a round trip over a socket, read by kio.

Which real client speaks which version, as measured; they are exercised in tests of their own:

    API                      librdkafka 2.16   aiokafka 0.14   kafka-python 3.0   kcat 1.7.1
    Produce                  10                7               9                  7
    Fetch                    16                11              12                 11
    ListOffsets              7                 3               11                 2
    Metadata                 13, 10            5               13                 4
    OffsetCommit             9                 3               8
    OffsetFetch              9                 3               8                  7
    FindCoordinator          2                 1               6                  2
    JoinGroup                5                 5               7                  5
    Heartbeat                3                 1               4                  3
    LeaveGroup               1                 1               5                  1
    SyncGroup                3                 3               5                  3
    DescribeGroups           5                 3               6
    ListGroups               5                 1               5
    ApiVersions              3                 0               4                  3
    CreateTopics             4                 3               7
    DeleteTopics             4                 3               6
    DeleteRecords            2                 2
    InitProducerId           4                 0               4
    OffsetForLeaderEpoch     2
    AddPartitionsToTxn       0                 0               3
    AddOffsetsToTxn          0                 0               3
    EndTxn                   1                 0               3
    TxnOffsetCommit          3                 0               3
    DescribeConfigs          1                 2
    AlterConfigs             2                 1
    CreatePartitions         2                 1
    DeleteGroups             2                 1
    ElectLeaders             2
    IncrementalAlterConfigs  1
    OffsetDelete             0
    DescribeCluster                                            2

The Java clients take the highest version that both sides know: those of Kafka 4.x all of our highest ones, those of
Kafka 3.9, which Spark has, Produce 11, Fetch 17 and so on.
"""

import pytest

from runnel import Broker
from runnel.protocol.own import OWN
from runnel.protocol.versions import SERVED, Api
from tests.broker_wire import Wire
from tests.interop.version_cases import CASES, Case

EVERY = [(api, version) for api, (least, most) in SERVED.items() for version in range(least, most + 1)]
# Advertised for the sake of older clients and not served, see the tests of ApiVersions.
ADVERTISED_ONLY = {(Api.PRODUCE, version) for version in range(3)}


@pytest.mark.parametrize(
    ("api", "version"), EVERY, ids=[f"{Api(api).name.lower()}-{version}" for api, version in EVERY]
)
def test_a_round_trip_in_every_version(runnel_broker: Broker, runnel_topic: str, api: Api, version: int) -> None:
    with Wire(runnel_broker.bootstrap) as wire:
        CASES[api](Case(wire, version, runnel_topic))


def test_every_version_that_is_advertised_has_its_round_trip(runnel_broker: Broker) -> None:
    with Wire(runnel_broker.bootstrap) as wire:
        rows = wire.ask(Api.API_VERSIONS, 4, client_software_name="test", client_software_version="1")["api_keys"]
    advertised = {
        (row["api_key"], version)
        for row in rows
        if row["api_key"] not in OWN  # kio does not know these, see the tests of CompactTopic
        for version in range(row["min_version"], row["max_version"] + 1)
    }
    assert advertised - ADVERTISED_ONLY == set(EVERY)
    assert {key for key, _ in advertised} == set(CASES)
