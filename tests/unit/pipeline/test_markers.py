"""The marker of a batch, as it is written and read again."""

from runnel.pipeline.markers import Marker


def test_a_marker_comes_back_as_it_was_written():
    for output in ("long_stays", ""):
        marker = Marker("long_stays", 7, "7c3e", {"clicks": {"0": 40}}, output)
        assert Marker.from_bytes("long_stays", marker.to_bytes()) == marker


def test_a_marker_of_before_that_told_its_topic_can_be_read():
    kept = b'{"batch":7,"checkpoint":"7c3e","positions":{"clicks":{"0":40}}}'
    assert Marker.from_bytes("long_stays", kept) == Marker("long_stays", 7, "7c3e", {"clicks": {"0": 40}})
    assert Marker("long_stays", 7, "7c3e", {"clicks": {"0": 40}}).to_bytes() == kept
