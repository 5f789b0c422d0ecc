"""A durable log on one disk, in Kafka's formats. It knows no sockets.

from runnel.log import open_log
from runnel.records import Record

with open_log("data") as log:
    orders = log.partition("orders")
    orders.append([Record(b"tea")])
    for record in orders.records():
        print(record.offset, record.value)
"""

from runnel.log.appends import Append, Appended, Outcome, Told
from runnel.log.checkpoints import TopicPartition
from runnel.log.log import Log, open_log
from runnel.log.opening import Finding
from runnel.log.partition import OpenTransaction, Partition
from runnel.log.reader import Batches
from runnel.log.txn_index import Aborted
from runnel.records import Codec, Record
from runnel.settings import LogSettings, TopicSettings

__all__ = [
    "Aborted",
    "Append",
    "Appended",
    "Batches",
    "Codec",
    "Finding",
    "Log",
    "LogSettings",
    "OpenTransaction",
    "Outcome",
    "Partition",
    "Record",
    "Told",
    "TopicPartition",
    "TopicSettings",
    "open_log",
]
