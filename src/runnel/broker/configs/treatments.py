"""What becomes of each of Kafka's configurations here: honoured, ignored with a reason, or refused with a reason.

Ignored is what cannot matter to one broker with one replica, or steers a mechanism that we do not have while its
absence takes nothing from the user. Refused is what would promise something that does not happen: security, policies,
another storage. A refused name may still be given its default, which asks for nothing.

A rule is a name, or some words of a name's beginning and a `*`; a name comes before those, and a longer one before a
shorter one.
"""

from __future__ import annotations

from collections.abc import Collection

# --- honoured: what they mean, in a line

BROKER = {
    "node.id": "the id of this broker, as clients see it",
    "broker.id": "the older name of node.id",
    "broker.rack": "the rack that clients are told",
    "listeners": "where the broker listens: NAME://HOST:PORT, with commas between several; port 0 takes a free one",
    "advertised.listeners": "where clients are told to connect, for listeners whose own address is of no use to them",
    "listener.security.protocol.map": "what is spoken on each listener; PLAINTEXT is all there is yet",
    "controller.listener.names": "listeners that are left out: this broker needs no controller",
    "num.partitions": "the partitions of a topic that is created without a count, or by being used",
    "default.replication.factor": "1, unless runnel.replication.factor.lenient is true",
    "auto.create.topics.enable": "create a topic when it is first used",
    "delete.topic.enable": "let clients delete topics",
    "message.max.bytes": "the largest record batch; the default of a topic's max.message.bytes",
    "socket.request.max.bytes": "the largest request; a larger one closes its connection",
    "fetch.max.bytes": "the most that one fetch gets, beside its first batch",
    "max.request.partition.size.limit": "the most partitions that one DescribeTopicPartitions gets",
    "max.connections": "the most connections at a time",
    "max.connections.per.ip": "the most connections at a time from one address",
    "connections.max.idle.ms": "close a connection that was silent for so long; -1: never",
    "queued.max.request.bytes": "the most bytes of requests that are being received or worked on; -1: 256 MiB",
    "socket.listen.backlog.size": "connections that may wait to be accepted",
    "quota.window.num": "how many samples a client's rate is measured over",
    "quota.window.size.seconds": "how long a sample of a client's rate is",
    "group.initial.rebalance.delay.ms": "how long an empty group waits for more members before its first rebalance",
    "group.min.session.timeout.ms": "the shortest session timeout that a group member may ask for",
    "group.max.session.timeout.ms": "the longest session timeout that a group member may ask for",
    "group.max.size": "the most members of a group",
    "group.coordinator.rebalance.protocols": "the protocols that groups may speak; there are classic and consumer",
    "group.consumer.session.timeout.ms": "a member of a consumer group that is silent for so long is none any more",
    "group.consumer.min.session.timeout.ms": "the least that a group's own consumer.session.timeout.ms may be",
    "group.consumer.max.session.timeout.ms": "the most that a group's own consumer.session.timeout.ms may be",
    "group.consumer.heartbeat.interval.ms": "how often members of a consumer group are asked to send heartbeats",
    "group.consumer.min.heartbeat.interval.ms": "the least that a group's own consumer.heartbeat.interval.ms may be",
    "group.consumer.max.heartbeat.interval.ms": "the most that a group's own consumer.heartbeat.interval.ms may be",
    "group.consumer.assignment.interval.ms": "the least time from one assignment of a consumer group to the next",
    "group.consumer.min.assignment.interval.ms": "the least that a group's own consumer.assignment.interval.ms may be",
    "group.consumer.max.assignment.interval.ms": "the most that a group's own consumer.assignment.interval.ms may be",
    "group.consumer.max.size": "the most members of a consumer group",
    "group.consumer.assignors": "the assignors that members may ask for; the first is for those who do not ask",
    "group.consumer.migration.policy": "whether a group with members may change between the protocols, and which way",
    "group.consumer.regex.refresh.interval.ms": "how old the topics of a subscribed regular expression may become",
    "offset.metadata.max.bytes": "the longest text that may be committed beside an offset",
    "offsets.retention.minutes": "how long the offsets of a group without members are kept",
    "offsets.retention.check.interval.ms": "how often offsets are looked at that may be too old",
    "transaction.max.timeout.ms": "the longest time-out that a transactional producer may ask for",
    "transactional.id.expiration.ms": "how long a transactional id that nobody uses is remembered",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "how often transactions are looked at that may have "
    "lasted too long",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "how often transactional ids are looked at that may "
    "have expired",
    "log.segment.bytes": "the default of a topic's segment.bytes",
    "log.roll.ms": "the default of a topic's segment.ms; wins over log.roll.hours",
    "log.roll.hours": "the same in hours",
    "log.roll.jitter.ms": "the default of a topic's segment.jitter.ms; wins over log.roll.jitter.hours",
    "log.roll.jitter.hours": "the same in hours",
    "log.index.interval.bytes": "the default of a topic's index.interval.bytes",
    "log.retention.ms": "the default of a topic's retention.ms; wins over log.retention.minutes and hours",
    "log.retention.minutes": "the same in minutes; wins over log.retention.hours",
    "log.retention.hours": "the same in hours",
    "log.retention.bytes": "the default of a topic's retention.bytes",
    "log.flush.interval.messages": "the default of a topic's flush.messages",
    "log.flush.interval.ms": "the default of a topic's flush.ms; wins over log.flush.scheduler.interval.ms",
    "log.flush.scheduler.interval.ms": "the default of a topic's flush.ms",
    "log.message.timestamp.type": "the default of a topic's message.timestamp.type",
    "log.message.timestamp.before.max.ms": "the default of a topic's message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms": "the default of a topic's message.timestamp.after.max.ms",
    "log.cleanup.policy": "the default of a topic's cleanup.policy",
    "log.cleaner.min.cleanable.ratio": "the default of a topic's min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "the default of a topic's min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms": "the default of a topic's max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms": "the default of a topic's delete.retention.ms",
    "compression.type": "the default of a topic's compression.type",
    "log.retention.check.interval.ms": "how often segments are looked at that may be too old or too many",
    "log.flush.offset.checkpoint.interval.ms": "how often a start after a crash is made short by a checkpoint",
    "producer.id.expiration.ms": "how long a silent idempotent producer is remembered",
    "log.cleaner.backoff.ms": "how often partitions are looked at that may need compaction",
    "log.cleaner.dedupe.buffer.size": "memory for the keys of one round of compaction; more keys take more rounds",
    "runnel.replication.factor.lenient": "make a topic that asks for several replicas with one, and do not refuse it",
    "runnel.low.disk.bytes": "refuse writes when less than this is free on the disk",
    "runnel.tail.cache.bytes": "memory for the newest batches of all partitions",
    "runnel.open.files": "the most segment files that are kept open",
    "runnel.sync.workers": "threads that sync files",
    "runnel.cleaner.cpu.percent": "the most of one core that compaction takes over ten seconds; 100: no limit",
    "runnel.retry.after.failure.ms": "how long a partition waits after a failed write before it tries the disk again",
}

TOPIC = {
    "cleanup.policy": "delete: retention removes old segments. compact: of each key the newest record stays, and "
    "retention removes nothing, unless delete stands there too",
    "delete.retention.ms": "how long a tombstone stays after the round of compaction that first met it",
    "max.compaction.lag.ms": "the longest time until a record is looked at by compaction: a bound for forgetting",
    "min.cleanable.dirty.ratio": "the part of a log that has to be new before it is compacted",
    "min.compaction.lag.ms": "the shortest time that a record stays as it is",
    "compression.type": "producer keeps a batch as it came; another one compresses it anew when it is appended",
    "flush.messages": "answer an append once it is written, and sync after so many records; the default syncs first",
    "flush.ms": "answer an append once it is written, and sync so many milliseconds later; the default syncs first",
    "index.interval.bytes": "how many bytes of batches lie between two entries of an index",
    "internal.segment.bytes": "like segment.bytes, for tests that need small segments; wins over it",
    "max.message.bytes": "the largest record batch",
    "message.timestamp.after.max.ms": "how far a record's timestamp may be after the broker's clock",
    "message.timestamp.before.max.ms": "how far a record's timestamp may be before the broker's clock",
    "message.timestamp.type": "CreateTime keeps the producer's timestamps, LogAppendTime puts the broker's there",
    "retention.bytes": "the size beyond which a partition's oldest segments are deleted; -1: never",
    "retention.ms": "the age beyond which segments are deleted; -1: never",
    "segment.bytes": "the size of a segment",
    "segment.jitter.ms": "a random part by which a segment's age at its end is shortened",
    "segment.ms": "the age at which a segment ends",
}

# --- not honoured: why

ONE_BROKER = "there is one broker, and one replica of each partition"
ONE_CONTROLLER = "this broker is its own controller"
NO_SHARE_GROUPS = "there are no share groups yet"
NO_STREAMS_GROUPS = "there are no streams groups yet; classic groups work"
NO_REMOTE_STORAGE = "there is no remote storage"
NO_SECURITY = "there is no authentication and no encryption yet"
NO_JAVA = "a Java class cannot be loaded here"
OWN_THREADS = "one event loop serves all connections"
OWN_METRICS = "metrics are for Prometheus here: see runnel broker start --metrics"
OWN_SEGMENTS = "segments of the broker's own topics have 16 MiB: they are compacted soon, and a start is short"
OWN_LEVELS = "the codecs' own levels are used"
NO_PURGATORY = "a waiting request is dropped when it is answered"

IGNORED_BROKER = {
    "add.partitions.to.txn.*": "the coordinator is in the same process: nobody waits for it",
    "alter.log.dirs.replication.quota.*": "there is one data directory",
    "auto.leader.rebalance.enable": ONE_BROKER,
    "background.threads": OWN_THREADS,
    "broker.heartbeat.interval.ms": ONE_CONTROLLER,
    "broker.session.timeout.ms": ONE_CONTROLLER,
    "compression.*": OWN_LEVELS,
    "connection.failed.authentication.delay.ms": NO_SECURITY,
    "connections.max.reauth.ms": NO_SECURITY,
    "controlled.shutdown.enable": ONE_BROKER,
    "controller.*": ONE_CONTROLLER,
    "cordoned.log.dirs": "there is one data directory",
    "delegation.token.expiry.*": NO_SECURITY,
    "delegation.token.max.lifetime.ms": NO_SECURITY,
    "delete.records.purgatory.purge.interval.requests": NO_PURGATORY,
    "early.start.listeners": "all listeners start together",
    "fetch.purgatory.purge.interval.requests": NO_PURGATORY,
    "follower.*": ONE_BROKER,
    "group.coordinator.*": "groups are kept on the one event loop, and their appends share syncs with all others",
    "group.share.*": NO_SHARE_GROUPS,
    "group.streams.*": NO_STREAMS_GROUPS,
    "initial.broker.registration.timeout.ms": ONE_CONTROLLER,
    "inter.broker.listener.name": ONE_BROKER,
    "internal.metadata.*": ONE_CONTROLLER,
    "kafka.metrics.*": OWN_METRICS,
    "leader.*": ONE_BROKER,
    "log.cleaner.enable": "compaction is always on",
    "log.cleaner.io.*": "the use of one core is limited: see runnel.cleaner.cpu.percent",
    "log.cleaner.threads": "one partition is compacted at a time, in a process of its own",
    "log.dir": "the data directory is named by --data",
    "log.dir.failure.timeout.ms": ONE_BROKER,
    "log.dirs": "the data directory is named by --data",
    "log.flush.start.offset.checkpoint.interval.ms": "a new start offset is on the disk before anything is deleted",
    "log.index.size.max.bytes": "an index grows with its segment",
    "log.initial.task.delay.ms": "background work starts with the broker",
    "log.local.retention.*": NO_REMOTE_STORAGE,
    "log.preallocate": "segments are never preallocated",
    "log.segment.delete.delay.ms": "a segment's files are deleted at once",
    "max.connection.creation.rate": "connections are limited in number, not in rate",
    "max.connections.per.ip.overrides": "every address has the same limit: max.connections.per.ip",
    "max.incremental.fetch.session.cache.slots": "there are no fetch sessions: every fetch names its partitions",
    "metadata.*": ONE_CONTROLLER,
    "metadata.log.dir": "the data directory is named by --data",
    "metric.reporters": OWN_METRICS,
    "metrics.*": OWN_METRICS,
    "min.insync.replicas": "there is one replica, and it is in sync",
    "num.io.threads": OWN_THREADS,
    "num.network.threads": OWN_THREADS,
    "num.recovery.threads.per.data.dir": "partitions are recovered when they are first used",
    "num.replica.*": ONE_BROKER,
    "offsets.commit.timeout.ms": ONE_BROKER,
    "offsets.load.buffer.size": "offsets are read in batches of a fixed size",
    "offsets.topic.compression.codec": "offsets are written uncompressed",
    "offsets.topic.num.partitions": "one broker keeps the offsets of all groups in one partition",
    "offsets.topic.replication.factor": ONE_BROKER,
    "offsets.topic.segment.bytes": OWN_SEGMENTS,
    "process.roles": "one process is broker and controller",
    "producer.id.expiration.check.interval.ms": "producers are looked at together with retention",
    "producer.purgatory.purge.interval.requests": NO_PURGATORY,
    "queued.max.requests": "requests are limited in bytes: see queued.max.request.bytes",
    "remote.*": NO_REMOTE_STORAGE,
    "replica.*": ONE_BROKER,
    "replication.quota.*": ONE_BROKER,
    "request.timeout.ms": ONE_BROKER,
    "sasl.kerberos.*": NO_SECURITY,
    "sasl.login.*": NO_SECURITY,
    "sasl.oauthbearer.*": NO_SECURITY,
    "sasl.mechanism.controller.protocol": ONE_CONTROLLER,
    "sasl.mechanism.inter.broker.protocol": ONE_BROKER,
    "sasl.server.max.receive.size": NO_SECURITY,
    "security.inter.broker.protocol": ONE_BROKER,
    "server.max.startup.time.ms": "a start takes as long as it takes",
    "share.*": NO_SHARE_GROUPS,
    "socket.connection.setup.*": ONE_BROKER,
    "socket.receive.buffer.bytes": "the operating system sizes the buffers of sockets",
    "socket.send.buffer.bytes": "the operating system sizes the buffers of sockets",
    "telemetry.max.bytes": "clients' own metrics are not taken",
    "transaction.partition.verification.enable": "every transactional batch is verified",
    "transaction.state.log.load.buffer.size": "the state of transactions is read in batches of a fixed size",
    "transaction.state.log.min.isr": ONE_BROKER,
    "transaction.state.log.num.partitions": "one broker keeps the state of all transactions in one partition",
    "transaction.state.log.replication.factor": ONE_BROKER,
    "transaction.state.log.segment.bytes": OWN_SEGMENTS,
    "unclean.leader.election.*": ONE_BROKER,
    "unstable.*": "versions that are not final are never offered",
}

REFUSED_BROKER = {
    "alter.config.policy.class.name": NO_JAVA,
    "authorizer.class.name": "there is no access control yet",
    "client.quota.callback.class": NO_JAVA,
    "config.providers": NO_JAVA,
    "create.topic.policy.class.name": NO_JAVA,
    "delegation.token.secret.key": NO_SECURITY,
    "principal.builder.class": NO_SECURITY,
    "remote.log.storage.system.enable": NO_REMOTE_STORAGE,
    "replica.selector.class": NO_JAVA,
    "sasl.*": NO_SECURITY,
    "security.providers": NO_SECURITY,
    "ssl.*": NO_SECURITY,
    "transaction.two.phase.commit.enable": "there is no two-phase commit with other systems",
}

IGNORED_TOPIC = {
    "compression.*": OWN_LEVELS,
    "file.delete.delay.ms": "a segment's files are deleted at once",
    "follower.replication.throttled.replicas": ONE_BROKER,
    "leader.replication.throttled.replicas": ONE_BROKER,
    "local.retention.*": NO_REMOTE_STORAGE,
    "min.insync.replicas": "there is one replica, and it is in sync",
    "preallocate": "segments are never preallocated",
    "remote.log.*": NO_REMOTE_STORAGE,
    "segment.index.bytes": "an index grows with its segment",
    "unclean.leader.election.enable": ONE_BROKER,
}

REFUSED_TOPIC = {"remote.storage.enable": NO_REMOTE_STORAGE}

IGNORED_GROUP = {
    "share.*": NO_SHARE_GROUPS,
    "streams.*": NO_STREAMS_GROUPS,
}

GROUP = {
    "consumer.assignment.interval.ms": "the least time from one assignment of the group to the next",
    "consumer.heartbeat.interval.ms": "how often the group's members are asked to send heartbeats",
    "consumer.session.timeout.ms": "when nothing was heard of a member for so long, it is none",
}

REFUSED_CLIENT_METRICS = {"*": "clients' own metrics are not taken"}

HONOURED: dict[str, dict[str, str]] = {"broker": BROKER, "topic": TOPIC, "group": GROUP, "client-metrics": {}}
IGNORED: dict[str, dict[str, str]] = {
    "broker": IGNORED_BROKER,
    "topic": IGNORED_TOPIC,
    "group": IGNORED_GROUP,
    "client-metrics": {},
}
REFUSED: dict[str, dict[str, str]] = {
    "broker": REFUSED_BROKER,
    "topic": REFUSED_TOPIC,
    "group": {},
    "client-metrics": REFUSED_CLIENT_METRICS,
}

# --- values that are refused though Kafka takes them

REFUSED_VALUES = {
    ("broker", "process.roles"): ("broker", "a controller alone is of no use here"),
}


def rule_for(rules: Collection[str], name: str) -> str | None:
    """The rule that says most about the name."""
    if name in rules:
        return name
    words = name.split(".")
    beginnings = (".".join([*words[:count], "*"]) for count in reversed(range(len(words))))
    return next((rule for rule in beginnings if rule in rules), None)
