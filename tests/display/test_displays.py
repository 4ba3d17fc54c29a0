"""Displays draw what they are given: the artists hold the data of the fit."""

import io
import itertools
import math
import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import MLPClassifier, MLPRegressor, NetClassifier, nn, ops
from sknet.callbacks import GradientMonitor, LearningRateFinder
from sknet.compile import capture
from sknet.display import (
    AttributionDisplay,
    GradientDisplay,
    GraphDisplay,
    IntervalDisplay,
    LearningRateDisplay,
    LossCurveDisplay,
    WeightsDisplay,
)
from sknet.losses import Quantile
from sknet.optim import Adam
from sknet.optim.schedules import Cosine, Exponential, WarmUp

X, Y = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def axes():
    return Figure().subplots()


def classifier(**params):
    settings = {"hidden_layer_sizes": (8,), "max_iter": 100, "tol": 0.3, "random_state": 0}
    return MLPClassifier(**settings | params)


@pytest.fixture(scope="module")
def fitted():
    callbacks = [GradientMonitor(every=2), LearningRateFinder(n_steps=30)]
    return classifier(early_stopping=True, callbacks=callbacks).fit(X, Y)


@pytest.fixture(scope="module")
def bands():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (200, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    loss = Quantile([0.1, 0.5, 0.9])
    return MLPRegressor((8,), loss=loss, optimizer=Adam(1e-2), tol=1e-2, random_state=0).fit(X, y), X, y


# -- what all of them promise --------------------------------------------------------------------------

CASES = {
    LossCurveDisplay: lambda clf, ax: LossCurveDisplay.from_estimator(clf, ax=ax),
    WeightsDisplay: lambda clf, ax: WeightsDisplay.from_estimator(clf, ax=ax),
    GradientDisplay: lambda clf, ax: GradientDisplay.from_estimator(clf, ax=ax),
    LearningRateDisplay: lambda clf, ax: LearningRateDisplay.from_estimator(clf, ax=ax),
    GraphDisplay: lambda clf, ax: GraphDisplay.from_estimator(clf, ax=ax),
    AttributionDisplay: lambda clf, ax: AttributionDisplay.from_estimator(clf, X[:5], ax=ax),
}
ALL = pytest.mark.parametrize("kind", CASES)


def test_every_display_has_a_row():
    assert {getattr(sknet.display, name) for name in sknet.display.__all__} == {*CASES, IntervalDisplay}


@ALL
def test_axes_and_figure_are_those_given(kind, fitted):
    ax = axes()
    display = CASES[kind](fitted, ax)
    assert isinstance(display, kind)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.plot(other := axes()) is display
    assert display.ax_ is other


@ALL
def test_a_figure_is_made_if_there_are_no_axes(kind, fitted):
    display = CASES[kind](fitted, None)
    assert display.figure_.number in plt.get_fignums()
    display.figure_.canvas.draw()


@ALL
def test_looking_changes_nothing(kind, fitted):
    before = {name: array.copy() for name, array in fitted.model_.parameters.items()}
    names, progress = set(vars(fitted)), fitted.model_.progress
    CASES[kind](fitted, axes())
    assert set(vars(fitted)) == names
    assert fitted.model_.progress == progress
    for name, array in fitted.model_.parameters.items():
        np.testing.assert_array_equal(array, before[name])


@ALL
def test_a_pipeline_is_shown_by_its_last_step(kind, fitted):
    scaler = StandardScaler().fit(X)
    pipeline = make_pipeline(scaler, fitted)
    assert isinstance(CASES[kind](pipeline, axes()), kind)


@ALL
def test_an_unfitted_estimator_is_an_error(kind):
    with pytest.raises(NotFittedError):
        CASES[kind](classifier(), axes())


@ALL
def test_another_librarys_estimator_is_an_error(kind):
    with pytest.raises(TypeError, match="displays show networks of sknet, got LogisticRegression"):
        CASES[kind](LogisticRegression(max_iter=1000).fit(X, Y), axes())


@pytest.mark.slow
def test_without_matplotlib_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from sknet.display import LossCurveDisplay\n"
        "try: LossCurveDisplay({'loss': [1.0]}).plot()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        'LossCurveDisplay.plot needs matplotlib, which is not installed: pip install "scikit-neural[plot]"\n'
    )


# -- losses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["loss", "score"])
def test_curves_are_the_columns_of_the_history(metric, fitted):
    display = LossCurveDisplay.from_estimator(fitted, metric=metric, learning_rate=True, ax=axes())
    epochs = np.arange(1, len(fitted.history_["loss"]) + 1)
    shown = {metric: display.line_, f"validation_{metric}": display.validation_line_, "lr": display.lr_line_}
    for name, line in shown.items():
        np.testing.assert_array_equal(line.get_xdata(), epochs)
        np.testing.assert_array_equal(line.get_ydata(), fitted.history_[name])
    assert list(display.best_line_.get_xdata()) == [fitted.best_epoch_] * 2
    assert display.ax_.get_ylabel() == metric
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["training", "validation", f"best epoch {fitted.best_epoch_}", "learning rate"]


def test_a_history_without_held_out_rows_has_one_curve():
    display = LossCurveDisplay({"loss": [2.0, 1.0], "validation_loss": [math.nan] * 2}).plot(axes())
    assert display.validation_line_ is display.best_line_ is display.lr_line_ is None


def test_an_unknown_column_is_an_error(fitted):
    with pytest.raises(ValueError, match=r"no column 'accuracy'; it has 'loss', 'score'"):
        LossCurveDisplay.from_estimator(fitted, metric="accuracy", ax=axes())
    with pytest.raises(ValueError, match="it has no epoch"):
        LossCurveDisplay({}).plot(axes())


# -- weights -------------------------------------------------------------------------------------------


def test_a_matrix_is_shown_as_it_is(fitted):
    display = WeightsDisplay.from_estimator(fitted, ax=axes())
    np.testing.assert_array_equal(display.image_.get_array(), fitted.model_.parameters["0.weight"])
    low, high = display.image_.get_clim()
    assert -low == high == np.abs(fitted.model_.parameters["0.weight"]).max()


@pytest.mark.parametrize("n_columns", [None, 1, 4])
def test_filters_are_images_side_by_side(n_columns):
    weights = np.random.default_rng(0).normal(size=(3, 2, 4, 5))
    display = WeightsDisplay(weights).plot(axes(), n_columns=n_columns)
    page = np.ma.filled(display.image_.get_array(), np.nan)
    columns = {None: 3, 1: 1, 4: 4}[n_columns]
    for place, image in enumerate(weights.reshape(6, 4, 5)):
        top, left = place // columns * 5, place % columns * 6
        np.testing.assert_array_equal(page[top : top + 4, left : left + 5], image)
    assert np.isfinite(page).sum() == weights.size


def test_units_of_a_linear_layer_are_images_of_its_inputs():
    digits, labels = load_digits(return_X_y=True)
    clf = MLPClassifier((3,), max_iter=2, tol=1.0, random_state=0)
    clf.partial_fit(digits[:100], labels[:100], classes=np.arange(10))
    display = WeightsDisplay.from_estimator(clf, "0.weight", image_shape=(8, 8), ax=axes())
    weight = clf.model_.parameters["0.weight"]
    np.testing.assert_array_equal(display.image_.get_array()[:8, :8], weight[:, 0].reshape(8, 8))


@pytest.mark.parametrize("parameter", ["0.weight", "0.bias"])
def test_a_histogram_counts_every_weight(parameter, fitted):
    display = WeightsDisplay.from_estimator(fitted, parameter, kind="histogram", ax=axes())
    assert sum(bar.get_height() for bar in display.bars_) == fitted.model_.parameters[parameter].size


def test_weights_that_cannot_be_shown_are_errors(fitted):
    with pytest.raises(ValueError, match=r"no parameter '3.weight'; the network has \['0.bias'"):
        WeightsDisplay.from_estimator(fitted, "3.weight", ax=axes())
    with pytest.raises(ValueError, match=r"shape \(4, 8\) are no filters of shape \(3, 3\)"):
        WeightsDisplay.from_estimator(fitted, image_shape=(3, 3), ax=axes())
    for shape in ((-2, -2), (1, 2, 2), ()):
        with pytest.raises(ValueError, match="are no filters of shape"):
            WeightsDisplay.from_estimator(fitted, image_shape=shape, ax=axes())
    with pytest.raises(ValueError, match="only weights with two axes are a matrix"):
        WeightsDisplay(np.ones(3)).plot(axes(), kind="matrix")
    with pytest.raises(ValueError, match="kind must be one of auto, filters"):
        WeightsDisplay(np.ones(3)).plot(axes(), kind="bars")


# -- gradients, learning rates -------------------------------------------------------------------------


@pytest.mark.parametrize("relative", [False, True])
def test_gradient_norms_are_those_of_the_monitor(relative, fitted):
    monitor = fitted.callbacks_[0]
    display = GradientDisplay.from_estimator(fitted, relative=relative, ax=axes())
    assert set(display.lines_) == set(monitor.norms_)
    for name, line in display.lines_.items():
        expected = np.array(monitor.norms_[name])
        expected = expected / monitor.weight_norms_[name] if relative else expected
        np.testing.assert_array_equal(line.get_xdata(), monitor.epochs_)
        np.testing.assert_allclose(line.get_ydata(), expected)


def test_gradients_have_to_be_measured():
    clf = classifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"fit with callbacks=\[GradientMonitor\(\)\]"):
        GradientDisplay.from_estimator(clf, ax=axes())
    with pytest.raises(ValueError, match="relative=True needs weight_norms"):
        GradientDisplay([1], {"a": [1.0]}).plot(axes(), relative=True)


def test_the_range_test_is_shown_with_its_suggestion(fitted):
    finder = fitted.callbacks_[1]
    display = LearningRateDisplay.from_estimator(fitted, ax=axes())
    np.testing.assert_array_equal(display.lines_["loss"].get_xdata(), finder.rates_)
    np.testing.assert_array_equal(display.lines_["loss"].get_ydata(), finder.losses_)
    assert display.ax_.get_xscale() == "log"
    assert list(display.suggestion_line_.get_xdata()) == [finder.suggestion_] * 2


def test_a_finder_that_has_not_run_is_an_error():
    with pytest.raises(ValueError, match="has not run"):
        LearningRateDisplay.from_finder(LearningRateFinder(), ax=axes())


def test_without_a_finder_the_rates_of_the_fit_are_shown():
    clf = classifier(optimizer=Adam(Exponential(1e-2, factor=0.5))).fit(X, Y)
    display = LearningRateDisplay.from_estimator(clf, ax=axes())
    np.testing.assert_array_equal(display.lines_["learning rate"].get_ydata(), clf.history_["lr"])


def test_schedules_are_shown_step_by_step():
    schedules = {
        "fall": Cosine(0.1),
        "by epoch": Exponential(0.1, factor=0.5),
        "warm": WarmUp(Cosine(0.1), n_steps=10),
    }
    display = LearningRateDisplay.from_schedules(schedules, 40, steps_per_epoch=10, ax=axes())
    t = np.arange(40)
    expected = {"fall": 0.05 * (1 + np.cos(np.pi * t / 40)), "by epoch": 0.1 * 0.5 ** (t // 10)}
    for name, values in expected.items():
        np.testing.assert_allclose(display.lines_[name].get_ydata(), values, rtol=1e-12)
    assert np.diff(display.lines_["warm"].get_ydata()[:10]).min() > 0
    twice = LearningRateDisplay.from_schedules([Cosine(0.1), Cosine(0.2), lambda progress: 0.3], 5, ax=axes())
    assert list(twice.lines_) == ["Cosine 1", "Cosine 2", "<lambda>"]
    small = {"n_steps": np.int8(100), "steps_per_epoch": np.int8(2), "batch_size": np.int8(100)}
    assert LearningRateDisplay.from_schedules(Cosine(0.1), **small, ax=axes()).lines_["Cosine"]


@pytest.mark.parametrize("name", ["n_steps", "steps_per_epoch", "batch_size"])
@pytest.mark.parametrize("value", [0, -3, 2**63, 1.5])
def test_counts_of_steps_that_are_none_are_errors(name, value):
    with pytest.raises((ValueError, TypeError), match=f"{name} must be an int"):
        LearningRateDisplay.from_schedules(Cosine(0.1), **{name: value}, ax=axes())


# -- intervals, attributions ---------------------------------------------------------------------------


def test_intervals_are_the_predicted_ones(bands):
    reg, inputs, y = bands
    display = IntervalDisplay.from_estimator(reg, inputs, y, coverage=0.8, ax=axes())
    order = np.argsort(inputs[:, 0])
    np.testing.assert_array_equal(display.line_.get_xdata(), inputs[order, 0])
    np.testing.assert_array_equal(display.line_.get_ydata(), reg.predict(inputs)[order])
    low, high = reg.predict_interval(inputs, 0.8).T
    assert display.coverage_ == np.mean((low <= y) & (y <= high))
    corners = display.band_.get_paths()[0].vertices
    assert corners[:, 1].min() == pytest.approx(low.min())
    assert corners[:, 1].max() == pytest.approx(high.max())
    assert len(display.points_.get_offsets()) == len(y)


def test_rows_of_several_features_are_sorted_by_their_prediction():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    reg = MLPRegressor((4,), loss="gaussian_nll", max_iter=100, tol=1.0, random_state=0)
    reg = make_pipeline(StandardScaler(), reg).fit(inputs, inputs[:, 0])
    display = IntervalDisplay.from_estimator(reg, inputs, ax=axes())
    np.testing.assert_array_equal(display.line_.get_ydata(), np.sort(reg.predict(inputs)))
    assert display.points_ is display.coverage_ is None
    by_column = IntervalDisplay.from_estimator(reg, inputs, feature=2, ax=axes())
    np.testing.assert_array_equal(by_column.line_.get_xdata(), np.sort(inputs[:, 2]))
    with pytest.raises(ValueError, match="feature 'size' is a name"):
        IntervalDisplay.from_estimator(reg, inputs, feature="size", ax=axes())
    frame = pd.DataFrame(inputs, columns=list("abc"))
    of_frame = clone(reg).fit(frame, inputs[:, 0])
    by_name = IntervalDisplay.from_estimator(of_frame, frame, feature="c", ax=axes())
    np.testing.assert_array_equal(by_name.line_.get_xdata(), np.sort(inputs[:, 2]))
    for fitted, X, feature in (
        (reg, inputs, 2**31),
        (reg, inputs, -4),
        (of_frame, frame, 3),
        (of_frame, frame, "d"),
    ):
        with pytest.raises(ValueError, match=f"feature '?{feature}'? is no column of X, whose .*-3 to 2"):
            IntervalDisplay.from_estimator(fitted, X, feature=feature, ax=axes())


def test_a_regressor_without_intervals_is_an_error():
    reg = MLPRegressor((4,), max_iter=2, tol=10.0).partial_fit(X, Y)
    with pytest.raises(TypeError, match="this MLPRegressor predicts no intervals"):
        IntervalDisplay.from_estimator(reg, X, ax=axes())


@pytest.mark.parametrize("method", ["integrated_gradients", "input_gradient"])
def test_attributions_are_those_of_the_estimator(method, fitted):
    expected = getattr(fitted, method)(X[:4])
    one = AttributionDisplay.from_estimator(fitted, X[:1], method=method, ax=axes())
    widths = {bar.get_y() + bar.get_height() / 2: bar.get_width() for bar in one.bars_}
    order = np.argsort(np.abs(expected[0]), kind="stable")
    np.testing.assert_allclose([widths[y] for y in sorted(widths)], expected[0][order])
    names = [text.get_text() for text in one.ax_.get_yticklabels()]
    assert names == [f"feature {place}" for place in order]
    several = AttributionDisplay.from_estimator(fitted, X[:4], method=method, ax=axes())
    np.testing.assert_allclose(
        sorted(bar.get_width() for bar in several.bars_), sorted(np.abs(expected).mean(axis=0))
    )
    images = AttributionDisplay.from_estimator(fitted, X[:4], method=method, image_shape=(2, 2), ax=axes())
    np.testing.assert_allclose(images.image_.get_array()[:2, :2], expected[0].reshape(2, 2))


@pytest.mark.parametrize("shape", [(-1, 2), (3, 2), (0, 4), (1, 2, 2)])
def test_attributions_that_are_no_images_are_errors(shape, fitted):
    with pytest.raises(
        ValueError, match="image_shape must be the height and the width of images of 4 pixels"
    ):
        AttributionDisplay.from_estimator(fitted, X[:4], image_shape=shape, ax=axes())


@pytest.mark.parametrize("names", [["a"], np.empty((0, 3)), ["a"] * 5])
def test_every_attribution_has_a_name(names, fitted):
    with pytest.raises(ValueError, match=f"feature_names must be those of 4 inputs, got {len(names)}"):
        AttributionDisplay.from_estimator(fitted, X[:4], feature_names=names, ax=axes())


def test_an_unknown_method_is_an_error(fitted):
    with pytest.raises(ValueError, match="method must be one of integrated_gradients, input_gradient"):
        AttributionDisplay.from_estimator(fitted, X, method="saliency", ax=axes())


# -- graphs --------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self):
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(ops.concat([x, x + self.inner(x)], axis=1))


def edges(display):
    return {(display.nodes[source].label, node.label) for node in display.nodes for source in node.sources}


def test_layers_and_the_operations_between_them_are_connected():
    display = GraphDisplay.from_module(Residual(), (5, 4))
    assert edges(display) == {
        ("input", "Linear(4, 4)"),
        ("Linear(4, 4)", "Tanh()"),
        ("Tanh()", "add"),
        ("input", "add"),
        ("input", "concat"),
        ("add", "concat"),
        ("concat", "Linear(8, 2)"),
        ("Linear(8, 2)", "output"),
    }
    shapes = {node.label: node.shape for node in display.nodes}
    assert shapes["concat"] == "5 x 8"
    assert shapes["output"] == "5 x 2"


@pytest.mark.parametrize("training", [False, True])
def test_layers_that_return_their_input_are_on_the_way(training):
    network = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Identity(), nn.Linear(3, 1))
    labels = [node.label for node in GraphDisplay.from_module(network, (2, 3), training=training).nodes]
    display = GraphDisplay.from_module(network, (2, 3), training=training)
    assert edges(display) == set(itertools.pairwise(labels))
    assert len(labels) == 6


def test_a_captured_graph_is_shown_operation_by_operation():
    graph = capture(lambda x: ops.exp(x) + x, np.ones(3))
    display = GraphDisplay.from_graph(graph)
    assert [node.label for node in display.nodes[1:]] == ["exp", "add", "output"]
    assert {node.kind for node in display.nodes} == {"input", "operation", "output"}
    assert len(edges(display)) == 4


def test_a_step_is_shown():
    clf = classifier().fit(X, Y)
    graph = clf.compiled_step_.gradient.graph
    display = GraphDisplay.from_graph(graph)
    assert sum(node.kind == "operation" for node in display.nodes) == len(graph.equations)


def chain_and_branches(rng, n):
    class Random(nn.Module):
        def forward(self, x):
            made = [x]
            for _ in range(n):
                first, second = (made[i] for i in rng.integers(0, len(made), 2))
                made.append(first * second if rng.random() < 0.5 else ops.tanh(first))
            return sum(made)

    return Random()


@pytest.mark.parametrize("seed", range(8))
def test_boxes_lie_below_their_sources_and_never_on_each_other(seed):
    rng = np.random.default_rng(seed)
    display = GraphDisplay.from_graph(capture(chain_and_branches(rng, 12).forward, np.ones((1, 2))))
    for node in display.nodes:
        assert all(display.nodes[source].rank < node.rank for source in node.sources)
    for rank in {node.rank for node in display.nodes}:
        places = sorted(node.place for node in display.nodes if node.rank == rank)
        assert min(np.diff(places), default=1) > 1 - 1e-9
    ElementTree.fromstring(display.to_svg())


SVG = "{http://www.w3.org/2000/svg}"


def boxes_and_lines(display):
    """Read the boxes of a picture, and the points of each arrow, a few on every curve of it."""
    tree = ElementTree.fromstring(display.to_svg())
    boxes = [tuple(float(b.get(k)) for k in ("x", "y", "width", "height")) for b in tree.iter(f"{SVG}rect")]
    lines = []
    for path in tree.iter(f"{SVG}path"):
        if "marker-end" in path.attrib:
            points = []
            for command, text in re.findall(r"([MCV])([^MCV]+)", path.get("d")):
                numbers = np.array(text.split(), float)
                if command == "M":
                    points = [numbers]
                elif command == "V":
                    points.append(np.array([points[-1][0], numbers[0]]))
                else:
                    a, (b, c, d) = points[-1], numbers.reshape(3, 2)
                    t = np.linspace(0, 1, 9)[1:, None]
                    points += list(
                        (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
                    )
            lines.append(points)
    return boxes, lines


@pytest.mark.parametrize("seed", range(8))
def test_arrows_pass_boxes_at_their_sides(seed):
    rng = np.random.default_rng(seed)
    display = GraphDisplay.from_graph(capture(chain_and_branches(rng, 12).forward, np.ones((1, 2))))
    boxes, lines = boxes_and_lines(display)
    inside = [
        (box, point)
        for box in boxes
        for points in lines
        for point in points
        if box[0] + 1 < point[0] < box[0] + box[2] - 1 and box[1] + 1 < point[1] < box[1] + box[3] - 1
    ]
    assert not inside


def test_a_shortcut_has_a_bend_beside_each_box_that_it_passes():
    display = GraphDisplay.from_module(nn.Sequential(nn.Linear(4, 4), Residual()), (1, 4))
    passed = sum(node.rank - display.nodes[s].rank - 1 for node in display.nodes for s in node.sources)
    assert display.to_svg().count("V") == passed > 2


def test_the_picture_has_a_box_for_each_node_and_an_arrow_for_each_edge(fitted):
    display = GraphDisplay.from_module(Residual(), (1, 4)).plot(axes())
    n_edges = sum(len(node.sources) for node in display.nodes)
    assert len(display.arrows_) == n_edges
    assert [box.get_text().split("\n")[0] for box in display.boxes_] == [node.label for node in display.nodes]
    tree = ElementTree.fromstring(display.to_svg())
    svg = "{http://www.w3.org/2000/svg}"
    assert len(list(tree.iter(f"{svg}rect"))) == len(display.nodes)
    assert sum("marker-end" in path.attrib for path in tree.iter(f"{svg}path")) == n_edges
    assert display._repr_html_() == display.to_svg()
    width, height = map(float, tree.get("viewBox").split()[2:])
    for box in tree.iter(f"{svg}rect"):
        x, y, w, h = (float(box.get(name)) for name in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert x + w <= width
        assert y + h <= height


def test_the_module_is_not_changed():
    module = nn.Sequential(nn.LazyLinear(3))
    GraphDisplay.from_module(module, (1, 4))
    assert repr(module) == repr(nn.Sequential(nn.LazyLinear(3)))


def test_a_network_of_ones_own_in_an_estimator():
    net = NetClassifier(nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(3)), max_iter=2, tol=10.0)
    net.partial_fit(X, Y, classes=[0, 1, 2])
    display = GraphDisplay.from_estimator(net, ax=axes())
    assert [node.kind for node in display.nodes] == ["input", "layer", "layer", "layer", "output"]


# -- names of data are no formulas ---------------------------------------------------------------------------

PRICES = ["cost $\\frac$", "$a_b$ and $", "price in \\$"]


def drawn_texts(display):
    """Return the texts of a figure as its reader sees them."""
    written = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none"}):
        display.figure_.savefig(written, format="svg")
    tree = ElementTree.fromstring(written.getvalue())
    return ["".join(each.itertext()) for each in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_names_with_dollars():
    rows = np.random.default_rng(0).normal(size=(9, 3))
    norms = {name: [1.0, 2.0] for name in PRICES}
    nodes = capture(ops.exp, np.ones(3))
    displays = [
        AttributionDisplay(rows, feature_names=PRICES).plot(),
        GradientDisplay([1, 2], norms).plot(),
        *[WeightsDisplay(rows, name=name).plot() for name in PRICES],
        *[LossCurveDisplay({name: [2.0, 1.0]}, metric=name).plot() for name in PRICES],
        *[IntervalDisplay(rows[:, 0], *rows[:, :3].T, xlabel=name).plot() for name in PRICES],
    ]
    found = [drawn_texts(display) for display in displays]
    for names, texts in zip([PRICES, PRICES, *[[name] for name in PRICES * 3]], found, strict=True):
        for name in names:
            assert name in texts or name.replace("_", " ") in texts
    graph = GraphDisplay.from_graph(nodes)
    graph.nodes[0].label = PRICES[0]
    assert any(PRICES[0] in text for text in drawn_texts(graph.plot()))
