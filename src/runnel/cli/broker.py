"""`runnel broker`: run a broker, and ask one how it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runnel.cli.addresses import address_form
from runnel.cli.ending import end_at_once
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Metrics, pairs
from runnel.cli.structured_log import log_to_stderr

if TYPE_CHECKING:
    from runnel.broker.server import Server

broker = noun("Run a broker that every Kafka client can use.")


@broker.command()
def start(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The data directory; made if it is missing.")],
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            callback=address_form,
            metavar="HOST:PORT",
            help="Where to listen; port 0 picks a free one.  [default: 127.0.0.1:9092]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting under Kafka's name; as often as wanted."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A file of settings, one NAME=VALUE a line.")
    ] = None,
    metrics: Metrics = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write the log as JSON, one object a line.")] = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    It prints `listening on HOST:PORT` when it is ready.
    """
    end_at_once()
    # Imported here because `status` needs none of it.
    from runnel.broker.configs.files import read_config_file  # noqa: PLC0415
    from runnel.broker.running import ENDS_WITH_STDIN, run_broker  # noqa: PLC0415

    log_to_stderr(as_json=log_json)
    configs = read_config_file(config) if config is not None else {}
    configs |= dict(pairs(settings or (), "--set"))
    if listen is not None:
        if "listeners" in configs:
            raise typer.BadParameter("listeners are set already; use one of both.", param_hint="'--listen'")
        configs["listeners"] = f"PLAINTEXT://{listen}"

    def say_ready(server: Server) -> None:
        for endpoint in server.listening:
            print(f"listening on {endpoint}", flush=True)

    owned = bool(os.environ.get(ENDS_WITH_STDIN))
    run_broker(str(data), configs, metrics=metrics, when_ready=say_ready, with_stdin=owned)


@broker.command()
def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Ask a broker, or a whole cluster, how it is."""
    from runnel.cli.tables import print_json, print_table  # noqa: PLC0415
    from runnel.client import Admin, Groups  # noqa: PLC0415

    admin = Admin(bootstrap)
    cluster, topics, groups = admin.cluster(), admin.topics(), Groups(admin).list()
    facts = {
        "cluster": cluster.id,
        "brokers": [f"{each.id} at {_address(each.host, each.port)}" for each in cluster.brokers],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "groups": len(groups),
    }
    if as_json:
        print_json(facts)
    else:
        print_table(("what", "is"), [(name, _shown(value)) for name, value in facts.items()])


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
