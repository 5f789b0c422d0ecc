"""What can go wrong between a client and a Kafka, told in our words.

Transient
├── Unreachable           nothing that speaks Kafka answers at the address
├── TimedOut              it answers, but not in time
├── QueueFull             records wait to be sent, and there is no room for another
├── GroupActive           the group has members, which would overwrite what is changed
├── Busy                  the broker asks to try again
├── EndUnknown            nobody could tell whether a transaction was committed
└── TransactionLost       a transaction cannot go on: it is to be aborted, and done again
    └── Overdue           it was open for too long, and the cluster has aborted it
Permanent
├── InvalidAddress        no HOST:PORT
├── InvalidArgument       what a client is given is of a kind, or outside of a range, that it can do nothing with
├── InvalidSecurity       a setting of TLS or SASL is unknown, or has a value that does not fit
├── InsecureConnection    TLS with the broker fails
├── LoginFailed           the broker refuses a login
├── Fenced                another producer has taken over a transactional id
├── OffsetsGone           records that are to be read are not there any more
├── TopicReplaced         a topic was deleted, and created again under the same name
├── UnknownTopic, UnknownPartition, UnknownGroup, UnknownTransaction
├── NothingOpen           there is no open transaction to end
├── NotHanging            a transaction's own coordinator will end it
├── NotServed             the broker does not know an API
├── CannotCompact         the broker cannot be asked to compact
├── NotCompacted          the topic's cleanup policy does not compact
├── NotPlain              the cluster asks for TLS or SASL, which a bare socket does not speak
├── TopicExists
├── WrongPartitionCount   partitions can be added, never removed
├── InvalidConfig         a config of a topic has an unknown name, or a value that does not fit
├── RecordTooLarge
├── RecordsLost           records that were handed in and did not get into the log
└── Refused               anything else that a broker refuses, with its reason
"""

from __future__ import annotations

import reprlib

from confluent_kafka import KafkaError, KafkaException

from runnel.counted import counted
from runnel.errors import Permanent, RunnelError, Transient

MOST_PARTITIONS = 100_000  # librdkafka's limit

DOWN = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE})
HINTS = {
    KafkaError.INVALID_REPLICATION_FACTOR: "ask for at most as many replicas as there are brokers",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ask whoever runs the cluster for the permission",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "ask whoever runs the cluster for the permission",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "ask whoever runs the cluster for the permission",
    KafkaError.POLICY_VIOLATION: "ask whoever runs the cluster what it allows",
    KafkaError.INVALID_RECORD: "if the topic is compacted, as that of a table, its records need keys: "
    "`runnel produce` has --key-separator, and --key",
    KafkaError.INVALID_TIMESTAMP: "give records a time that is not so far off, or change the topic's "
    "message.timestamp.after.max.ms or message.timestamp.before.max.ms",
}
BROKERS_OWN = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
LATE = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._WAIT_COORD,
    }
)


class Unreachable(Transient):
    def __init__(self, bootstrap: str, reason: str) -> None:
        super().__init__(
            f"no broker answers at {bootstrap}: {reason}",
            hint="start one with `runnel broker start`, or give the address of another",
        )
        self.bootstrap = bootstrap
        self.reason = reason


class TimedOut(Transient):
    def __init__(self, bootstrap: str, doing: str) -> None:
        super().__init__(
            f"{doing} timed out: the broker at {bootstrap} did not answer in time",
            hint="see whether it is a Kafka broker, is up, and advertises an address that can be reached from here",
        )
        self.bootstrap = bootstrap
        self.doing = doing


class QueueFull(Transient):
    def __init__(self, bootstrap: str, seconds: float) -> None:
        super().__init__(
            f"records wait for the broker at {bootstrap}, and there was no room for another within {seconds:g} s",
            hint="send slower, or see why the broker is slow",
        )
        self.bootstrap = bootstrap
        self.seconds = seconds


class GroupActive(Transient):
    def __init__(self, group: str, members: int) -> None:
        what = f"{members} {'member' if members == 1 else 'members'}" if members else "members"
        super().__init__(f'group "{group}" has {what} at work', hint="stop its consumers, then try again")
        self.group = group
        self.members = members


class Busy(Transient):
    def __init__(self, doing: str, reason: str) -> None:
        super().__init__(f"{doing} failed: {reason}", hint="try again")
        self.doing = doing
        self.reason = reason


class EndUnknown(Transient):
    def __init__(self, transactional_id: str, reason: str) -> None:
        super().__init__(
            f'whether the transaction of "{transactional_id}" was committed is not known: {reason}',
            hint="initialise the transactional id again, and look into its topics for what was committed",
        )
        self.transactional_id = transactional_id
        self.reason = reason


class TransactionLost(Transient):
    def __init__(self, transactional_id: str, where: str, reason: str) -> None:
        super().__init__(
            f'the transaction of "{transactional_id}" cannot go on at {where}: {reason}',
            hint="abort it, and write it again: nothing of it is seen by readers of committed records",
        )
        self.transactional_id = transactional_id
        self.where = where
        self.reason = reason


class Overdue(TransactionLost):
    def __init__(self, transactional_id: str, where: str, reason: str) -> None:
        super().__init__(transactional_id, where, reason)
        self.hint = "it is done again; if that happens often, do less in one transaction, or give it more processors"


class InvalidAddress(Permanent):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(
            f'"{bootstrap}" is no address of a broker', hint="expected HOST:PORT, or several with commas in between"
        )
        self.bootstrap = bootstrap


class InvalidArgument(Permanent, ValueError):
    def __init__(self, argument: str, value: object, expected: str) -> None:
        super().__init__(f"{reprlib.repr(value)} cannot be the {argument}", hint=f"expected {expected}")
        self.argument = argument
        self.value = value
        self.expected = expected


class InvalidSecurity(Permanent):
    def __init__(self, setting: str, value: object, expected: str) -> None:
        shown = "" if "password" in setting or value == "" else f' = "{value}"'
        super().__init__(f"setting {setting}{shown} cannot be used", hint=f"expected {expected}")
        self.setting = setting
        self.expected = expected


class InsecureConnection(Permanent):
    def __init__(self, address: str, reason: str, *, hint: str) -> None:
        super().__init__(f"no safe connection to the broker at {address}: {reason}", hint=hint)
        self.address = address
        self.reason = reason


class LoginFailed(Permanent):
    def __init__(self, address: str, mechanism: str, username: str, reason: str) -> None:
        super().__init__(
            f'the broker at {address} does not let "{username}" in, by {mechanism}: {reason}',
            hint="see to sasl.mechanism, sasl.username and sasl.password",
        )
        self.address = address
        self.mechanism = mechanism
        self.username = username
        self.reason = reason


class Fenced(Permanent):
    """`overdue` says in words that its own transaction was open for too long, if it was: then that may be all."""

    def __init__(self, transactional_id: str, overdue: str = "") -> None:
        taken = "another one has taken over its id"
        super().__init__(
            f'the producer "{transactional_id}" is fenced: {f"{overdue}, or {taken} since" if overdue else taken}',
            hint="stop this copy if there is another one, or else start it again, and write less in one transaction"
            if overdue
            else "stop this copy, or give it a name of its own: one at a time can write under a transactional id",
        )
        self.transactional_id = transactional_id


class OffsetsGone(Permanent):
    """`gone` are the offsets that were asked for and cannot be read: from the first to before the second."""

    def __init__(self, topic: str, partition: int, wanted: int, start: int, end: int) -> None:
        if wanted < start:
            what = f"offsets {wanted:,} to {start - 1:,} of {topic}-{partition} are gone: it begins at {start:,} now"
            hint = f"read on from {start:,}, knowing what is missing; a longer retention.ms keeps records for longer"
        else:
            what = f"{topic}-{partition} ends at {end:,}, before offset {wanted:,}, where reading was to go on"
            hint = "the topic was made anew or has lost its end: begin again from where it starts"
        super().__init__(what, hint=hint)
        self.topic = topic
        self.partition = partition
        self.wanted = wanted
        self.start = start
        self.end = end
        self.gone = (wanted, start) if wanted < start else (end, wanted)


class TopicReplaced(Permanent):
    def __init__(self, topic: str, expected: str, found: str) -> None:
        super().__init__(
            f'topic "{topic}" was deleted and created again: its id is {found}, not {expected}',
            hint="its offsets mean other records now: begin again from where it starts; an app rebuilds what it made "
            "of it under another name",
        )
        self.topic = topic
        self.expected = expected
        self.found = found


class UnknownTopic(Permanent):
    def __init__(self, topic: str) -> None:
        super().__init__(
            f'there is no topic "{topic}"',
            hint="`runnel topics list` shows those that are there, `runnel topics create` makes one",
        )
        self.topic = topic


class UnknownPartition(Permanent):
    def __init__(self, topic: str, partition: int, count: int | None = None) -> None:
        has = f'topic "{topic}" has no partition {partition}'
        told = f"its partitions are 0 to {count - 1}" if count else "`runnel topics describe` shows its partitions"
        super().__init__(has, hint=told)
        self.topic = topic
        self.partition = partition
        self.count = count


class UnknownGroup(Permanent):
    def __init__(self, group: str) -> None:
        super().__init__(f'there is no group "{group}"', hint="`runnel groups list` shows those that are there")
        self.group = group


class UnknownTransaction(Permanent):
    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f'there is no transactional id "{transactional_id}"',
            hint="`runnel transactions list` shows those that are there",
        )
        self.transactional_id = transactional_id


class NothingOpen(Permanent):
    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(what, hint=hint)


class NotHanging(Permanent):
    def __init__(self, producer_id: int, transactional_id: str) -> None:
        super().__init__(
            f'the transaction of producer {producer_id} does not hang: it is that of "{transactional_id}", '
            "and its coordinator knows that it is open",
            hint="end it in all its partitions with `runnel transactions abort ID`",
        )
        self.producer_id = producer_id
        self.transactional_id = transactional_id


class NotServed(Permanent):
    def __init__(self, doing: str, api: str, address: str) -> None:
        super().__init__(
            f"{doing} failed: the broker at {address} does not serve {api}",
            hint="ask a newer broker",
        )
        self.doing = doing
        self.api = api
        self.address = address


class CannotCompact(Permanent):
    def __init__(self, address: str) -> None:
        super().__init__(
            f"the broker at {address} cannot compact on demand",
            hint="Apache Kafka compacts by itself: see the configs min.cleanable.dirty.ratio and max.compaction.lag.ms",
        )
        self.address = address


class NotCompacted(Permanent):
    def __init__(self, topic: str) -> None:
        super().__init__(
            f'topic "{topic}" is not compacted: its cleanup.policy does not say so',
            hint="`runnel topics alter TOPIC --config cleanup.policy=compact` keeps only the newest record of each key",
        )
        self.topic = topic


class NotPlain(Permanent):
    def __init__(self, doing: str) -> None:
        super().__init__(
            f"{doing} failed: the cluster asks for TLS or SASL, and this is asked over plain connections only",
            hint="use a listener without them",
        )
        self.doing = doing


class TopicExists(Permanent):
    def __init__(self, topic: str) -> None:
        super().__init__(
            f'topic "{topic}" is there already',
            hint="`runnel topics describe` shows it, `runnel topics alter` changes it",
        )
        self.topic = topic


class InvalidTopicName(Permanent):
    def __init__(self, topic: str) -> None:
        super().__init__(
            f'"{topic}" cannot be the name of a topic',
            hint="a name has 1 to 249 letters, digits, dots, underscores and hyphens, and is neither . nor ..",
        )
        self.topic = topic


class WrongPartitionCount(Permanent):
    def __init__(self, topic: str, asked: int, has: int | None = None) -> None:
        if has is None:
            what = f'topic "{topic}" cannot have {counted(asked, "partition")}'
            hint = f"expected 1 to {MOST_PARTITIONS:,}"
        else:
            what = f'topic "{topic}" has {counted(has, "partition")}, asked for {asked:,}'
            hint = "partitions can be added, never removed: ask for more, or create another topic"
        super().__init__(what, hint=hint)
        self.topic = topic
        self.asked = asked
        self.has = has


class InvalidConfig(Permanent):
    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(
            f'the broker refuses a config of topic "{topic}": {reason}',
            hint="`runnel topics describe TOPIC --all` shows every config of a topic with its value",
        )
        self.topic = topic
        self.reason = reason


class RecordTooLarge(Permanent):
    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(
            f'a record for topic "{topic}" is too large: {reason}',
            hint="send smaller records, or raise the topic's max.message.bytes and the producer's message.max.bytes",
        )
        self.topic = topic
        self.reason = reason


class RecordsLost(Permanent):
    def __init__(self, count: int, first: RunnelError) -> None:
        super().__init__(f"{counted(count, 'record was', 'records were')} not written: {first.what}", hint=first.hint)
        self.count = count
        self.first = first


class Refused(Permanent):
    def __init__(self, doing: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{doing} failed: {reason}", hint=hint)
        self.doing = doing
        self.reason = reason


def told(
    error: KafkaError | KafkaException, bootstrap: str, doing: str, *, topic: str = "", group: str = ""
) -> RunnelError:
    """An error of librdkafka or of a broker as one of ours."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    if not isinstance(cause, KafkaError):
        return Refused(doing, str(cause))
    known = _known(cause, topic, group)
    if known is not None:
        return known
    if cause.code() in DOWN:
        return Unreachable(bootstrap, reason_of(cause))
    if cause.code() in LATE:
        return TimedOut(bootstrap, doing)
    if cause.retriable():
        return Busy(doing, reason_of(cause))
    if cause.code() == KafkaError.INVALID_REQUEST and topic in BROKERS_OWN:  # librdkafka drops what the broker says
        return Refused(doing, "it is the broker's own topic", hint="let it be: the broker keeps its state there")
    return Refused(doing, reason_of(cause), hint=HINTS.get(cause.code(), ""))


def _known(error: KafkaError, topic: str, group: str) -> RunnelError | None:
    """The errors that are about a topic or a group, where one is known."""
    code = error.code()
    if topic:
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return UnknownTopic(topic)
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return TopicExists(topic)
        if code == KafkaError.TOPIC_EXCEPTION:
            return InvalidTopicName(topic)
        if code == KafkaError.INVALID_CONFIG:
            return InvalidConfig(topic, reason_of(error))
        if code in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
            return RecordTooLarge(topic, reason_of(error))
    if group:
        if code == KafkaError.GROUP_ID_NOT_FOUND:
            return UnknownGroup(group)
        # A broker answers a commit of nobody to a group with members with the second of these.
        if code in (KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID):
            return GroupActive(group, 0)
    return None


def reason_of(error: KafkaError) -> str:
    """What librdkafka tells, on one line and without what it puts in front."""
    text = " ".join(error.str().split())
    for prefix in ("Unable to produce message: ", "Broker: ", "Local: "):
        text = text.removeprefix(prefix)
    return text or error.name()
