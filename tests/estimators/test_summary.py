"""Summaries show the network as it is: shapes, parameters, loss, optimizer, and the course of the fit."""

import itertools
import math
import pickle
import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import nn, ops
from sknet.estimators import EstimatorSummary
from sknet.optim import SGD
from sknet.optim.schedules import Cosine
from tests.estimators.data import TABLES, quiet

SVG = "{http://www.w3.org/2000/svg}"


class Own(nn.Module):
    def __init__(self, n_outputs):
        self.body = nn.Sequential(nn.LazyLinear(6), nn.GLU())
        self.unused = nn.Linear(2, 2)
        self.head = nn.LazyLinear(n_outputs)
        self.gain = nn.Parameter(np.ones(3))

    def forward(self, x):
        return self.head(self.body(x) * self.gain)


class Convolutional(nn.Module):
    def __init__(self, n_outputs):
        self.conv = nn.LazyConv2d(3, 3)
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, x):
        x = ops.reshape(x, (x.shape[0], 1, 3, 4))
        return self.head(ops.reshape(ops.relu(self.conv(x)), (x.shape[0], -1)))


def fitted(kind, task, **params):
    X, y = TABLES[task]
    with quiet(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the training step is not compiled")
        estimator = kind(**{"max_iter": 4, "random_state": 0, **params})
        return estimator.fit(X) if kind in (sknet.NetTransformer, sknet.Autoencoder) else estimator.fit(X, y)


CASES = [
    (sknet.MLPClassifier, "binary", {"hidden_layer_sizes": (7, 5), "dropout": 0.2}),
    (sknet.MLPClassifier, "multiclass", {"hidden_layer_sizes": (6,), "activation": nn.GLU()}),
    (sknet.MLPRegressor, "multioutput", {"hidden_layer_sizes": ()}),
    (sknet.MLPClassifier, "binary", {"hidden_layer_sizes": (5,), "n_members": 2}),
    (sknet.NetClassifier, "binary", {"module": nn.Sequential(nn.LazyLinear(1)), "n_members": 2}),
    (sknet.MLPRegressor, "multioutput", {"hidden_layer_sizes": (4,), "optimizer": "lbfgs"}),
    (sknet.neural_network.MLPClassifier, "binary", {"hidden_layer_sizes": (5,)}),
    (sknet.NetClassifier, "binary", {"module": Own}),
    (sknet.NetClassifier, "multiclass", {"module": Convolutional, "early_stopping": True}),
    (sknet.Autoencoder, "binary", {"hidden_layer_sizes": (5, 2)}),
]


def output_of(estimator, path, X):
    """Return the output of a layer, by a hook."""
    found, module = [], estimator.model_.module
    hook = module.get_submodule(path).register_forward_hook(lambda layer, given, output: found.append(output))
    estimator.model_(X.astype(estimator.model_.dtype), training=False)
    hook.remove()
    return found[-1]


@pytest.mark.parametrize(("kind", "task", "params"), CASES)
def test_shapes_are_those_of_the_layers_outputs(kind, task, params):
    estimator = fitted(kind, task, **params)
    X = TABLES[task][0]
    rows = estimator.summary().layers
    called = [row for row in rows if row.path and row.output_shape is not None]
    assert called
    for row in called:
        assert output_of(estimator, row.path, X[:3]).shape == (3, *row.output_shape)
    uncalled = {row.path for row in rows if row.path and row.output_shape is None}
    only_in_training = {"noise"} if kind is sknet.Autoencoder else set()
    assert uncalled == ({"unused"} if params.get("module") is Own else only_in_training)


@pytest.mark.parametrize(("kind", "task", "params"), CASES)
def test_parameters_are_counted_once(kind, task, params):
    estimator = fitted(kind, task, **params)
    summary, state = estimator.summary(), estimator.model_.module.state_dict()
    assert summary.total_parameters == sum(array.size for array in state.values())
    assert summary.trained_parameters == summary.total_parameters
    by_path = {row.path: row.parameters for row in summary.layers}
    for path, count in by_path.items():
        own = [array.size for name, array in state.items() if name.rpartition(".")[0] == path]
        assert count == sum(own)


def test_frozen_parameters_are_not_trained():
    estimator = fitted(sknet.NetClassifier, "binary", module=Own, frozen="body.*")
    summary = estimator.summary()
    frozen = sum(row.parameters for row in summary.layers if row.path.startswith("body"))
    assert summary.total_parameters - summary.trained_parameters == frozen > 0
    assert f"of which {summary.trained_parameters} are trained" in str(summary)


def test_text_has_all_values():
    optimizer = SGD(lr=Cosine(0.1, n_steps=100), momentum=0.5)
    estimator = fitted(sknet.MLPClassifier, "binary", optimizer=optimizer, early_stopping=True)
    text = str(estimator.summary())
    assert text == repr(estimator.summary())
    assert text.startswith("MLPClassifier\n---")
    assert f"optimizer: SGD(lr={Cosine(0.1, n_steps=100)!r}, momentum=0.5, nesterov=" in text
    assert "loss: LogLoss(multilabel=False, label_smoothing=0.0)" in text
    assert f"epochs: 4, best {estimator.best_epoch_}" in text
    assert f"validation_loss {estimator.history_['validation_loss'][-1]:.4g}" in text
    assert "computes in: float64 on cpu" in text


@pytest.mark.parametrize(
    ("loss", "named", "targets"),
    [
        ("squared_error", "SquaredError()", "standardized by the training rows"),
        ("poisson", "Poisson()", "divided by their mean"),
    ],
)
@pytest.mark.parametrize("n_members", [1, 2])
def test_units_of_targets_are_told_beside_the_loss(loss, named, targets, n_members):
    X = np.random.default_rng(0).random((30, 2))
    reg = sknet.MLPRegressor((3,), loss=loss, n_members=n_members, max_iter=2, tol=10.0)
    with quiet():
        summary = reg.fit(X, 100 * X[:, 0]).summary()
        plain = reg.set_params(scale_target=False).fit(X, X[:, 0]).summary()
    assert summary.loss.startswith(named[:-1])
    assert summary.facts["targets"] == targets
    assert plain.loss == summary.loss
    assert "targets" not in plain.facts


def test_there_is_no_network_before_the_fit():
    estimator = sknet.MLPClassifier()
    with pytest.raises(NotFittedError, match="MLPClassifier"):
        estimator.summary()
    assert 'class="sknet"' not in estimator._repr_html_()


@pytest.mark.parametrize(("kind", "task", "params"), CASES)
def test_html_is_well_formed_and_shows_what_the_text_shows(kind, task, params):
    estimator = fitted(kind, task, **params)
    page = estimator.summary()._repr_html_()
    tree = ElementTree.fromstring(f"<div>{page}</div>")
    cells = [cell.text for cell in tree.iter("td")]
    assert cells == [cell for row in estimator.summary().table() for cell in row]
    said = dict(zip((x.text for x in tree.iter("dt")), (x.text for x in tree.iter("dd")), strict=True))
    assert said == estimator.summary().lines()
    assert page in estimator._repr_html_()
    assert page in estimator._repr_mimebundle_()["text/html"]
    assert "<script" not in page


def test_markup_in_arguments_is_escaped():
    estimator = fitted(
        sknet.NetClassifier, "binary", module=nn.Sequential(nn.Lambda(lambda x: x), nn.LazyLinear(1))
    )
    page = estimator.summary()._repr_html_()
    assert "lambda" in page
    assert not re.search(r"<(function|lambda)", page)


def test_a_network_that_no_longer_runs_has_a_summary():
    estimator = fitted(sknet.NetClassifier, "binary", module=Own)
    estimator.model_.module.head = nn.Linear(99, 1).initialize(0)
    again = pickle.loads(pickle.dumps(estimator))
    rows = again.summary().layers
    assert {row.output_shape for row in rows} == {None}
    assert next(row for row in rows if row.path == "head").parameters == 100


def test_a_pipeline_shows_its_steps():
    X, y = TABLES["binary"]
    with quiet():
        pipeline = make_pipeline(StandardScaler(), sknet.MLPClassifier((3,), max_iter=2)).fit(X, y)
    assert "MLPClassifier" in pipeline._repr_html_()


def test_a_slim_estimator_has_no_curve():
    estimator = fitted(sknet.MLPClassifier, "binary").slim()
    page = estimator.summary()._repr_html_()
    assert "<svg" not in page
    assert "epochs" not in estimator.summary().facts


# -- the curve -----------------------------------------------------------------------------------------


def drawn(picture):
    """Read the lines of a picture back as epochs and values, by its axes."""
    tree = ElementTree.fromstring(picture)
    texts = [x.text for x in tree.iter("text")]
    (left, top), (right, bottom) = axes(tree.find("path").get("d"))
    high, low, epochs = float(texts[0]), float(texts[1]), int(texts[3].split()[-1])
    lines = []
    for path in tree.iter("path"):
        if path.get("stroke-width"):
            numbers = [
                tuple(map(float, point.split())) for point in re.findall(r"[ML]([\d. ]+)", path.get("d"))
            ]
            lines.append(
                [
                    (
                        1 + (x - left) / (right - left) * (epochs - 1),
                        low + (bottom - y) / (bottom - top) * (high - low),
                    )
                    for x, y in numbers
                ]
            )
    return lines


def curve(history, best_epoch):
    """Return the picture of a summary; nothing if there is none."""
    summary = EstimatorSummary("MLPClassifier", [], "loss", "optimizer", {}, history, best_epoch)
    found = re.search("<svg.*</svg>", summary._repr_html_(), re.DOTALL)
    return "" if found is None else found[0]


def axes(d):
    left, top, bottom, right = map(float, re.fullmatch(r"M(\d+) (\d+)V(\d+)H(\d+)", d).groups())
    return (left, top), (right, bottom)


@pytest.mark.parametrize("epochs", [2, 3, 40])
@pytest.mark.parametrize("has_validation", [False, True])
def test_the_curve_shows_the_losses(epochs, has_validation):
    rng = np.random.default_rng(epochs)
    history = {"loss": (1 + np.round(rng.random(epochs), 2)).tolist()}
    if has_validation:
        history["validation_loss"] = (1 + np.round(rng.random(epochs), 2)).tolist()
    lines = drawn(curve(history, best_epoch=2))
    assert len(lines) == len(history)
    for line, column in zip(lines, history.values(), strict=True):
        np.testing.assert_allclose([x for x, _ in line], np.arange(1, epochs + 1), atol=0.1)
        np.testing.assert_allclose([y for _, y in line], column, atol=0.02)


def test_numbers_that_are_not_finite_leave_gaps():
    picture = curve({"loss": [4.0, math.nan, 2.0, 1.0, math.inf]}, None)
    assert [len(line) for line in drawn(picture)] == [3]
    assert "nan" not in picture
    assert "inf" not in picture
    path = next(path for path in ElementTree.fromstring(picture).iter("path") if path.get("stroke-width"))
    assert [command for command in path.get("d") if command in "ML"] == ["M", "M", "L"]


@pytest.mark.parametrize("history", [{}, {"loss": [1.0]}, {"loss": [math.nan] * 3}, {"lr": [1.0, 2.0]}])
def test_a_curve_needs_two_epochs(history):
    assert curve(history, None) == ""


def test_a_constant_loss_is_drawn():
    (line,) = drawn(curve({"loss": [1.0, 1.0, 1.0]}, None))
    assert len(line) == 3


def test_the_best_epoch_is_marked():
    picture = curve({"loss": [3.0, 2.0, 1.0]}, 2)
    assert "best epoch 2" in picture
    assert "best epoch" not in curve({"loss": [3.0, 2.0, 1.0]}, None)


def test_colours_follow_the_page():
    """Everything but the two lines takes the colour of the text."""
    picture = curve({"loss": [3.0, 2.0], "validation_loss": [3.0, 2.5]}, 1)
    named = set(re.findall(r"#[0-9a-f]{6}", picture))
    assert len(named) == 2
    for first, second in itertools.product(named, ["ffffff", "111111"]):
        assert contrast(first[1:], second) > 2.5


def contrast(one, other):
    """Return the ratio of luminances, as the guidelines for accessible pages define it."""

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
