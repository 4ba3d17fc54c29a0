"""Forked processes, in which CUDA cannot be used."""

import multiprocessing

import numpy as np
import pytest

from sknet import MLPClassifier
from sknet.exceptions import DeviceError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning", "ignore:Stochastic Optimizer"),
]

RNG = np.random.default_rng(0)
X, y = RNG.standard_normal((20, 3)), RNG.integers(0, 2, 20)


def told(work, sent):
    """Send the error of some work to the process that waits."""
    try:
        work()
        sent.send("no error")
    except DeviceError as error:
        sent.send(str(error))


@pytest.mark.parametrize("verb", ["predict", "fit", "partial_fit"])
def test_a_forked_process_is_told_what_to_do(verb):
    fitted = MLPClassifier((4,), max_iter=2, device="cuda").fit(X, y)
    arguments = (X,) if verb == "predict" else (X, y)
    received, sent = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=told, args=(lambda: getattr(fitted, verb)(*arguments), sent))
    process.start()
    assert received.poll(60)
    assert "forked from one that has used CUDA" in received.recv()
    process.join(60)
    assert process.exitcode == 0
    fitted.predict(X)  # here it goes on
