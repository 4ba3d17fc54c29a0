"""Grad modes: nesting, decorators, threads."""

import threading

import pytest

from sknet import Tensor, enable_grad, grad, inference_mode, no_grad, set_grad_enabled
from sknet.core import capturing, is_capturing, is_grad_enabled
from sknet.exceptions import GradientError


def test_nesting():
    assert is_grad_enabled()
    with no_grad():
        assert not is_grad_enabled()
        with enable_grad():
            assert is_grad_enabled()
            with no_grad():
                assert not is_grad_enabled()
            assert is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_one_object_entered_twice():
    mode = no_grad()
    with mode:
        with enable_grad(), mode:
            assert not is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_exited_by_an_exception():
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert is_grad_enabled()


def test_decorators():
    @no_grad()
    def inside(x, *, factor):
        """Multiply."""
        return x * factor

    x = Tensor(2.0, requires_grad=True)
    assert not inside(x, factor=3.0).requires_grad
    assert (inside.__name__, inside.__doc__) == ("inside", "Multiply.")
    assert is_grad_enabled()

    @enable_grad()
    def outside(x):
        return inside(x, factor=1.0), x * 2

    with no_grad():
        first, second = outside(x)
    assert (first.requires_grad, second.requires_grad) == (False, True)


def test_a_decorated_function_calls_itself():
    @no_grad()
    def down(n):
        return is_grad_enabled() if n == 0 else down(n - 1)

    assert down(5) is False
    assert is_grad_enabled()


def test_other_threads_are_unaffected():
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_overlapping_calls_in_threads():
    """The first call enters first and exits first: each has to restore its own thread's mode."""
    inside, leave, after = threading.Event(), threading.Event(), {}

    @no_grad()
    def first():
        inside.set()
        leave.wait(5)

    @no_grad()
    def second():
        inside.wait(5)

    def run_first():
        first()
        after["first"] = is_grad_enabled()

    def run_second():
        with no_grad():
            inside.wait(5)
            second()
            leave.set()
            threads[0].join(5)
            after["second"] = is_grad_enabled()

    threads = [threading.Thread(target=run_first), threading.Thread(target=run_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert after == {"first": True, "second": False}


def test_capturing():
    assert not is_capturing()
    with no_grad(), capturing():
        assert is_capturing()
        assert is_grad_enabled()  # as by default
    assert not is_capturing()
    assert is_grad_enabled()


class TestSetGradEnabled:
    def test_as_a_context(self):
        for mode in (True, False):
            with set_grad_enabled(mode):
                assert is_grad_enabled() is mode
            assert is_grad_enabled()

    def test_until_changed(self):
        set_grad_enabled(False)
        try:
            assert not is_grad_enabled()
        finally:
            set_grad_enabled(True)
        assert is_grad_enabled()

    def test_as_a_decorator(self):
        @set_grad_enabled(False)
        def inside():
            return is_grad_enabled()

        assert is_grad_enabled()
        assert not inside()
        assert not inside()
        assert is_grad_enabled()

    def test_one_object_entered_twice(self):
        mode = set_grad_enabled(False)
        for _ in range(2):
            with mode:
                assert not is_grad_enabled()
            assert is_grad_enabled()


class TestInferenceMode:
    def test_records_nothing(self):
        x = Tensor(2.0, requires_grad=True)
        with inference_mode():
            y = x * 2
            with no_grad():
                pass
        assert not y.requires_grad
        assert (x * y).requires_grad  # results can be used anywhere

    @pytest.mark.parametrize("ask", [lambda: enable_grad().__enter__(), lambda: set_grad_enabled(True)])
    def test_recording_cannot_be_enabled(self, ask):
        message = "gradients are computed inside inference_mode, where nothing is recorded: use no_grad"
        with inference_mode(), pytest.raises(GradientError, match=message):
            ask()
        assert is_grad_enabled()

    def test_nor_by_a_transformation(self):
        with inference_mode(), pytest.raises(GradientError, match="inside inference_mode"):
            grad(lambda x: x * x)(Tensor(2.0))

    def test_as_a_decorator(self):
        @inference_mode()
        def inside(x):
            return x * 2

        assert not inside(Tensor(2.0, requires_grad=True)).requires_grad
        assert is_grad_enabled()

    def test_a_capture_inside_computes_gradients(self):
        with inference_mode(), capturing(), enable_grad():
            assert is_grad_enabled()
