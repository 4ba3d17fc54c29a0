"""The learning rate range test, compared with steps by hand."""

import sys

import numpy as np
import pytest

from sknet import MLPRegressor
from sknet.callbacks import LearningRateFinder
from sknet.optim import SGD, Adam, ClipNorm, Groups
from sknet.optim.schedules import WarmUp
from tests.callbacks.helpers import RNG, X, Y, classifier, fitted, unconverged

TARGET = X @ np.array([1.0, -2.0, 0.5], "float32")


def found(finder=None, **params):
    return fitted(finder or LearningRateFinder(), **params).callbacks_[0]


def test_rates_grow_by_a_factor():
    finder = found(LearningRateFinder(1e-5, 1e-2, n_steps=31))
    np.testing.assert_allclose(finder.rates_, np.geomspace(1e-5, 1e-2, 31))
    assert finder.losses_.shape == (31,)


def test_losses_are_those_of_steps_with_these_rates():
    """A line fitted by gradient descent with one batch: each step by hand."""
    x = RNG.normal(size=(20, 1))
    y = 3 * x[:, 0]
    raw = {"scale_inputs": False, "scale_target": False}
    net = MLPRegressor((), optimizer=SGD(momentum=0.0), alpha=0.0, random_state=0, dtype="float64", **raw)
    finder = LearningRateFinder(1e-3, 1e-1, n_steps=10, stop=True)
    with unconverged():
        net.set_params(callbacks=[finder]).fit(x, y)
    finder = net.callbacks_[0]
    weight, bias = net.coefs_[0].item(), net.intercepts_[0].item()
    for rate, loss in zip(finder.rates_, finder.losses_, strict=True):
        error = weight * x[:, 0] + bias - y
        assert loss == pytest.approx((error**2).mean() / 2)
        weight -= rate * (error * x[:, 0]).mean()
        bias -= rate * error.mean()


@pytest.mark.parametrize(
    "optimizer",
    [
        "adam",
        SGD(0.01),
        Adam(WarmUp(0.01, n_steps=3)),
        ClipNorm(Adam(0.1)),
        Groups({"*.bias": SGD(0.1), "*": Adam()}),
    ],
)
def test_every_rate_of_an_optimizer_is_tried(optimizer):
    finder = found(optimizer=optimizer)
    assert len(finder.rates_) > 10
    assert np.isnan(finder.suggestion_) or 1e-7 <= finder.suggestion_ <= 0.1


def test_the_suggestion_is_below_what_diverges():
    finder = found(LearningRateFinder(1e-4, 1e4), optimizer="sgd")
    assert finder.rates_[-1] < 1e4  # it has ended early
    assert finder.suggestion_ < finder.rates_[-1] / 10
    taught = fitted(optimizer=SGD(finder.suggestion_), max_iter=30)
    assert taught.score(X, Y) > 0.8


def test_a_fit_can_end_there():
    clf = fitted(LearningRateFinder(stop=True))
    assert clf.n_iter_ == 0
    assert clf.predict(X).shape == Y.shape
    assert clf.history_.n_epochs == 0


def test_invalid_ranges():
    with pytest.raises(ValueError, match=r"got min_lr=0\.1 and max_lr=0\.01: min_lr must be smaller"):
        found(LearningRateFinder(0.1, 0.01))


def test_an_optimizer_without_a_rate():
    with pytest.raises(ValueError, match="needs an optimizer with a learning rate, got LBFGS"):
        found(optimizer="lbfgs")


def test_the_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    finder = found(LearningRateFinder(max_lr=10.0))
    axes = pyplot.figure().subplots()
    assert finder.plot(axes) is axes
    assert axes.get_xscale() == "log"
    line = axes.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), finder.rates_)
    np.testing.assert_array_equal(line.get_ydata(), finder.losses_)
    assert f"{finder.suggestion_:.2g}" in axes.get_legend().get_texts()[-1].get_text()
    assert finder.plot() is not axes
    pyplot.close("all")


def test_plotting_before_a_fit_raises(monkeypatch):
    with pytest.raises(
        AttributeError, match="not run: fit the estimator, and plot the one in its callbacks_"
    ):
        LearningRateFinder().plot()
    finder = found()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        ImportError,
        match=r'\.plot needs matplotlib, which is not installed: pip install "scikit-neural\[plot\]"',
    ):
        finder.plot()


def test_a_continued_fit_is_tested_where_it_is():
    clf = classifier(LearningRateFinder(1e-6, 1e-5, n_steps=5), warm_start=True)
    with unconverged():
        first = clf.fit(X, Y).callbacks_[0].losses_.mean()
        for _ in range(5):
            clf.fit(X, Y)
    assert clf.callbacks_[0].losses_.mean() < first
