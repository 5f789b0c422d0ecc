"""For each API one meaningful round trip, in whatever version: a request that should succeed, and what the answer says.

An answer is read twice, by us and by kio, which must agree; the checks below look at kio's reading. A field that a
version lacks is simply not there, so a check of such a field says from which version on it holds.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from runnel.protocol.decode import read_response
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.own import ANSWERED
from runnel.protocol.versions import Api
from runnel.records import TRANSACTIONAL, Producer
from tests.broker_wire import CLIENT_ID, LATEST, Wire, batch_of, fetch_body, metadata, produce, produce_body, records_in
from tests.property.protocol.kio_messages import Kind, decoded

Message = dict[str, Any]

TOPIC_RESOURCE = 2
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"  # a consumer's, for no topic
ASSIGNMENT = b"what the leader gave"


class Case:
    """A topic with one record, the name of a group that nobody else has, and a connection."""

    def __init__(self, wire: Wire, version: int, topic: str) -> None:
        self.wire = wire
        self.version = version
        self.topic = topic
        self.group = f"group-of-{topic}"
        self.name = f"transactions-of-{topic}"
        described = metadata(wire, topic)
        self.topic_id: UUID = described["topics"][0]["topic_id"]
        self.node: int = described["controller_id"]
        produce(wire, topic, batch_of(b"first"))

    def ask(self, api: Api, version: int | None = None, **body: Any) -> Message:
        version = self.version if version is None else version
        sent = self.wire.send(api, version, **body)
        data = self.wire.receive_body(sent)
        ours = read_response(api, version, data)
        theirs = decoded(Kind(api, version, "response"), data)
        assert set(theirs) <= set(ours)
        return theirs

    def check_topic(self, answer: Message, ids_since: int, name: str = "name") -> None:
        """The answer speaks of our topic, by its name or by its id."""
        if self.version >= ids_since:
            assert answer["topic_id"] == self.topic_id
        else:
            assert answer[name] == self.topic

    # --- what others build on

    def commit(self, version: int = 8) -> Message:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
        partition["committed_metadata"] = "so far"
        return self.ask(
            Api.OFFSET_COMMIT,
            version,
            group_id=self.group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            retention_time=-1,
            topics=[{"name": self.topic, "topic_id": self.topic_id, "partitions": [partition]}],
        )

    def join(self, version: int = 9) -> Message:
        body: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
            "reason": None,
        }
        answer = self.ask(Api.JOIN_GROUP, version, **body)
        if version >= 4:
            assert answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
            answer = self.ask(Api.JOIN_GROUP, version, **body | {"member_id": answer["member_id"]})
        return answer

    def sync(self, joined: Message, version: int = 5) -> Message:
        return self.ask(
            Api.SYNC_GROUP,
            version,
            group_id=self.group,
            generation_id=joined["generation_id"],
            member_id=joined["member_id"],
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": joined["member_id"], "assignment": ASSIGNMENT}],
        )

    def producer(self) -> Producer:
        """One that nobody else knows, for transactions."""
        body = {"transactional_id": self.name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        answer = self.ask(Api.INIT_PRODUCER_ID, 4, **body)
        assert answer["error_code"] == ErrorCode.NONE
        return Producer(answer["producer_id"], answer["producer_epoch"], 0)

    def add_partition(self, producer: Producer, version: int = 3) -> Message:
        facts = {"transactional_id": self.name, "producer_id": producer.id, "producer_epoch": producer.epoch}
        facts |= {"verify_only": False, "topics": [{"name": self.topic, "partitions": [0]}]}
        before = {f"v3_and_below_{name}": value for name, value in facts.items()}
        return self.ask(Api.ADD_PARTITIONS_TO_TXN, version, **before, transactions=[facts])

    def open_transaction(self) -> Producer:
        """With one record, at offset 1."""
        producer = self.producer()
        self.add_partition(producer)
        body = produce_body(self.topic, batch_of(b"second", producer=producer, attributes=TRANSACTIONAL))
        answer = self.wire.ask(Api.PRODUCE, 9, **body | {"transactional_id": self.name})
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == ErrorCode.NONE
        return producer

    def committed(self) -> list[bytes | None]:
        """What a reader of committed records can see."""
        body = fetch_body({self.topic: {0: 0}}, isolation_level=1)
        (partition,) = self.ask(Api.FETCH, 11, **body)["responses"][0]["partitions"]
        return [record.value for record in records_in(partition["records"])]

    def member(self) -> Message:
        """The only member of a stable group."""
        joined = self.join()
        assert self.sync(joined)["error_code"] == ErrorCode.NONE
        return joined


# --- records


def produce_case(case: Case) -> None:
    body = produce_body(case.topic, batch_of(b"second"))
    body["topic_data"][0]["topic_id"] = case.topic_id
    (topic,) = case.ask(Api.PRODUCE, **body)["responses"]
    case.check_topic(topic, ids_since=13)
    (partition,) = topic["partition_responses"]
    assert (partition["index"], partition["error_code"], partition["base_offset"]) == (0, ErrorCode.NONE, 1)


def fetch_case(case: Case) -> None:
    body = fetch_body({case.topic: {0: 0}})
    body["topics"][0]["topic_id"] = case.topic_id
    (topic,) = case.ask(Api.FETCH, **body)["responses"]
    case.check_topic(topic, ids_since=13, name="topic")
    (partition,) = topic["partitions"]
    assert (partition["error_code"], partition["high_watermark"]) == (ErrorCode.NONE, 1)
    assert [record.value for record in records_in(partition["records"])] == [b"first"]


def list_offsets(case: Case) -> None:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
    topics = [{"name": case.topic, "partitions": [asked]}]
    (topic,) = case.ask(Api.LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=topics, timeout=30_000)["topics"]
    (partition,) = topic["partitions"]
    assert (topic["name"], partition["error_code"], partition["offset"]) == (case.topic, ErrorCode.NONE, 1)


def delete_records(case: Case) -> None:
    topics = [{"name": case.topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    (topic,) = case.ask(Api.DELETE_RECORDS, topics=topics, timeout=30_000)["topics"]
    (partition,) = topic["partitions"]
    assert (topic["name"], partition["error_code"], partition["low_watermark"]) == (case.topic, ErrorCode.NONE, 1)


def init_producer_id(case: Case) -> None:
    body = {"transactional_id": None, "transaction_timeout": 60_000, "enable2_pc": False, "keep_prepared_txn": False}
    answer = case.ask(Api.INIT_PRODUCER_ID, **body)
    assert (answer["error_code"], answer["producer_epoch"]) == (ErrorCode.NONE, 0)
    assert answer["producer_id"] >= 0
    body |= {"transactional_id": case.name, "producer_id": -1, "producer_epoch": -1}
    first, second = (case.ask(Api.INIT_PRODUCER_ID, **body) for _ in range(2))
    assert (second["error_code"], second["producer_id"]) == (ErrorCode.NONE, first["producer_id"])
    assert (first["producer_epoch"], second["producer_epoch"]) == (0, 1)


# --- transactions


def add_partitions_to_txn(case: Case) -> None:
    answer = case.add_partition(case.producer(), case.version)
    if case.version >= 4:
        (of_one,) = answer["results_by_transaction"]
        assert (answer["error_code"], of_one["transactional_id"]) == (ErrorCode.NONE, case.name)
        topics = of_one["topic_results"]
    else:
        topics = answer["results_by_topic_v3_and_below"]
    (topic,) = topics
    assert (topic["name"], topic["results_by_partition"]) == (
        case.topic, [{"partition_index": 0, "partition_error_code": ErrorCode.NONE}],
    )  # fmt: skip


def add_offsets_to_txn(case: Case, version: int | None = None) -> Producer:
    producer = case.producer()
    body = {"transactional_id": case.name, "producer_id": producer.id, "producer_epoch": producer.epoch}
    answer = case.ask(Api.ADD_OFFSETS_TO_TXN, version, **body, group_id=case.group)
    assert answer["error_code"] == ErrorCode.NONE
    return producer


def add_offsets_to_txn_case(case: Case) -> None:
    add_offsets_to_txn(case)


def end_txn(case: Case) -> None:
    producer = case.open_transaction()
    assert case.committed() == [b"first"]
    body = {"transactional_id": case.name, "producer_id": producer.id, "producer_epoch": producer.epoch}
    answer = case.ask(Api.END_TXN, **body, committed=True)
    assert answer["error_code"] == ErrorCode.NONE
    if case.version >= 5:
        assert (answer["producer_id"], answer["producer_epoch"]) == (producer.id, producer.epoch + 1)
    assert case.committed()[:2] == [b"first", b"second"]


def write_txn_markers(case: Case) -> None:
    producer = case.open_transaction()
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": True,
        "topics": [{"name": case.topic, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }
    (told,) = case.ask(Api.WRITE_TXN_MARKERS, markers=[marker])["markers"]
    assert told["producer_id"] == producer.id
    (topic,) = told["topics"]
    assert (topic["name"], topic["partitions"]) == (case.topic, [{"partition_index": 0, "error_code": ErrorCode.NONE}])
    assert case.committed()[:2] == [b"first", b"second"]


def txn_offset_commit(case: Case) -> None:
    producer = add_offsets_to_txn(case, 3)
    partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    partition["committed_metadata"] = "so far"
    body = {"transactional_id": case.name, "group_id": case.group, "producer_id": producer.id}
    body |= {"producer_epoch": producer.epoch, "generation_id": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": case.topic, "partitions": [partition]}]
    (topic,) = case.ask(Api.TXN_OFFSET_COMMIT, **body, topics=topics)["topics"]
    assert (topic["name"], topic["partitions"]) == (case.topic, [{"partition_index": 0, "error_code": ErrorCode.NONE}])


def describe_transactions(case: Case) -> None:
    producer = case.open_transaction()
    (state,) = case.ask(Api.DESCRIBE_TRANSACTIONS, transactional_ids=[case.name])["transaction_states"]
    assert (state["error_code"], state["transactional_id"]) == (ErrorCode.NONE, case.name)
    assert (state["transaction_state"], state["transaction_timeout"]) == ("Ongoing", 60_000)
    assert (state["producer_id"], state["producer_epoch"]) == (producer.id, producer.epoch)
    assert state["topics"] == [{"topic": case.topic, "partitions": [0]}]


def list_transactions(case: Case) -> None:
    producer = case.open_transaction()
    filters = {"state_filters": ["Ongoing"], "producer_id_filters": [producer.id], "duration_filter": -1}
    answer = case.ask(Api.LIST_TRANSACTIONS, **filters, transactional_id_pattern=None)
    assert (answer["error_code"], answer["unknown_state_filters"]) == (ErrorCode.NONE, [])
    assert answer["transaction_states"] == [
        {"transactional_id": case.name, "producer_id": producer.id, "transaction_state": "Ongoing"}
    ]


# --- groups of KIP-848


def consumer_group_heartbeat(case: Case) -> Message:
    answer = case.ask(
        Api.CONSUMER_GROUP_HEARTBEAT,
        case.version,
        group_id=case.group,
        member_id="11111111-1111-1111-1111-111111111111",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=60_000,
        subscribed_topic_names=[case.topic],
        subscribed_topic_regex=None,
        server_assignor="uniform",
        topic_partitions=[],
    )
    assert (answer["error_code"], answer["error_message"]) == (ErrorCode.NONE, None)
    assert answer["member_epoch"] > 0
    (assigned,) = answer["assignment"]["topic_partitions"]
    assert (assigned["topic_id"], assigned["partitions"]) == (case.topic_id, [0])
    return answer


def consumer_group_describe(case: Case) -> None:
    joined = consumer_group_heartbeat(case)
    asked = {"group_ids": [case.group], "include_authorized_operations": False}
    (group,) = case.ask(Api.CONSUMER_GROUP_DESCRIBE, **asked)["groups"]
    assert (group["error_code"], group["group_id"], group["assignor_name"]) == (ErrorCode.NONE, case.group, "uniform")
    (member,) = group["members"]
    assert (member["member_id"], member["member_epoch"]) == (joined["member_id"], joined["member_epoch"])
    assert member["subscribed_topic_names"] == [case.topic]


# --- epochs and producers


def offset_for_leader_epoch(case: Case) -> None:
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": case.topic, "partitions": [asked]}]
    (topic,) = case.ask(Api.OFFSET_FOR_LEADER_EPOCH, replica_id=-1, topics=topics)["topics"]
    (partition,) = topic["partitions"]
    assert (topic["topic"], partition["error_code"], partition["end_offset"]) == (case.topic, ErrorCode.NONE, 1)


def describe_producers(case: Case) -> None:
    produce(case.wire, case.topic, batch_of(b"second", producer=Producer(4_711, 3, 0)))
    (topic,) = case.ask(Api.DESCRIBE_PRODUCERS, topics=[{"name": case.topic, "partition_indexes": [0]}])["topics"]
    (partition,) = topic["partitions"]
    assert (topic["name"], partition["error_code"]) == (case.topic, ErrorCode.NONE)
    (producer,) = partition["active_producers"]
    assert (producer["producer_id"], producer["producer_epoch"], producer["last_sequence"]) == (4_711, 3, 0)


# --- topics and the cluster


def metadata_case(case: Case) -> None:
    answer = case.ask(
        Api.METADATA,
        topics=[{"topic_id": None, "name": case.topic}],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    (topic,) = answer["topics"]
    assert (topic["error_code"], topic["name"]) == (ErrorCode.NONE, case.topic)
    assert [each["leader_id"] for each in topic["partitions"]] == [case.node]
    assert [each["node_id"] for each in answer["brokers"]] == [case.node]
    if case.version >= 10:
        assert topic["topic_id"] == case.topic_id


def api_versions(case: Case) -> None:
    answer = case.ask(Api.API_VERSIONS, client_software_name="test", client_software_version="1")
    assert answer["error_code"] == ErrorCode.NONE
    assert {row["api_key"] for row in answer["api_keys"]} == set(ANSWERED)


def create_topics(case: Case) -> None:
    name = f"{case.topic}-new"
    topic = {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": (), "configs": ()}
    (made,) = case.ask(Api.CREATE_TOPICS, topics=[topic], timeout=30_000, validate_only=False)["topics"]
    assert (made["name"], made["error_code"]) == (name, ErrorCode.NONE)
    assert len(metadata(case.wire, name)["topics"][0]["partitions"]) == 2


def delete_topics(case: Case) -> None:
    case.version, version = 7, case.version
    create_topics(case)
    name = f"{case.topic}-new"
    topics = [{"name": name, "topic_id": None}]
    answer = case.ask(Api.DELETE_TOPICS, version, topics=topics, topic_names=[name], timeout=30_000)
    (gone,) = answer["responses"]
    assert (gone["name"], gone["error_code"]) == (name, ErrorCode.NONE)
    assert metadata(case.wire, name)["topics"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def create_partitions(case: Case) -> None:
    topics = [{"name": case.topic, "count": 3, "assignments": None}]
    (grown,) = case.ask(Api.CREATE_PARTITIONS, topics=topics, timeout=30_000, validate_only=False)["results"]
    assert (grown["name"], grown["error_code"]) == (case.topic, ErrorCode.NONE)
    assert len(metadata(case.wire, case.topic)["topics"][0]["partitions"]) == 3


def describe_topic_partitions(case: Case) -> None:
    topics = [{"name": case.topic}]
    answer = case.ask(Api.DESCRIBE_TOPIC_PARTITIONS, topics=topics, response_partition_limit=10, cursor=None)
    (topic,) = answer["topics"]
    assert (topic["name"], topic["topic_id"], topic["error_code"]) == (case.topic, case.topic_id, ErrorCode.NONE)
    assert [each["partition_index"] for each in topic["partitions"]] == [0]
    assert answer["next_cursor"] is None


def describe_cluster(case: Case) -> None:
    questions = {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False}
    answer = case.ask(Api.DESCRIBE_CLUSTER, **questions)
    assert (answer["error_code"], answer["controller_id"]) == (ErrorCode.NONE, case.node)
    assert [each["broker_id"] for each in answer["brokers"]] == [case.node]
    assert answer["cluster_id"] == metadata(case.wire)["cluster_id"]


def describe_quorum(case: Case) -> None:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = case.ask(Api.DESCRIBE_QUORUM, topics=topics)
    (topic,) = answer["topics"]
    (partition,) = topic["partitions"]
    assert (answer["error_code"], partition["error_code"]) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (topic["topic_name"], partition["leader_id"]) == ("__cluster_metadata", case.node)
    assert [each["replica_id"] for each in partition["current_voters"]] == [case.node]


def update_features(case: Case) -> None:
    """Nothing can be changed: a feature that nobody knows is refused, with its name or for all of them."""
    feature = {"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1, "allow_downgrade": False}
    answer = case.ask(Api.UPDATE_FEATURES, timeout=30_000, feature_updates=[feature], validate_only=False)
    if case.version < 2 and answer["results"]:
        (result,) = answer["results"]
        assert (result["feature"], result["error_code"]) == ("no.such.feature", ErrorCode.INVALID_UPDATE_VERSION)
    else:
        assert answer["error_code"] == ErrorCode.INVALID_UPDATE_VERSION


def describe_log_dirs(case: Case) -> None:
    answer = case.ask(Api.DESCRIBE_LOG_DIRS, topics=[{"topic": case.topic, "partitions": [0]}])
    (directory,) = answer["results"]
    (topic,) = directory["topics"]
    (partition,) = topic["partitions"]
    assert (directory["error_code"], topic["name"], partition["partition_index"]) == (ErrorCode.NONE, case.topic, 0)
    assert partition["partition_size"] == len(batch_of(b"first"))


def alter_replica_log_dirs(case: Case) -> None:
    answer = case.ask(Api.DESCRIBE_LOG_DIRS, topics=[{"topic": case.topic, "partitions": [0]}], version=4)
    topics = [{"name": case.topic, "partitions": [0, 77]}]
    paths = (answer["results"][0]["log_dir"], "/elsewhere")
    (topic,) = case.ask(Api.ALTER_REPLICA_LOG_DIRS, dirs=[{"path": path, "topics": topics} for path in paths])[
        "results"
    ]
    assert topic["topic_name"] == case.topic
    assert [each["error_code"] for each in topic["partitions"]] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.LOG_DIR_NOT_FOUND,
    ]


def elect_leaders(case: Case) -> None:
    topics = [{"topic": case.topic, "partitions": [0]}]
    (topic,) = case.ask(Api.ELECT_LEADERS, election_type=0, topic_partitions=topics, timeout=30_000)[
        "replica_election_results"
    ]
    (partition,) = topic["partition_result"]
    assert (topic["topic"], partition["error_code"]) == (case.topic, ErrorCode.ELECTION_NOT_NEEDED)


def alter_partition_reassignments(case: Case) -> None:
    """There is nothing to cancel."""
    topics = [{"name": case.topic, "partitions": [{"partition_index": 0, "replicas": None}]}]
    answer = case.ask(Api.ALTER_PARTITION_REASSIGNMENTS, timeout=30_000, topics=topics)
    (topic,) = answer["responses"]
    (partition,) = topic["partitions"]
    assert (answer["error_code"], topic["name"]) == (ErrorCode.NONE, case.topic)
    assert partition["error_code"] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def list_partition_reassignments(case: Case) -> None:
    answer = case.ask(Api.LIST_PARTITION_REASSIGNMENTS, timeout=30_000, topics=None)
    assert (answer["error_code"], answer["topics"]) == (ErrorCode.NONE, [])


# --- configurations and quotas


def alter_configs(case: Case) -> None:
    configs = [{"name": "retention.ms", "value": "12345"}]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": case.topic, "configs": configs}
    (result,) = case.ask(Api.ALTER_CONFIGS, resources=[resource], validate_only=False)["responses"]
    assert (result["error_code"], result["resource_name"]) == (ErrorCode.NONE, case.topic)
    assert retention(case) == "12345"


def incremental_alter_configs(case: Case) -> None:
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "54321"}]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": case.topic, "configs": configs}
    (result,) = case.ask(Api.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=False)["responses"]
    assert (result["error_code"], result["resource_name"]) == (ErrorCode.NONE, case.topic)
    assert retention(case) == "54321"


def describe_configs(case: Case) -> None:
    assert retention(case, case.version) == "604800000"


def retention(case: Case, version: int = 4) -> str:
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": case.topic, "configuration_keys": ["retention.ms"]}
    questions = {"include_synonyms": True, "include_documentation": True}
    (result,) = case.ask(Api.DESCRIBE_CONFIGS, version, resources=[resource], **questions)["results"]
    assert (result["error_code"], result["resource_name"]) == (ErrorCode.NONE, case.topic)
    (config,) = result["configs"]
    assert config["name"] == "retention.ms"
    return str(config["value"])


def list_config_resources(case: Case) -> None:
    answer = case.ask(Api.LIST_CONFIG_RESOURCES, resource_types=[TOPIC_RESOURCE])
    assert answer["error_code"] == ErrorCode.NONE
    found = {each["resource_name"] for each in answer["config_resources"]}
    assert case.topic in found if case.version >= 1 else not found  # version 0 knows metrics' only, and has none


def alter_client_quotas(case: Case, version: int | None = None) -> None:
    entity = [{"entity_type": "client-id", "entity_name": case.topic}]
    ops = [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]
    entries = [{"entity": entity, "ops": ops}]
    (result,) = case.ask(Api.ALTER_CLIENT_QUOTAS, version, entries=entries, validate_only=False)["entries"]
    assert (result["error_code"], result["entity"]) == (ErrorCode.NONE, entity)


def describe_client_quotas(case: Case) -> None:
    alter_client_quotas(case, version=1)
    components = [{"entity_type": "client-id", "match_type": 0, "match": case.topic}]
    answer = case.ask(Api.DESCRIBE_CLIENT_QUOTAS, components=components, strict=False)
    (entry,) = answer["entries"]
    assert answer["error_code"] == ErrorCode.NONE
    assert entry["entity"] == [{"entity_type": "client-id", "entity_name": case.topic}]
    assert entry["values"] == [{"key": "producer_byte_rate", "value": 1e9}]


def describe_user_scram_credentials(case: Case) -> None:
    answer = case.ask(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, users=[{"name": case.topic}])
    (result,) = answer["results"]
    assert (answer["error_code"], result["user"]) == (ErrorCode.NONE, case.topic)
    assert result["error_code"] == ErrorCode.RESOURCE_NOT_FOUND


# --- groups


def find_coordinator(case: Case) -> None:
    body = {"key": case.group, "key_type": 0, "coordinator_keys": [case.group]}
    answer = case.ask(Api.FIND_COORDINATOR, **body)
    if case.version >= 4:
        (answer,) = answer["coordinators"]
        assert answer["key"] == case.group
    (broker,) = metadata(case.wire)["brokers"]
    assert answer["error_code"] == ErrorCode.NONE
    assert (answer["node_id"], answer["host"], answer["port"]) == (case.node, broker["host"], broker["port"])


def join_group(case: Case) -> None:
    joined = case.join(case.version)
    assert (joined["error_code"], joined["generation_id"]) == (ErrorCode.NONE, 1)
    assert (joined["protocol_name"], joined["leader"]) == ("range", joined["member_id"])
    assert [each["metadata"] for each in joined["members"]] == [SUBSCRIPTION]


def sync_group(case: Case) -> None:
    synced = case.sync(case.join(), case.version)
    assert (synced["error_code"], synced["assignment"]) == (ErrorCode.NONE, ASSIGNMENT)


def heartbeat(case: Case) -> None:
    member = case.member()
    body = {"group_id": case.group, "generation_id": member["generation_id"], "member_id": member["member_id"]}
    assert case.ask(Api.HEARTBEAT, **body, group_instance_id=None)["error_code"] == ErrorCode.NONE


def leave_group(case: Case) -> None:
    member_id = case.member()["member_id"]
    members = [{"member_id": member_id, "group_instance_id": None, "reason": "done"}]
    answer = case.ask(Api.LEAVE_GROUP, group_id=case.group, member_id=member_id, members=members)
    assert answer["error_code"] == ErrorCode.NONE
    if case.version >= 3:
        (left,) = answer["members"]
        assert (left["member_id"], left["error_code"]) == (member_id, ErrorCode.NONE)
    assert described_state(case) == "Empty"


def described_state(case: Case) -> str:
    answer = case.ask(Api.DESCRIBE_GROUPS, 5, groups=[case.group], include_authorized_operations=False)
    return str(answer["groups"][0]["group_state"])


def describe_groups(case: Case) -> None:
    member = case.member()
    (group,) = case.ask(Api.DESCRIBE_GROUPS, groups=[case.group], include_authorized_operations=False)["groups"]
    assert (group["error_code"], group["group_id"], group["group_state"]) == (ErrorCode.NONE, case.group, "Stable")
    assert (group["protocol_type"], group["protocol_data"]) == ("consumer", "range")
    (described,) = group["members"]
    assert (described["member_id"], described["client_id"]) == (member["member_id"], CLIENT_ID)
    assert (described["member_metadata"], described["member_assignment"]) == (SUBSCRIPTION, ASSIGNMENT)


def list_groups(case: Case) -> None:
    case.member()
    answer = case.ask(Api.LIST_GROUPS, states_filter=(), types_filter=())
    (group,) = (each for each in answer["groups"] if each["group_id"] == case.group)
    assert (answer["error_code"], group["protocol_type"]) == (ErrorCode.NONE, "consumer")
    if case.version >= 4:
        assert group["group_state"] == "Stable"


def offset_commit(case: Case) -> None:
    (topic,) = case.commit(case.version)["topics"]
    case.check_topic(topic, ids_since=10)
    assert topic["partitions"] == [{"partition_index": 0, "error_code": ErrorCode.NONE}]


def offset_fetch(case: Case) -> None:
    case.commit()
    topics = [{"name": case.topic, "topic_id": case.topic_id, "partition_indexes": [0]}]
    group = {"group_id": case.group, "topics": topics, "member_id": None, "member_epoch": -1}
    answer = case.ask(Api.OFFSET_FETCH, **group, groups=[group], require_stable=False)
    if case.version >= 8:
        (answer,) = answer["groups"]
        assert answer["group_id"] == case.group
    (topic,) = answer["topics"]
    case.check_topic(topic, ids_since=10)
    (partition,) = topic["partitions"]
    found = partition["partition_index"], partition["error_code"], partition["committed_offset"], partition["metadata"]
    assert found == (0, ErrorCode.NONE, 1, "so far")


def offset_delete(case: Case) -> None:
    case.commit()
    topics = [{"name": case.topic, "partitions": [{"partition_index": 0}]}]
    answer = case.ask(Api.OFFSET_DELETE, group_id=case.group, topics=topics)
    (topic,) = answer["topics"]
    assert (answer["error_code"], topic["name"]) == (ErrorCode.NONE, case.topic)
    assert topic["partitions"] == [{"partition_index": 0, "error_code": ErrorCode.NONE}]


def delete_groups(case: Case) -> None:
    case.commit()
    (result,) = case.ask(Api.DELETE_GROUPS, groups_names=[case.group])["results"]
    assert (result["group_id"], result["error_code"]) == (case.group, ErrorCode.NONE)
    assert described_state(case) == "Dead"


CASES: dict[Api, Callable[[Case], None]] = {
    Api.PRODUCE: produce_case,
    Api.FETCH: fetch_case,
    Api.LIST_OFFSETS: list_offsets,
    Api.METADATA: metadata_case,
    Api.OFFSET_COMMIT: offset_commit,
    Api.OFFSET_FETCH: offset_fetch,
    Api.FIND_COORDINATOR: find_coordinator,
    Api.JOIN_GROUP: join_group,
    Api.HEARTBEAT: heartbeat,
    Api.LEAVE_GROUP: leave_group,
    Api.SYNC_GROUP: sync_group,
    Api.DESCRIBE_GROUPS: describe_groups,
    Api.LIST_GROUPS: list_groups,
    Api.API_VERSIONS: api_versions,
    Api.CREATE_TOPICS: create_topics,
    Api.DELETE_TOPICS: delete_topics,
    Api.DELETE_RECORDS: delete_records,
    Api.INIT_PRODUCER_ID: init_producer_id,
    Api.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    Api.DESCRIBE_CONFIGS: describe_configs,
    Api.ALTER_CONFIGS: alter_configs,
    Api.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    Api.DESCRIBE_LOG_DIRS: describe_log_dirs,
    Api.CREATE_PARTITIONS: create_partitions,
    Api.DELETE_GROUPS: delete_groups,
    Api.ELECT_LEADERS: elect_leaders,
    Api.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    Api.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    Api.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    Api.OFFSET_DELETE: offset_delete,
    Api.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    Api.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
    Api.DESCRIBE_QUORUM: describe_quorum,
    Api.UPDATE_FEATURES: update_features,
    Api.DESCRIBE_CLUSTER: describe_cluster,
    Api.DESCRIBE_PRODUCERS: describe_producers,
    Api.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    Api.ADD_OFFSETS_TO_TXN: add_offsets_to_txn_case,
    Api.END_TXN: end_txn,
    Api.WRITE_TXN_MARKERS: write_txn_markers,
    Api.TXN_OFFSET_COMMIT: txn_offset_commit,
    Api.DESCRIBE_TRANSACTIONS: describe_transactions,
    Api.LIST_TRANSACTIONS: list_transactions,
    Api.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    Api.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    Api.LIST_CONFIG_RESOURCES: list_config_resources,
    Api.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}
