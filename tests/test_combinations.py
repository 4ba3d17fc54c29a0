"""Tests of many cases report each that fails, with its name."""

import inspect

import pytest

from tests.combinations import every


def test_all_failures_are_raised_together():
    tried = []

    @every(x=[1, 2, 3], y=lambda case: (case, 10))
    def check(case, x, y):
        tried.append((x, y))
        if x == 3:
            pytest.fail("it is three")
        assert x < y

    assert list(inspect.signature(check).parameters) == ["case"]
    with pytest.raises(BaseExceptionGroup) as raised:
        check(case=2)
    assert tried == [(1, 2), (1, 10), (2, 2), (2, 10), (3, 2), (3, 10)]
    assert [error.__notes__ for error in raised.value.exceptions] == [
        ["with x=2, y=2"],
        ["with x=3, y=2"],
        ["with x=3, y=10"],
    ]


def test_a_single_failure_is_raised_itself():
    @every(x=[1, 2])
    def check(x):
        assert x != 2

    with pytest.raises(AssertionError) as raised:
        check()
    assert raised.value.__notes__ == ["with x=2"]
