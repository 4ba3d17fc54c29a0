"""Callbacks into the interpreter, called in the way of native code."""

import ctypes

import pytest

from sknet.compile.native._run import HostCalls


def called(host, number):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(host.address)(number)


def test_functions_are_called_by_number_in_order():
    host, seen = HostCalls(), []
    assert host.add(lambda: seen.append("a")) == 0
    host.extend(lambda: seen.append("b"))
    assert host.add(lambda: seen.append("c")) == 1
    assert [called(host, 1), called(host, 0)] == [0, 0]
    assert seen == ["c", "a", "b"]
    assert host.count == 2
    host.check(0)


@pytest.mark.parametrize(
    ("error", "repeated", "is_raised"),
    [
        (ValueError, 1, False),
        (ValueError, 0, True),
        (KeyboardInterrupt, 1, True),
        (KeyboardInterrupt, 0, True),
    ],
)
def test_errors_that_numpy_repeats_are_left_to_it(error, repeated, is_raised):
    host, seen = HostCalls(), []

    def fail():
        raise error

    host.add(fail)
    host.extend(lambda: seen.append("after"))
    assert called(host, 0) == 1
    assert seen == []
    if is_raised:
        with pytest.raises(error):
            host.check(repeated)
    host.check(repeated)  # once
