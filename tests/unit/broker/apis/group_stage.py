"""A node for the tests of the group APIs: `NodeStage`, and what makes groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.node_stage import NodeStage


class GroupStage:
    def __init__(self, data: Path) -> None:
        self._stage = NodeStage(data, {"group.initial.rebalance.delay.ms": "0"})
        self.node = self._stage.node
        self.loop = self._stage.loop
        self.topic = self._stage.create
        self.close = self._stage.close

    def ask(self, api: Api, version: int, **fields: Any) -> dict[str, Any]:
        return self._stage.ask(api, fields, version)

    # --- what most tests need

    def join(self, group: str = "g", version: int = 9, **fields: Any) -> dict[str, Any]:
        """JoinGroup, and again with an id if it is sent back for one."""
        wish = {
            "group_id": group,
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"}],
            "reason": None,
        } | fields
        answer = self.ask(Api.JOIN_GROUP, version, **wish)
        if answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.ask(Api.JOIN_GROUP, version, **wish | {"member_id": answer["member_id"]})
        return answer

    def stable(self, group: str = "g", **fields: Any) -> dict[str, Any]:
        """A stable group with one member; its answer to JoinGroup."""
        joined = self.join(group, **fields)
        self.sync(joined, group, instance_id=fields.get("group_instance_id"))
        return joined

    def sync(self, joined: dict[str, Any], group: str = "g", version: int = 5, instance_id: str | None = None) -> Any:
        return self.ask(
            Api.SYNC_GROUP,
            version,
            group_id=group,
            generation_id=joined["generation_id"],
            member_id=joined["member_id"],
            group_instance_id=instance_id,
            protocol_type=joined["protocol_type"],
            protocol_name=joined["protocol_name"],
            assignments=[{"member_id": joined["member_id"], "assignment": b"mine"}],
        )

    def commit(self, offset: int, topic: str = "orders", partition: int = 0, group: str = "g") -> Any:
        answer = self.ask(
            Api.OFFSET_COMMIT,
            9,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "note",
                        }
                    ],
                }
            ],
        )
        return answer["topics"][0]["partitions"][0]["error_code"]
