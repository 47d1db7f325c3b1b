"""What is kept is computed once for an object, by whoever asks first; other objects do not wait for it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from saddlery import kept as module
from saddlery.kept import kept


class Slow:
    def __init__(self, begun, go_on):
        self.begun, self.go_on, self.times = begun, go_on, 0

    @kept
    def value(self):
        self.times += 1
        self.begun.set()
        assert self.go_on.wait(60)
        return object()

    @kept
    def of_value(self):
        return [self.value]


def test_threads_that_ask_the_same_object_share_the_answer():
    slow = Slow(threading.Event(), threading.Event())
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(lambda: slow.of_value), pool.submit(lambda: slow.value)]
        assert slow.begun.wait(60)
        slow.go_on.set()
        first, second = (future.result() for future in asked)
    assert first == [second] == [slow.value]
    assert slow.times == 1
    assert not module._locks


def test_objects_do_not_wait_for_each_other():
    """With functools.cached_property of Python 3.11 the second would wait for the first for ever."""
    one, two = Slow(threading.Event(), threading.Event()), Slow(threading.Event(), threading.Event())
    two.go_on.set()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: one.value)
        assert one.begun.wait(60)
        assert pool.submit(lambda: two.value).result(60) is two.value
        one.go_on.set()
        assert first.result() is one.value


def test_what_failed_is_asked_again():
    slow = Slow(threading.Event(), None)
    for _ in range(2):
        with pytest.raises(AttributeError):
            slow.value  # noqa: B018
    assert slow.times == 2
    assert not module._locks


def test_what_was_forgotten_is_computed_again():
    slow = Slow(threading.Event(), threading.Event())
    slow.go_on.set()
    first = slow.value
    del slow.value
    assert slow.value is not first
    assert slow.times == 2


def test_the_class_has_the_descriptor():
    assert isinstance(Slow.value, kept)
