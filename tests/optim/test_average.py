"""EMA and SWA train like the wrapped optimizer, and predict with the average."""

import numpy as np
import pytest

from sknet.optim import EMA, SGD, SWA, Adam
from sknet.optim.schedules import Progress
from tests.optim.helpers import follow, gradient_series

GRADIENTS, START = gradient_series(100, (4, 3)), np.ones((4, 3))


def averages(optimizer, progress=lambda step: Progress(step, total_steps=100)):
    params, state, found = START, optimizer.init(START), []
    for step, gradient in enumerate(GRADIENTS):
        delta, state = optimizer.update(gradient, state, params, progress(step))
        params = params + delta
        found.append(optimizer.averaged(params, state))
    return np.array(found), params


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999])
def test_ema_by_its_definition(decay):
    found, params = averages(EMA(Adam(0.1), decay))
    path = follow(Adam(0.1), GRADIENTS, START)
    np.testing.assert_array_equal(params, path[-1])
    for t in (1, 2, 3, 50, 100):
        weights = decay ** np.arange(t - 1, -1, -1.0)
        expected = np.average(path[:t], axis=0, weights=weights)
        np.testing.assert_allclose(found[t - 1], expected, rtol=1e-9)


@pytest.mark.parametrize("optimizer", [EMA(SGD(0.1), 0.9), SWA(SGD(0.1), 0)], ids=["ema", "swa"])
def test_hundred_averages_equal_pytorchs(optimizer):
    torch = pytest.importorskip("torch")
    is_ema = isinstance(optimizer, EMA)
    param = torch.nn.Linear(3, 4, bias=False, dtype=torch.float64)
    param.weight.data = torch.tensor(START)

    def corrected(average, value, n_before):
        part = 0.1 / (1 - 0.9 ** (n_before.item() + 1))
        return (1 - part) * average + part * value

    theirs = torch.optim.swa_utils.AveragedModel(param, avg_fn=corrected if is_ema else None)
    steps, expected = torch.optim.SGD(param.parameters(), lr=0.1), []
    for gradient in GRADIENTS:
        param.weight.grad = torch.tensor(gradient)
        steps.step()
        theirs.update_parameters(param)
        expected.append(theirs.module.weight.detach().numpy().copy())
    np.testing.assert_allclose(averages(optimizer)[0], expected, rtol=1e-9)


@pytest.mark.parametrize(("start", "every"), [(10, 1), (10, 7), (0.25, 1), (0.25, 10), (0, 3), (1.0, 1)])
def test_swa_by_its_definition(start, every):
    found, params = averages(SWA(Adam(0.1), start, every))
    path = follow(Adam(0.1), GRADIENTS, START)
    np.testing.assert_array_equal(params, path[-1])
    first = start if isinstance(start, int) else int(start * 100)
    for t in (1, 9, 10, 11, 12, 26, 27, 60, 100):
        taken = path[first:t:every]
        np.testing.assert_allclose(found[t - 1], taken.mean(axis=0) if len(taken) else path[t - 1], rtol=1e-9)


def test_before_the_first_update_the_parameters_predict():
    for optimizer in (EMA(SGD()), SWA(SGD(), start=3)):
        np.testing.assert_array_equal(optimizer.averaged(START, optimizer.init(START)), START)


def test_most_optimizers_predict_with_what_they_train():
    optimizer = Adam()
    assert optimizer.averaged({"a": START}, optimizer.init({"a": START}))["a"] is START


def test_a_part_of_an_unknown_length():
    message = r"SWA\(start=0\.75\) starts after a fraction of the fit, .* Give start as an int"
    with pytest.raises(ValueError, match=message):
        SWA(SGD()).hyper(1, Progress())
