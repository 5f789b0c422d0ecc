"""A test holds a query by files: it plans when it is let go, and time passes when the test says so."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from runnel.pipeline.source.hold import FREE, Holder, hold_of


def held(directory, query):
    """It has planned a batch before."""
    checkpoint = directory / f"checkpoint-{query}"
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / "0").touch()
    return hold_of(str(directory), query, checkpoint)


def test_an_app_that_nobody_holds_plans_at_once_by_the_machine_s_clock():
    assert hold_of("", "counts", Path("/nowhere")) is FREE
    assert FREE.is_let_go()
    before = time.monotonic()
    assert before <= FREE.clock() <= time.monotonic()


def test_a_query_is_let_go_by_itself(tmp_path):
    holder = Holder(tmp_path)
    counts, copies = held(tmp_path, "counts"), held(tmp_path, "copies")
    assert not counts.is_let_go()
    holder.let_go("counts")
    assert counts.is_let_go()
    assert not copies.is_let_go()
    holder.hold("counts")
    holder.hold("counts")
    assert not counts.is_let_go()


def test_time_passes_for_all_when_the_test_says_so(tmp_path):
    holder = Holder(tmp_path)
    counts, copies = held(tmp_path, "counts"), held(tmp_path, "copies")
    assert counts.clock() == 0
    holder.pass_time(1_500)
    holder.pass_time(0)
    holder.pass_time(500)
    assert counts.clock() == copies.clock() == 2.0


def test_the_first_batch_of_a_query_is_waited_for(tmp_path):
    hold, answers = hold_of(str(tmp_path), "counts", tmp_path / "checkpoint"), []
    asking = threading.Thread(target=lambda: answers.append(hold.is_let_go()))
    asking.start()
    assert answers == []
    Holder(tmp_path).let_go("counts")
    asking.join(60)
    assert answers == [True]


def test_nobody_waits_for_a_test_that_is_over(tmp_path):
    directory = tmp_path / "held"
    directory.mkdir()
    hold, answers = hold_of(str(directory), "counts", tmp_path / "checkpoint"), []
    asking = threading.Thread(target=lambda: answers.append(hold.is_let_go()))
    asking.start()
    shutil.rmtree(directory)
    asking.join(60)
    assert answers == [False]
