"""What Python holds of Java goes when nobody needs it."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from runnel.pipeline import proxies


class Proxy:
    """As Py4J's: it holds its methods, and they hold it."""

    def __init__(self) -> None:
        self.method = [self]


@pytest.fixture(autouse=True)
def only_when_told() -> Iterator[None]:
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def test_a_proxy_that_nobody_needs_is_let_go() -> None:
    proxies.look_no_more_at_what_is_there()
    proxy = Proxy()
    gone = weakref.ref(proxy)
    gc.collect(1)  # it is of some age
    del proxy
    assert gone() is not None
    proxies.let_go()
    assert gone() is None


def test_what_was_there_before_is_not_looked_at_again() -> None:
    there = Proxy()
    proxies.look_no_more_at_what_is_there()
    assert gc.get_freeze_count() > 0
    assert not any(each is there for each in gc.get_objects())
    new = [Proxy()]
    proxies.let_go()
    assert any(each is new for each in gc.get_objects())
