"""Native code trains networks of all kinds as NumPy's plan does, to the last bit."""

from functools import partial

import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, nn, ops
from sknet.losses import (
    AFT,
    LOSSES,
    Cox,
    Focal,
    GaussianNLL,
    Hinge,
    Huber,
    LogLoss,
    Ordinal,
    Quantile,
    SquaredError,
    Tweedie,
)
from sknet.optim import SGD, Adam, AdamW, Groups, Muon, RMSprop
from sknet.optim.schedules import InverseScaling
from tests.compile.native import InspectedSteps, assert_equal_training, trained
from tests.estimators.data import quiet

pytest.importorskip("sknet._native._core", reason="native code was not built")

FEATURES, HIDDEN, ROWS = 5, 4, 9


def data(dtype="float32", n_outputs=3, kind="class"):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES)).astype(dtype)
    if kind == "class":
        return X, rng.integers(0, n_outputs, ROWS)
    if kind == "label":
        return X, rng.integers(0, 2, (ROWS, n_outputs)).astype(dtype)
    return X, np.abs(rng.standard_normal((ROWS, n_outputs))).astype(dtype)


def network(*middle, n_outputs=3, end=nn.Identity):
    return lambda: nn.Sequential(
        nn.Linear(FEATURES, HIDDEN), *[make() for make in middle], nn.Linear(HIDDEN, n_outputs), end()
    )


def check(make_module, X, y, weight=None, *, dtype="float32", epochs=2, **settings):
    order = np.random.default_rng(1).permutation(len(X))
    settings = {"loss": "log_loss", "optimizer": Adam(lr=0.01), "alpha": 0.01, "size": 4, **settings}
    return assert_equal_training(
        make_module, X, y, weight, order=settings.pop("order", order), dtype=dtype, epochs=epochs, **settings
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", nn.ACTIVATIONS)
def test_activations(name, dtype):
    check(network(nn.ACTIVATIONS[name]), *data(dtype), dtype=dtype)


LAYERS = {
    "batch norm": (lambda: nn.BatchNorm(HIDDEN), nn.ReLU),
    "batch norm, cumulative": (lambda: nn.BatchNorm(HIDDEN, momentum=None),),
    "layer norm": (lambda: nn.LayerNorm(HIDDEN), nn.Tanh),
    "dropout": (nn.ReLU, lambda: nn.Dropout(0.4)),
    "two dropouts": (lambda: nn.Dropout(0.3), nn.ReLU, lambda: nn.Dropout(0.6)),
    "flatten": (nn.Flatten,),
    "two layers": (nn.ReLU, lambda: nn.Linear(HIDDEN, HIDDEN), nn.ReLU),
    "one unit": (lambda: nn.Linear(HIDDEN, 1), nn.ReLU, lambda: nn.Linear(1, HIDDEN)),
    "no bias": (lambda: nn.Linear(HIDDEN, HIDDEN, bias=False),),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, dtype):
    # In front of batch norm a bias has a gradient of rounding errors only, which Adam would amplify.
    check(network(*LAYERS[name]), *data(dtype), dtype=dtype, size=3, optimizer=SGD(0.1))


class Scaled(nn.Module):
    """Multiplies by a single number, a parameter of some shape."""

    def __init__(self, shape):
        self.scale = nn.Parameter(np.full(shape, 0.7))

    def forward(self, x):
        return x * self.scale


ONE_NUMBER = {"prelu": nn.PReLU} | {
    str(shape): partial(Scaled, shape) for shape in [(), (1,), (1, 1), (HIDDEN,), (1, HIDDEN)]
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("before", [nn.Identity, partial(nn.Linear, HIDDEN, HIDDEN, bias=False)])
@pytest.mark.parametrize("name", ONE_NUMBER)
def test_one_number_for_all_elements(name, before, dtype):
    """It has no axis for a single loop over all elements."""
    make = ONE_NUMBER[name]
    check(network(before, make, nn.ReLU, make), *data(dtype), dtype=dtype, optimizer=SGD(0.1))


class Reduced(nn.Module):
    """Uses a maximum in another way than a softmax does."""

    def __init__(self, axis):
        self.inner, self.axis = nn.Linear(FEATURES, 3), axis

    def forward(self, x):
        top = ops.max(x, axis=self.axis, keepdims=True)
        return self.inner(ops.where(ops.isnan(top), 0.5, ops.where(ops.isnan(x), 0.0, x) * top))


@pytest.mark.parametrize("size", [2, 3])
def test_a_maximum_keeps_nan(size):
    X, y = data("float64")
    X[1, 0] = X[4, 3] = np.nan
    check(lambda: Reduced(1), X, y, dtype="float64", size=size)


@pytest.mark.parametrize("axis", [None, 0])
def test_a_maximum_over_rows_keeps_nan(axis):
    X, y = data("float64")
    check(lambda: Reduced(axis), X, y, dtype="float64")
    X[1, 0] = X[4, 3] = np.nan
    check(lambda: Reduced(axis), X, y, dtype="float64")


class AgainstItself(nn.Module):
    """Compares every element of a parameter with every other."""

    def __init__(self, reduced):
        self.weight, self.reduced = nn.Parameter(np.linspace(-0.5, 0.7, HIDDEN)), reduced

    def forward(self, x):
        table = ops.tanh(self.weight.reshape(-1, 1) - 0.5 * self.weight)
        return x * (table.sum(axis=0) / 3.0) if self.reduced else x @ table


@pytest.mark.parametrize("reduced", [False, True])
def test_an_outer_operation_of_an_axis(reduced):
    check(network(partial(AgainstItself, reduced)), *data())


class Transposed(nn.Module):
    """Compares a batch with its product by a transposed weight, whose gradient has an axis twice."""

    def __init__(self):
        self.weight = nn.Parameter(np.linspace(-0.5, 0.7, FEATURES**2).reshape(FEATURES, FEATURES))

    def forward(self, x):
        return ops.minimum(x, x @ self.weight.T)


def test_a_gradient_with_an_axis_twice():
    check(lambda: nn.Sequential(Transposed(), nn.Linear(FEATURES, 3)), *data(), alpha=0.0)


class OfNoElement(nn.Module):
    """Takes an empty view of a single number."""

    def forward(self, x):
        return x * (1.0 + ops.tanh(x.mean(keepdims=True))[1:].sum())


def test_an_empty_view():
    check(network(OfNoElement), *data())


@pytest.mark.parametrize("bad", [-1, -3, 3, 100])
@pytest.mark.parametrize("at", [0, ROWS - 1])
def test_an_index_out_of_bounds_is_named_by_numpy(at, bad):
    """It is compared with the elements of its row, so native code alone would take it for none."""
    X, y = data()
    y[at] = bad
    model, _, _, steps = trained(InspectedSteps, network()(), X, y * 0, size=ROWS, loss="log_loss")
    steps.batches.y[...] = y
    before = model.state.parameters["0.weight"].copy()
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds for 3 elements"):
        steps.run(None, 0)
    np.testing.assert_array_equal(model.state.parameters["0.weight"], before)


class Taken(nn.Module):
    """Takes one element of each row, by an index that is known when the step is compiled."""

    def __init__(self, index):
        self.inner, self.index = nn.Linear(FEATURES, 3), index

    def forward(self, x):
        inner = self.inner(x)
        return inner * ops.take_along_axis(inner, self.index, axis=-1)


@pytest.mark.parametrize("index", [[0, 1, 2], [0, 0, 0], [-1, 0, 1]])
def test_a_constant_index(index):
    check(lambda: Taken(np.array(index)[:, None]), *data(), size=3)


class Reversed(nn.Module):
    """Reads rows in another order."""

    def forward(self, x):
        return ops.tanh(x.detach())[::-1] * x


@pytest.mark.parametrize("rows", [3, 4, 6])
def test_a_last_batch_of_one_row(rows):
    X, y = data("float64")

    def make():
        return nn.Sequential(nn.Linear(FEATURES, 1), Reversed(), nn.Linear(1, 3))

    check(make, X[:rows], y[:rows], dtype="float64", size=3, optimizer=SGD(0.1))


# Of other targets than these, in tests of their own.
ELSEWHERE = ("gaussian_nll", "kl_divergence", "cox", "aft")
NAMES = [name for name, loss in LOSSES.items() if "regression" in loss.tasks and name not in ELSEWHERE]
LABELS = (LogLoss(multilabel=True), Focal(multilabel=True), Hinge(multilabel=True))
CASES = {
    **{name: (name, "number") for name in NAMES},
    "huber, wide": (Huber(delta=0.1), "number"),
    "quantile 0.9": (Quantile(quantile=0.9), "number"),
    "tweedie 2.5": (Tweedie(power=2.5), "number"),
    **{str(loss): (loss, "label") for loss in LABELS},
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_losses(name, n_outputs, weighted):
    loss, kind = CASES[name]
    X, y = data(n_outputs=n_outputs, kind=kind)
    weight = np.random.default_rng(2).uniform(0.1, 2, ROWS).astype("float32") if weighted else None
    check(network(nn.Tanh, n_outputs=n_outputs), X, y, weight, loss=loss)


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["class", "label"])
def test_log_loss(kind, weighted, alpha):
    n_outputs = 3 if kind == "class" else 1
    X, y = data(n_outputs=n_outputs, kind=kind)
    weight = np.random.default_rng(2).uniform(0.1, 2, ROWS).astype("float32") if weighted else None
    check(network(nn.ReLU, n_outputs=n_outputs), X, y, weight, alpha=alpha)


CLASS_LOSSES = (LogLoss(label_smoothing=0.2), Focal(), Focal(0.5), Hinge(), Hinge(squared=True))


@pytest.mark.parametrize("kind", ["class", "label"])
@pytest.mark.parametrize("loss", CLASS_LOSSES, ids=str)
def test_losses_of_classes(loss, kind):
    n_outputs = 3 if kind == "class" else 1
    check(network(nn.ReLU, n_outputs=n_outputs), *data(n_outputs=n_outputs, kind=kind), loss=loss)


class Parts(nn.Module):
    """Computes with some columns of its input, whose gradient is that of a part."""

    def __init__(self, index):
        self.inner, self.index = nn.Linear(FEATURES, 4), index

    def forward(self, x):
        hidden = self.inner(x)
        return ops.tanh(hidden) * ops.reshape(hidden[self.index], (hidden.shape[0], -1))


COLUMNS = [
    (..., 2), (..., slice(1, 2)), (slice(None), -1), (slice(None), slice(0, 4)),
    (slice(None), slice(None, None, -1)), (slice(None, None, -1), 1),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("index", COLUMNS, ids=str)
def test_columns_of_a_matrix(index, size):
    X, y = data("float64", n_outputs=4, kind="number")
    settings = {"dtype": "float64", "size": size, "loss": "squared_error", "optimizer": SGD(0.1)}
    check(partial(Parts, index), X, y, **settings)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [GaussianNLL(), Quantile([0.2, 0.5, 0.6, 0.9]), Ordinal()], ids=str)
def test_losses_of_several_outputs_for_a_target(loss, weighted):
    kind = "class" if loss == Ordinal() else "number"
    X, y = data(n_outputs=3 if kind == "class" else 2, kind=kind)
    weight = np.random.default_rng(2).uniform(0.1, 2, ROWS).astype("float32") if weighted else None
    n_outputs = 2 if kind == "class" else 2 * loss.outputs_per_target
    check(network(nn.Tanh, n_outputs=n_outputs), X, y, weight, loss=loss)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [Cox(), AFT(), AFT("log_logistic"), AFT("log_normal")], ids=str)
def test_losses_of_times(loss, weighted):
    X, y = data(n_outputs=2, kind="number")
    y[:, 1] = y[:, 1] > 0.5
    weight = np.random.default_rng(2).uniform(0.1, 2, ROWS).astype("float32") if weighted else None
    check(network(nn.Tanh, n_outputs=loss.outputs_per_target), X, y, weight, loss=loss)


SETTINGS = {"hidden_layer_sizes": (2,), "max_iter": 1, "random_state": 0}


def wrapping(loss, cls, X, y):
    """Return the loss with which an estimator trains, which wraps another."""
    with quiet():
        found = cls(loss=loss, **SETTINGS).fit(X, y).model_.loss_function
    assert found != loss
    return found


@pytest.mark.parametrize(
    "loss", [SquaredError(), Huber(), Quantile(0.3), GaussianNLL(), Quantile([0.1, 0.5, 0.9])], ids=str
)
def test_losses_in_units_of_the_targets(loss):
    X, y = data(n_outputs=2, kind="number")
    n_outputs = 2 * loss.outputs_per_target
    check(network(nn.Tanh, n_outputs=n_outputs), X, y, loss=wrapping(loss, MLPRegressor, X, 3 * y + 1))


@pytest.mark.parametrize("loss", CLASS_LOSSES[:4], ids=str)
def test_losses_of_several_columns_of_classes(loss):
    X, y = data(n_outputs=2, kind="number")
    y = np.random.default_rng(0).integers(0, [3, 2], y.shape)
    check(network(nn.Tanh, n_outputs=5), X, y, loss=wrapping(loss, MLPClassifier, X, y))


def test_losses_of_probabilities():
    X, y = data(kind="number")
    check(network(nn.ReLU), X, y / y.sum(axis=1, keepdims=True), loss="kl_divergence")
    check(network(nn.ReLU, n_outputs=3, end=nn.Softmax), *data(), loss="nll")
    X, y = data(kind="label")
    check(network(nn.ReLU, n_outputs=3, end=nn.Sigmoid), X, y, loss="binary_cross_entropy")


OPTIMIZERS = [
    SGD(0.1), SGD(0.1, momentum=0.9), SGD(0.1, momentum=0.9, nesterov=True), SGD(InverseScaling(0.1)),
    Adam(0.01, beta1=0.5), AdamW(0.01), RMSprop(0.01), RMSprop(0.01, momentum=0.9),
]  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_optimizers(optimizer):
    check(network(nn.ReLU), *data(), optimizer=optimizer)


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("hidden", [1, 2])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("size", [1, 2])
def test_axes_of_length_one(n_features, hidden, n_outputs, size):
    X, y = data(n_outputs=n_outputs, kind="number")

    def make_module():
        return nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU(), nn.Linear(hidden, n_outputs))

    check(make_module, X[:, :n_features].copy(), y, size=size, loss="squared_error", optimizer=SGD(0.1))


@pytest.mark.parametrize("size", [2, 4, 8, 9, 20])
def test_batch_sizes(size):
    check(network(nn.ReLU), *data(), size=size)


def test_chosen_rows_in_their_own_order_of_another_dtype_and_layout():
    X, y = data("float64")
    X = np.asfortranarray(X)
    X.flags.writeable = False
    check(
        network(nn.ReLU),
        X,
        y,
        rows=np.array([8, 1, 5, 2, 7, 3]),
        size=4,
        dtype="float32",
        epochs=1,
        order=np.arange(6),
    )


class Spread(nn.Module):
    """Repeats rows along a new axis and reads one of the copies: a view in NumPy's plan alone."""

    def __init__(self, at):
        self.at = at

    def forward(self, x):
        joined = ops.stack([ops.tanh(x), x * 0.5], axis=1)
        return ops.sin(joined).sum(axis=1) + ops.broadcast_to(x[:, None], joined.shape)[:, self.at] * x


@pytest.mark.parametrize("at", [0, 1])
def test_slices_of_a_repeated_array(at):
    check(network(partial(Spread, at)), *data("float64"), dtype="float64")


@pytest.mark.parametrize("optimizer", [Muon(), Groups({"0.*": SGD(0.1), "*": Adam(0.01)})], ids=str)
def test_updates_that_need_the_shape_of_each_parameter(optimizer):
    check(network(nn.Tanh), *data("float64"), dtype="float64", optimizer=optimizer, epochs=3)
