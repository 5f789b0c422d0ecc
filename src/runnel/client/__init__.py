"""The small typed layer over any Kafka that the rest of Runnel uses: produce, consume, admin, groups, lag.

It knows neither our broker nor our log. `runnel.client.asynchronous` has the same for asyncio.
"""

from runnel.client.admin import Admin, Cluster, Config, Node, Partition, Topic
from runnel.client.compaction import Cleanness, Compaction, cleanness, compact
from runnel.client.consumer import Consumer
from runnel.client.errors import (
    Busy,
    CannotCompact,
    GroupActive,
    InvalidAddress,
    InvalidArgument,
    InvalidConfig,
    InvalidTopicName,
    NotCompacted,
    NotHanging,
    NothingOpen,
    NotPlain,
    NotServed,
    QueueFull,
    RecordsLost,
    RecordTooLarge,
    Refused,
    TimedOut,
    TopicExists,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
    Unreachable,
    WrongPartitionCount,
)
from runnel.client.groups import Group, Groups, Member
from runnel.client.lag import Lag, Retention, lag
from runnel.client.producer import Producer
from runnel.client.records import Headers, Received, Token
from runnel.client.transactions import OpenTransaction, ProducerState, Transaction, Transactions
from runnel.start import EARLIEST, LATEST, InvalidStart, Start

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "Busy",
    "CannotCompact",
    "Cleanness",
    "Cluster",
    "Compaction",
    "Config",
    "Consumer",
    "Group",
    "GroupActive",
    "Groups",
    "Headers",
    "InvalidAddress",
    "InvalidArgument",
    "InvalidConfig",
    "InvalidStart",
    "InvalidTopicName",
    "Lag",
    "Member",
    "Node",
    "NotCompacted",
    "NotHanging",
    "NotPlain",
    "NotServed",
    "NothingOpen",
    "OpenTransaction",
    "Partition",
    "Producer",
    "ProducerState",
    "QueueFull",
    "Received",
    "RecordTooLarge",
    "RecordsLost",
    "Refused",
    "Retention",
    "Start",
    "TimedOut",
    "Token",
    "Topic",
    "TopicExists",
    "Transaction",
    "Transactions",
    "UnknownGroup",
    "UnknownPartition",
    "UnknownTopic",
    "UnknownTransaction",
    "Unreachable",
    "WrongPartitionCount",
    "cleanness",
    "compact",
    "lag",
]
