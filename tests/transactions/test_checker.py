"""The checker finds each thing that a broker can do wrong, and nothing in a history that is in order."""

import pytest

from tests.transactions.checker import check, check_so_far
from tests.transactions.history import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Aborted,
    Aborting,
    Acknowledged,
    Begin,
    Committed,
    Committing,
    FinalRead,
    GroupOffset,
    History,
    Initialised,
    Place,
    Poll,
    Position,
    Recorder,
    Seen,
    Send,
    SendOffsets,
    Trouble,
    from_line,
    to_line,
)


class Story:
    """A history told line by line; its clock goes on by one with each."""

    def __init__(self):
        self.events = []
        self.log = []  # (value, place) as the final read shall find them, without a word to the contrary
        self.committed = []

    def note(self, kind, *facts, client="writer", incarnation=1):
        self.events.append(kind(client, incarnation, len(self.events) + 1, *facts))

    def begin(self, name, *values, partition=0, client="writer", acknowledged=True):
        """Begin a transaction and send these values, which get the next offsets."""
        self.note(Begin, name, client=client)
        self.send(name, *values, partition=partition, client=client, acknowledged=acknowledged)

    def send(self, name, *values, partition=0, client="writer", acknowledged=True, origin=None, topic="t"):
        for value in values:
            self.note(Send, name, value, topic, partition, origin, client=client)
            offset = sum(seen.place[:2] == (topic, partition) for seen in self.log)
            place = Place(topic, partition, offset)
            self.log.append(Seen(place, value))
            if acknowledged:
                self.note(Acknowledged, value, place, client=client)

    def end(self, name, *kinds, client="writer"):
        for kind in kinds:
            self.note(kind, name, client=client)
        if Committed in kinds:
            self.show(name)

    def show(self, name):
        """The final read has this transaction."""
        values = {event.value for event in self.events if isinstance(event, Send) and event.transaction == name}
        self.committed += [seen for seen in self.log if seen.value in values]

    def poll(self, *numbers, isolation=READ_COMMITTED, client="reader"):
        """Get the records at these places of the log, as one poll."""
        self.note(Poll, isolation, tuple(self.log[number] for number in numbers), client=client)

    def position(self, offset, partition=0, client="reader"):
        self.note(Position, Place("t", partition, offset), client=client)

    def kinds(self):
        """The violations, after a final read of what was told."""
        return {violation.kind for violation in self.violations()}

    def violations(self):
        story = list(self.events)
        for isolation, records in ((READ_COMMITTED, self.committed), (READ_UNCOMMITTED, self.log)):
            for topic, partition in sorted({seen.place[:2] for seen in self.log}):
                found = tuple(sorted(seen for seen in records if seen.place[:2] == (topic, partition)))
                end = len(self.log)
                facts = (isolation, topic, partition, found, end, end)
                story.append(FinalRead("final", 1, 1000, *facts))
        return check(History(story))


@pytest.fixture
def story():
    return Story()


def test_a_committed_transaction_that_is_read_whole_is_in_order(story):
    story.position(0)
    story.begin("x", "a", "b")
    story.end("x", Committing, Committed)
    story.poll(0, 1)
    assert story.violations() == []


def test_an_aborted_transaction_that_nobody_reads_is_in_order(story):
    story.begin("x", "a", "b")
    story.end("x", Aborting, Aborted)
    assert story.violations() == []


def test_a_reader_of_everything_may_see_what_is_aborted(story):
    story.position(0)
    story.begin("x", "a")
    story.poll(0, isolation=READ_UNCOMMITTED)
    story.end("x", Aborting, Aborted)
    assert story.violations() == []


def test_a_poll_that_has_an_aborted_record_is_found(story):
    story.position(0)
    story.begin("x", "a")
    story.end("x", Aborting, Aborted)
    story.poll(0)
    assert "aborted read" in story.kinds()


def test_a_final_read_that_has_an_aborted_record_is_found(story):
    story.begin("x", "a")
    story.end("x", Aborting, Aborted)
    story.show("x")
    assert story.kinds() == {"aborted read"}


def test_a_record_of_a_transaction_that_nobody_committed_is_found_and_named(story):
    story.begin("x", "a")
    story.show("x")
    assert [str(violation) for violation in story.violations()] == [
        "aborted read: the final read got a at t/0@0, of transaction x of writer#1, which was never asked to commit"
    ]


def test_a_read_before_the_commit_began_is_found(story):
    story.position(0)
    story.begin("x", "a")
    story.poll(0)
    story.end("x", Committing, Committed)
    assert story.kinds() == {"precommitted read"}


def test_a_read_while_the_commit_is_under_way_is_in_order(story):
    story.position(0)
    story.begin("x", "a")
    story.end("x", Committing)
    story.poll(0)
    story.end("x", Committed)
    assert story.violations() == []


def test_a_committed_record_that_the_final_read_lacks_is_found(story):
    story.begin("x", "a", "b")
    story.end("x", Committing, Committed)
    del story.committed[1]
    assert story.kinds() == {"lost write"}


def test_an_acknowledged_record_that_no_log_has_is_found_even_if_it_was_aborted(story):
    story.begin("x", "a", "b")
    story.end("x", Aborting, Aborted)
    del story.log[1]
    assert story.kinds() == {"lost write"}


def test_a_record_that_was_not_acknowledged_and_not_committed_may_be_gone(story):
    story.begin("x", "a", acknowledged=False)
    story.end("x", Aborting, Aborted)
    story.log.clear()
    assert story.violations() == []


def test_a_record_that_was_read_and_is_gone_is_found(story):
    story.position(0)
    story.begin("x", "a", acknowledged=False)
    story.end("x", Committing)
    story.poll(0)
    assert story.kinds() == {"lost write"}


@pytest.mark.parametrize("shown", [True, False])
def test_an_unknown_transaction_may_be_there_or_not(story, shown):
    story.begin("x", "a", "b")
    story.end("x", Committing)
    if shown:
        story.show("x")
    assert story.violations() == []


def test_an_unknown_transaction_that_is_there_in_part_is_found(story):
    story.begin("x", "a", "b")
    story.send("x", "c", partition=1)
    story.end("x", Committing)
    story.show("x")
    del story.committed[2]
    assert story.kinds() == {"torn transaction"}


def test_a_final_read_that_is_held_back_is_found(story):
    read = FinalRead("final", 1, 5, READ_COMMITTED, "t", 0, (), 7, 3)
    assert {violation.kind for violation in check(History([read]))} == {"hanging transaction"}


def test_a_zombie_that_writes_is_found(story):
    story.note(Begin, "x")
    story.note(Initialised, incarnation=2)
    story.send("x", "a")
    assert [str(violation) for violation in story.violations()] == [
        "zombie: writer#1 wrote a at t/0@0 after writer#2 had begun"
    ]


def test_a_zombie_that_commits_is_found(story):
    story.begin("x", "a")
    story.note(Initialised, incarnation=2)
    story.end("x", Committing, Committed)
    assert [str(violation) for violation in story.violations()] == [
        "zombie: transaction x of writer#1 was committed after writer#2 had begun"
    ]


def test_what_was_under_way_when_the_successor_began_is_in_order(story):
    story.note(Begin, "x")
    story.note(Send, "x", "a", "t", 0, None)
    story.note(Committing, "x")
    story.note(Initialised, incarnation=2)
    story.note(Acknowledged, "a", Place("t", 0, 0))
    story.note(Committed, "x")
    story.log.append(Seen(Place("t", 0, 0), "a"))
    story.show("x")
    assert story.violations() == []


def test_a_client_of_another_name_makes_nobody_a_zombie(story):
    story.note(Initialised, client="other", incarnation=2)
    story.begin("x", "a")
    story.end("x", Committing, Committed)
    assert story.violations() == []


def test_a_value_at_two_places_is_found(story):
    story.begin("x", "a")
    story.end("x", Committing, Committed)
    story.log.append(Seen(Place("t", 0, 1), "a"))
    story.committed.append(story.log[-1])
    assert story.kinds() == {"duplicate"}


def test_a_value_that_is_elsewhere_than_it_was_acknowledged_is_found(story):
    story.begin("x", "a")
    story.end("x", Committing, Committed)
    story.log[0] = story.committed[0] = Seen(Place("t", 0, 5), "a")
    assert story.kinds() == {"duplicate"}


def test_two_values_at_one_place_are_found(story):
    story.begin("x", "a", "b")
    story.end("x", Committing, Committed)
    story.events = [event for event in story.events if not isinstance(event, Acknowledged)]
    story.log[1] = story.committed[1] = Seen(Place("t", 0, 0), "b")
    assert story.kinds() == {"inconsistent offsets"}


def test_a_value_in_a_partition_to_which_it_was_not_sent_is_found(story):
    story.begin("x", "a", acknowledged=False)
    story.end("x", Committing, Committed)
    story.log[0] = story.committed[0] = Seen(Place("t", 3, 0), "a")
    assert story.kinds() == {"wrong partition"}


def test_a_value_that_nobody_sent_is_found(story):
    story.log.append(Seen(Place("t", 0, 0), "ghost"))
    assert story.kinds() == {"unknown value"}


def test_records_that_stand_in_another_order_than_they_were_sent_in_are_found(story):
    story.begin("x", "a", "b", acknowledged=False)
    story.end("x", Committing, Committed)
    story.log[:] = [Seen(Place("t", 0, 0), "b"), Seen(Place("t", 0, 1), "a")]
    story.committed[:] = story.log
    assert story.kinds() == {"non-monotonic send"}


def test_acknowledgements_in_another_order_than_that_of_the_sends_are_found(story):
    story.note(Begin, "x")
    for value, offset in (("a", 1), ("b", 0)):
        story.note(Send, "x", value, "t", 0)
        story.note(Acknowledged, value, Place("t", 0, offset))
        story.log.append(Seen(Place("t", 0, offset), value))
    story.end("x", Committing, Committed)
    assert story.kinds() == {"non-monotonic send"}


def test_two_producers_may_interleave(story):
    story.begin("x", "a")
    story.begin("y", "b", client="other")
    story.send("x", "c")
    story.end("y", Committing, Committed, client="other")
    story.end("x", Committing, Committed)
    assert story.violations() == []


def test_a_reader_that_goes_back_is_found(story):
    story.position(0)
    story.begin("x", "a", "b")
    story.end("x", Committing, Committed)
    story.poll(0, 1)
    story.poll(1)
    assert story.kinds() == {"non-monotonic poll"}


def test_a_reader_that_is_told_to_go_back_is_in_order(story):
    story.position(0)
    story.begin("x", "a", "b")
    story.end("x", Committing, Committed)
    story.poll(0, 1)
    story.position(1)
    story.poll(1)
    assert story.violations() == []


def test_a_reader_that_goes_back_inside_one_poll_is_found(story):
    story.position(0)
    story.begin("x", "a", "b")
    story.end("x", Committing, Committed)
    story.poll(1, 0)
    assert "non-monotonic poll" in story.kinds()


def test_a_reader_that_misses_a_record_between_two_polls_is_found(story):
    story.position(0)
    for name in "abc":
        story.begin(f"x{name}", name)
        story.end(f"x{name}", Committing, Committed)
    story.poll(0)
    story.poll(2)
    assert story.kinds() == {"skipped poll"}


def test_a_reader_that_misses_the_record_at_its_position_is_found(story):
    story.position(0)
    for name in "ab":
        story.begin(f"x{name}", name)
        story.end(f"x{name}", Committing, Committed)
    story.poll(1)
    assert story.kinds() == {"skipped poll"}


def test_a_reader_that_misses_a_record_and_gets_a_later_one_of_the_same_transaction_has_a_torn_read(story):
    story.position(0)
    story.begin("x", "a", "b", "c")
    story.end("x", Committing, Committed)
    story.poll(0, 2)
    assert story.kinds() == {"torn read"}


def test_a_reader_of_committed_records_may_pass_over_aborted_ones(story):
    story.position(0)
    story.begin("x", "a")
    story.end("x", Aborting, Aborted)
    story.begin("y", "b")
    story.end("y", Committing, Committed)
    story.poll(1)
    assert story.violations() == []


def test_a_reader_of_everything_may_not_pass_over_aborted_records(story):
    story.position(0)
    story.begin("x", "a")
    story.end("x", Aborting, Aborted)
    story.begin("y", "b")
    story.end("y", Committing, Committed)
    story.poll(1, isolation=READ_UNCOMMITTED)
    assert story.kinds() == {"skipped poll"}


# --- loops that read, change and write


def loop(story, number, *, end=(Committing, Committed), group_end=None):
    """One turn: the input at this offset of `t` becomes an output, and the group's offset goes on by one."""
    name = f"loop{number}"
    story.note(Begin, name, client="loop")
    origin = Place("t", 0, number)
    story.send(name, f"out{number}", topic="o", client="loop", origin=origin)
    story.note(SendOffsets, name, "g", Place("t", 0, number + 1), client="loop")
    story.end(name, *end, client="loop")


def inputs(story):
    story.begin("in", "a", "b")
    story.end("in", Committing, Committed)


def group_offset(story, offset, *, final=True, asked=None):
    asked = len(story.events) if asked is None else asked
    story.note(GroupOffset, "g", "t", 0, offset, asked, final, client="watcher")


def test_a_loop_whose_offsets_and_outputs_go_together_is_in_order(story):
    inputs(story)
    loop(story, 0)
    loop(story, 1)
    group_offset(story, 2)
    assert story.violations() == []


def test_an_offset_of_an_aborted_transaction_is_found(story):
    inputs(story)
    loop(story, 0)
    loop(story, 1, end=(Aborting, Aborted))
    group_offset(story, 2, final=False)
    assert story.kinds() == {"uncommitted offset"}


def test_an_offset_that_was_there_before_its_commit_began_is_found(story):
    inputs(story)
    story.note(Begin, "x", client="loop")
    story.note(SendOffsets, "x", "g", Place("t", 0, 1), client="loop")
    group_offset(story, 1, final=False)
    story.end("x", Committing, Committed, client="loop")
    assert story.kinds() == {"uncommitted offset"}


def test_an_offset_that_nobody_committed_is_found(story):
    inputs(story)
    group_offset(story, 1, final=False)
    assert story.kinds() == {"uncommitted offset"}


def test_an_offset_that_goes_back_is_found(story):
    inputs(story)
    loop(story, 0)
    loop(story, 1)
    group_offset(story, 2, final=False)
    group_offset(story, 1, final=False)
    assert story.kinds() == {"offset went back"}


def test_an_older_offset_in_an_answer_that_was_under_way_is_in_order(story):
    inputs(story)
    loop(story, 0)
    loop(story, 1)
    group_offset(story, 2, final=False)
    group_offset(story, 1, final=False, asked=1)
    assert story.violations() == []


def test_an_input_with_two_outputs_is_found(story):
    inputs(story)
    loop(story, 0)
    story.note(Begin, "again", client="loop")
    story.send("again", "again0", topic="o", client="loop", origin=Place("t", 0, 0))
    story.end("again", Committing, Committed, client="loop")
    group_offset(story, 1)
    assert story.kinds() == {"processed twice"}


def test_an_offset_that_is_past_an_input_without_output_is_found(story):
    inputs(story)
    loop(story, 0)
    story.note(Begin, "x", client="loop")
    story.note(SendOffsets, "x", "g", Place("t", 0, 2), client="loop")
    story.end("x", Committing, Committed, client="loop")
    group_offset(story, 2)
    assert story.kinds() == {"lost output"}


def test_an_output_whose_offset_was_not_committed_is_found(story):
    inputs(story)
    loop(story, 0)
    loop(story, 1)
    group_offset(story, 1)
    assert story.kinds() == {"output without its offset"}


# --- before the final read


def test_so_far_nothing_is_missing(story):
    story.position(0)
    story.begin("x", "a", "b")
    story.end("x", Committing, Committed)
    story.poll(0)
    assert check_so_far(History(story.events)) == []


def test_so_far_an_aborted_read_is_found(story):
    story.position(0)
    story.begin("x", "a")
    story.end("x", Aborting, Aborted)
    story.poll(0)
    assert [violation.kind for violation in check_so_far(History(story.events))] == ["aborted read"]


# --- files


def test_a_history_comes_back_from_its_lines():
    events = [
        Send("a", 1, 2, "x", "v", "t", 0, Place("t", 1, 2)),
        Poll("a", 1, 3, READ_COMMITTED, (Seen(Place("t", 0, 1), "v"),)),
        GroupOffset("a", 1, 4, "g", "t", 0, None, 3, True),
        Trouble("a", 1, 5, 'said "no"\n'),
    ]
    assert [from_line(to_line(event)) for event in events] == events


def test_a_line_that_its_client_did_not_finish_is_passed_over(tmp_path):
    path = tmp_path / "history"
    recorder = Recorder(path, "a", 1)
    recorder.note(Begin, "x")
    recorder.close()
    with path.open("a") as file:
        file.write('["begin", "a", 1')
    assert [event.transaction for event in History.read([path]).of(Begin)] == ["x"]
