"""Networks with several heads, each of which has a loss, targets and predictions of its own."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection
from sklearn.base import clone
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import parametrize_with_checks

import sknet
from sknet import MultiHeadNet, NetClassifier, NetRegressor, nn, ops
from sknet.callbacks import Checkpoint
from sknet.exceptions import InvalidParameterError, LoadError, ShapeError
from sknet.losses import AFT, GaussianNLL, LogLoss, Loss, Ordinal, Quantile
from sknet.model_selection import cross_val_predict, head_scorer, indexable
from sknet.optim import SGD
from tests.estimators.checks import run_check

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
PRICE = 1e4 + 2e3 * (X[:, 0] - X[:, 1]) + RNG.normal(size=240)
KIND = np.array(["low", "middle", "top"])[np.digitize(X[:, 2] + 0.3 * X[:, 0], [-0.5, 0.5])]
BINARY = (X[:, 3] > 0).astype(int)
BOX = np.c_[X[:, 0] * 3, X[:, 1] ** 2]
TAGS = (X[:, :3] > [0, 0.5, -0.5]).astype(int)
PAIR = np.c_[np.digitize(X[:, 0], [0]), np.digitize(X[:, 1], [-1, 1]) + 5]
Y = {"price": PRICE, "kind": KIND}
LOSSES = {"price": "squared_error", "kind": "log_loss"}
SMALL = {"max_iter": 4, "random_state": 0, "batch_size": 60}


class Trunk(nn.Module):
    """A network with a shared trunk and a linear layer for each head."""

    def __init__(self, n_features, n_outputs, hidden=8):
        self.trunk = nn.Sequential(nn.Linear(n_features, hidden), nn.Tanh())
        self.heads = nn.ModuleDict({name: nn.Linear(hidden, n) for name, n in n_outputs.items()})

    def forward(self, x):
        x = self.trunk(x)
        return {name: head(x) for name, head in self.heads.items()}


class Apart(nn.Module):
    """Networks of heads that share nothing."""

    def __init__(self, **networks):
        self.networks = nn.ModuleDict(networks)

    def forward(self, x):
        return {name: network(x) for name, network in self.networks.items()}


class Several(nn.Module):
    """Returns what a function makes of one output."""

    def __init__(self, n_outputs, change):
        self.layer = nn.Linear(4, n_outputs)
        self.change = change

    def forward(self, x):
        return self.change(self.layer(x))


class Quartic(Loss):
    """A loss of a user's own."""

    tasks = ("regression",)

    def values(self, output, target):
        z, y = self.pair(output, target)
        return self.total((z - y) ** 4)

    def predict(self, output):
        return output * 2.0


def ready(n_outputs, seed=0):
    """Return a network that has its weights."""
    rng = np.random.default_rng(seed)
    network = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, n_outputs))
    for _, parameter in network.named_parameters():
        parameter.data = rng.normal(size=parameter.shape) / 2
    return network


def weights(estimator):
    return [parameter.numpy() for _, parameter in estimator.model_.module.own_parameters()]


ALONE = {
    "numbers": (PRICE, "squared_error", 1),
    "columns": (BOX, "squared_error", 2),
    "float32": (PRICE.astype("float32"), "squared_error", 1),
    "counts": (np.abs(np.round(BOX)), "poisson", 2),
    "quantiles": (PRICE, Quantile([0.1, 0.5, 0.9]), 3),
    "deviations": (BOX, GaussianNLL(), 4),
    "binary": (BINARY, "log_loss", 1),
    "classes": (KIND, "log_loss", 3),
    "labels": (TAGS, "log_loss", 3),
    "several columns": (PAIR, "log_loss", 5),
    "ordered": (KIND, Ordinal(order=["top", "low", "middle"]), 2),
    "ordered two": (BINARY, Ordinal(order=[1, 0]), 1),
    "distances": (BINARY, "hinge", 1),
}


@pytest.mark.parametrize("case", ALONE)
def test_one_head_is_the_estimator_of_its_kind_to_the_bit(case):
    y, loss, width = ALONE[case]
    of_numbers = "regression" in (sknet.losses.check_loss(loss, "test").tasks)
    plain = (NetRegressor if of_numbers else NetClassifier)(ready(width), loss=loss, scoring="loss", **SMALL)
    heads = MultiHeadNet(ready(width), {"a": loss}, scoring="loss", **SMALL)
    plain.fit(X, y)
    heads.fit(X, {"a": y})
    for one, other in zip(weights(plain), weights(heads), strict=True):
        np.testing.assert_array_equal(one, other)
    expected, found = plain.predict(X), heads.predict(X)["a"]
    assert expected.dtype == found.dtype
    np.testing.assert_array_equal(expected, found)
    if hasattr(plain, "predict_proba"):
        np.testing.assert_equal(heads.predict_proba(X)["a"], plain.predict_proba(X))
    assert heads.score(X, {"a": y}) == pytest.approx(plain.score(X, y), rel=1e-12)
    np.testing.assert_equal(heads.freeze().predict(X[:7])["a"], found[:7])


@pytest.mark.parametrize("optimizer", ["adam", SGD(lr=0.05)])
def test_heads_that_share_nothing_are_fits_of_their_own(optimizer):
    network = Apart(price=ready(1, 1), kind=ready(3, 2), tags=ready(3, 3))
    y = {**Y, "tags": TAGS}
    options = {"optimizer": optimizer, "shuffle": False, "batch_size": 80, "max_iter": 5, "random_state": 0}
    heads = MultiHeadNet(network, {**LOSSES, "tags": "log_loss"}, **options).fit(X, y)
    found, probable = heads.predict(X), heads.predict_proba(X)
    price = NetRegressor(ready(1, 1), **options).fit(X, PRICE)
    np.testing.assert_allclose(found["price"], price.predict(X), rtol=1e-9)
    for name, width, seed in (("kind", 3, 2), ("tags", 3, 3)):
        other = NetClassifier(ready(width, seed), **options).fit(X, y[name])
        np.testing.assert_allclose(probable[name], other.predict_proba(X), rtol=1e-9)


def test_a_full_batch_finds_the_minima_of_separate_heads():
    y = {"box": BOX, "tags": TAGS}
    options = {"optimizer": "lbfgs", "max_iter": 500, "tol": 1e-7, "alpha": 1.0, "random_state": 0}
    network = Apart(box=nn.Linear(4, 2), tags=nn.Linear(4, 3))
    heads = MultiHeadNet(network, {"box": "squared_error", "tags": "log_loss"}, **options).fit(X, y)
    box = NetRegressor(nn.Linear(4, 2), **options).fit(X, BOX)
    tags = NetClassifier(nn.Linear(4, 3), **options).fit(X, TAGS)
    np.testing.assert_allclose(heads.predict(X)["box"], box.predict(X), atol=1e-3)
    np.testing.assert_allclose(heads.predict_proba(X)["tags"], tags.predict_proba(X), atol=1e-4)


def test_the_reported_loss_is_the_weighted_sum_of_standardized_losses():
    network = Apart(price=ready(1, 1), kind=ready(3, 2))
    net = MultiHeadNet(
        network, LOSSES, loss_weights={"kind": 0.25}, optimizer=SGD(lr=1e-12), alpha=0.0, max_iter=1,
        scale_inputs=False, dtype="float64",
    ).fit(X, Y)  # fmt: skip
    z = network.networks["price"](X).numpy()[:, 0]
    logits = network.networks["kind"](X).numpy()
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    cross = -log_p[np.arange(len(X)), np.unique(KIND, return_inverse=True)[1]].mean()
    square = ((z - (PRICE - PRICE.mean()) / PRICE.std()) ** 2).mean() / 2
    assert net.loss_curve_[0] == pytest.approx(square + 0.25 * cross, rel=1e-6)


def test_the_weight_of_a_loss_multiplies_its_gradient():
    one = {"optimizer": SGD(lr=0.1), "alpha": 0.0, "max_iter": 1, "shuffle": False, "batch_size": 240}
    start = Apart(price=ready(1, 1), kind=ready(3, 2))
    plain, halved = (
        MultiHeadNet(start, LOSSES, loss_weights=given, **one).fit(X, Y) for given in (None, {"price": 0.5})
    )
    before = [parameter.numpy() for _, parameter in start.own_parameters()]
    moved = [[b - a for a, b in zip(before, weights(each), strict=True)] for each in (plain, halved)]
    n_of_price = len(list(ready(1).own_parameters()))
    for i, (whole, half) in enumerate(zip(*moved, strict=True)):
        np.testing.assert_allclose(half, whole * (0.5 if i < n_of_price else 1.0), rtol=1e-6, atol=1e-12)


def test_training_as_pytorch_does_with_a_sum_of_losses():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))
    rng = np.random.default_rng(3)
    for _, parameter in network.named_parameters():
        parameter.data = rng.normal(size=parameter.shape) / 2
    theirs = [torch.tensor(p.numpy(), requires_grad=True) for _, p in network.named_parameters()]
    net = MultiHeadNet(
        network, LOSSES, loss_weights={"price": 2.0, "kind": 0.3}, optimizer=SGD(lr=0.1, momentum=0.0),
        alpha=0.0, max_iter=3, shuffle=False, batch_size=120, scale_inputs=False, scoring="loss",
    ).fit(X, Y)  # fmt: skip
    inputs = torch.tensor(X)
    price = torch.tensor((PRICE - PRICE.mean()) / PRICE.std())
    kind = torch.tensor(np.unique(KIND, return_inverse=True)[1])
    descent = torch.optim.SGD(theirs, lr=0.1)
    for start in (0, 120) * 3:
        rows = slice(start, start + 120)
        hidden = torch.tanh(inputs[rows] @ theirs[0] + theirs[1])
        z = hidden @ theirs[2] + theirs[3]
        loss = 2.0 * ((z[:, 0] - price[rows]) ** 2).mean() / 2
        loss = loss + 0.3 * torch.nn.functional.cross_entropy(z[:, 1:], kind[rows])
        descent.zero_grad()
        loss.backward()
        descent.step()
    for mine, expected in zip(weights(net), theirs, strict=True):
        np.testing.assert_allclose(mine, expected.detach().numpy(), rtol=1e-9, atol=1e-12)


# -- what a network returns --------------------------------------------------------------------------


def test_dicts_tuples_and_columns_are_the_same_heads():
    changes = {
        "dict": lambda z: {"kind": z[:, 1:], "more": z, "price": z[:, :1]},
        "tuple": lambda z: (z[:, :1], z[:, 1:]),
        "vector": lambda z: [z[:, 0], z[:, 1:]],
        "columns": lambda z: z,
    }
    found = [MultiHeadNet(Several(4, change), LOSSES, **SMALL).fit(X, Y) for change in changes.values()]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].predict(X)["price"], other.predict(X)["price"])
        np.testing.assert_array_equal(found[0].predict_proba(X)["kind"], other.predict_proba(X)["kind"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda z: {"price": z[:, :1], "sort": z},
            r"returns a dict of \['price', 'sort'\].*need.*\['kind'\]",
        ),
        (lambda z: (z,), r"returns 1 outputs, and there are losses for the heads \['price', 'kind'\]"),
        (
            lambda z: {"price": z[:, :2], "kind": z},
            r"shape \(\d+, 2\) for the head 'price'.*\(n_samples, 1\)",
        ),
        (lambda z: z[:, :2], r"one array of shape \(\d+, 2\).*a dict by their names, or 4 columns"),
    ],
)
def test_a_network_without_the_outputs_that_losses_need(change, message):
    net = MultiHeadNet(Several(4, change), LOSSES, **SMALL)
    with pytest.raises(ShapeError, match=message):
        net.fit(X, Y)
    assert not hasattr(net, "model_")


def test_a_network_by_its_name():
    images = RNG.normal(size=(40, 8, 8))
    y = {"sum": images.sum(axis=(1, 2)), "sign": images[:, 4, 4] > 0}
    losses = {"sum": "squared_error", "sign": "log_loss"}
    net = MultiHeadNet("conv", losses, max_iter=1, random_state=0).fit(images, y)
    assert net.predict(images)["sum"].shape == (40,)
    assert net.predict_proba(images)["sign"].shape == (40, 2)


def test_several_inputs():
    class Both(nn.Module):
        def __init__(self, n_outputs):
            self.a, self.b = nn.Linear(2, n_outputs["price"]), nn.Linear(2, n_outputs["kind"])

        def forward(self, left, right):
            return {"price": self.a(left), "kind": self.b(right)}

    inputs = {"left": X[:, :2], "right": X[:, 2:]}
    net = MultiHeadNet(Both, LOSSES, **SMALL).fit(inputs, Y)
    assert net.predict(inputs)["kind"].shape == (240,)
    np.testing.assert_equal(net.freeze().predict(inputs), net.predict(inputs))


def test_frozen_parameters_are_named_as_in_the_network():
    start = Apart(price=ready(1, 1), kind=ready(3, 2))
    net = MultiHeadNet(start, LOSSES, frozen="networks.price.*", **SMALL).fit(X, Y)
    own = dict(net.model_.module.get_submodule("network").own_parameters())
    for path, parameter in start.own_parameters():
        assert np.array_equal(own[path].numpy(), parameter.numpy()) == path.startswith("networks.price")
    with pytest.raises(InvalidParameterError, match=r"networks\.price\.0\.weight"):
        MultiHeadNet(start, LOSSES, frozen="unknown", **SMALL).fit(X, Y)


# -- containers --------------------------------------------------------------------------------------


def test_frames_come_back_as_frames():
    frame = pd.DataFrame(
        {"box__0": BOX[:, 0], "kind": pd.Categorical(KIND), "box__1": BOX[:, 1], "price": PRICE}
    )
    losses = {**LOSSES, "box": "squared_error"}
    net = MultiHeadNet(Trunk, losses, **SMALL).fit(pd.DataFrame(X, columns=list("abcd")), frame)
    given = pd.DataFrame(X[:6], columns=list("abcd"), index=range(10, 16))
    found = net.predict(given)
    assert list(found) == list(frame)
    assert list(found.index) == list(range(10, 16))
    arrays = {"box": BOX, **Y}
    plain = MultiHeadNet(Trunk, losses, **SMALL).fit(X, arrays).predict(X[:6])
    np.testing.assert_array_equal(found[["box__0", "box__1"]].to_numpy(), plain["box"])
    np.testing.assert_array_equal(found["kind"], plain["kind"])
    assert net.score(given.set_axis(range(6)), frame[:6]) == net.score(given, frame[:6])
    pd.testing.assert_frame_equal(net.freeze().predict(given), found)


def test_columns_of_a_head_are_found_by_their_names():
    frame = pd.DataFrame({"box__0": BOX[:, 0], "price": PRICE, "box__1": BOX[:, 1]})
    losses = {"price": "squared_error", "box": "squared_error"}
    net = MultiHeadNet(Trunk, losses, **SMALL).fit(X, frame)
    turned, of_box = frame[["box__1", "box__0", "price"]], head_scorer("box", "neg_mean_absolute_error")
    assert net.scores(X, turned) == net.scores(X, frame) == net.scores(X, {"box": BOX, "price": PRICE})
    assert of_box(net, X, turned) == pytest.approx(of_box(net, X, frame))
    again = clone(net).fit(X, frame)
    for one, other in zip(
        weights(net.partial_fit(X, turned)), weights(again.partial_fit(X, frame)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(
        ValueError, match=r"fitted with the columns \['box__0', 'box__1'\], got \['box__0', 'box__y'\]"
    ):
        net.score(X, frame.rename(columns={"box__1": "box__y"}))


def test_columns_that_are_one_target_have_one_prediction():
    frame = pd.DataFrame({"life__time": np.exp(X[:, 0]), "kind": KIND, "life__seen": BINARY})
    net = MultiHeadNet(Trunk, {"life": "cox", "kind": "log_loss"}, **SMALL).fit(X, frame)
    found = net.predict(X)
    assert list(found) == ["life", "kind"]
    same = clone(net).fit(X, {"life": np.c_[np.exp(X[:, 0]), BINARY], "kind": KIND}).predict(X)
    np.testing.assert_array_equal(found["life"], same["life"])
    assert net.scores(X, frame[["life__seen", "life__time", "kind"]]) == net.scores(X, frame)


def test_frames_of_polars():
    pl = pytest.importorskip("polars", reason="frames of polars")
    frame = pl.DataFrame({"kind": KIND, "price": PRICE})
    found = MultiHeadNet(Trunk, LOSSES, **SMALL).fit(X, frame).predict(X[:5])
    assert isinstance(found, pl.DataFrame)
    assert found.columns == ["kind", "price"]


def test_an_array_for_one_head():
    net = MultiHeadNet(Trunk, {"y": "squared_error"}, **SMALL).fit(X, PRICE)
    assert net.predict(X).shape == (240,)
    assert isinstance(MultiHeadNet(Trunk, {"y": "log_loss"}, **SMALL).fit(X, TAGS).predict(X), np.ndarray)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        (PRICE, r"heads \['price', 'kind'\]: y must be a dict of arrays or a frame with these names"),
        ({"price": PRICE, "kinds": KIND}, r"a dict of \['price', 'kinds'\]: 'kind' is missing.*'kinds'"),
        ({**Y, "more": PRICE}, "there is no loss for 'more'"),
        (pd.DataFrame({"price": PRICE, "color": KIND}), r"frame of \['price', 'color'\]: 'kind' is missing"),
        ({"price": KIND, "kind": KIND}, "head 'price': a regression needs numbers, got targets of dtype <U6"),
        ({"price": PRICE, "kind": KIND[:9]}, r"one target a row each.*\{'price': 240, 'kind': 9\}"),
        ({"price": PRICE[:9], "kind": KIND[:9]}, r"inconsistent numbers of samples: \[240, 9\]"),
        ({"price": PRICE, "kind": PRICE}, "head 'kind': Unknown label type: continuous"),
        ({"price": np.where(BINARY, np.inf, 1), "kind": KIND}, "head 'price': targets must be finite"),
        ({"price": PRICE * np.nan, "kind": KIND}, "every target of the head 'price' is missing"),
        ({"price": np.zeros((240, 2, 2)), "kind": KIND}, r"head 'price' must have one or two axes"),
    ],
)  # fmt: skip
def test_targets_that_do_not_fit(y, message):
    net = MultiHeadNet(Trunk, LOSSES, **SMALL)
    with pytest.raises((ValueError, TypeError), match=message):
        net.fit(X, y)
    assert not hasattr(net, "_targets")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "squared_error"}, "must be a dict with the name and the loss of each head"),
        ({"loss": {}}, "must be a dict with the name and the loss of each head"),
        ({"loss": {"a__b": "log_loss"}}, "names are texts without '__'"),
        ({"loss": {"price": "squared", "kind": "log_loss"}}, "head 'price'.*squared_error"),
        ({"loss": {**LOSSES, "kind": LogLoss(ignore_index=0)}}, "head 'kind': ignore_index is not supported"),
        (
            {"loss": {**LOSSES, "kind": LogLoss(class_weight=[1, 2, 3])}},
            "class_weight={'kind': ...} of the est",
        ),
        ({"loss_weights": {"sort": 1.0}}, r"'loss_weights'.*names the head 'sort', which has no loss"),
        ({"loss_weights": {"kind": -1.0}}, "finite numbers of at least 0, got -1.0 for 'kind'"),
        ({"loss_weights": {"kind": 0, "price": 0}}, "must not be all zeros"),
        ({"loss_weights": [1.0, 2.0]}, "loss_weights"),
        ({"class_weight": {"sort": "balanced"}}, "'class_weight'.*names the head 'sort'"),
        ({"class_weight": {"price": "balanced"}}, "the head 'price', which has no classes"),
        ({"scale_target": True, "loss": {**LOSSES, "price": Quartic()}}, "scale_target=True does not fit"),
    ],
)
def test_parameters_that_do_not_fit(params, message):
    net = MultiHeadNet(**{"module": Trunk, "loss": LOSSES, **SMALL, **params})
    with pytest.raises((ValueError, TypeError), match=message):
        net.fit(X, Y)
    assert not hasattr(net, "model_")


# -- targets that are missing, and weights -----------------------------------------------------------


STEP = {"alpha": 0.0, "max_iter": 1, "shuffle": False, "scale_inputs": False, "dtype": "float64"}


@pytest.mark.filterwarnings("ignore:Got `batch_size`")
@pytest.mark.parametrize(("labels", "n_outputs"), [(KIND, 3), (BINARY, 1)])
def test_missing_targets_weigh_nothing(labels, n_outputs):
    gone = np.random.default_rng(0).random((240, 2)) < [0.3, 0.6]
    price = np.where(gone[:, 0], np.nan, PRICE)
    kind = np.where(gone[:, 1], None, labels.astype(object))
    start = Apart(price=ready(1, 1), kind=ready(n_outputs, 2))
    one = {**STEP, "batch_size": 240}
    net = MultiHeadNet(start, LOSSES, optimizer=SGD(lr=0.1), **one).fit(X, {"price": price, "kind": kind})
    seen = ~gone
    shares = 2 * seen.sum(axis=0) / seen.sum()  # each target that is there counts alike
    one = {**STEP, "batch_size": 1000}
    alone = [
        NetRegressor(ready(1, 1), optimizer=SGD(lr=0.1 * shares[0]), **one),
        NetClassifier(ready(n_outputs, 2), optimizer=SGD(lr=0.1 * shares[1]), **one),
    ]
    alone[0].fit(X[seen[:, 0]], PRICE[seen[:, 0]])
    alone[1].fit(X[seen[:, 1]], labels[seen[:, 1]])
    np.testing.assert_allclose(net.predict(X)["price"], alone[0].predict(X), rtol=1e-9)
    np.testing.assert_allclose(net.predict_proba(X)["kind"], alone[1].predict_proba(X), rtol=1e-9)
    scores = net.scores(X, {"price": price, "kind": kind})
    assert scores["price"] == pytest.approx(r2_score(PRICE[seen[:, 0]], net.predict(X[seen[:, 0]])["price"]))
    assert scores["kind"] == accuracy_score(labels[seen[:, 1]], net.predict(X[seen[:, 1]])["kind"])
    one = {**STEP, "batch_size": 240}
    frame = pd.DataFrame({"price": price, "kind": kind})
    again = MultiHeadNet(start, LOSSES, optimizer=SGD(lr=0.1), **one).fit(X, frame)
    np.testing.assert_array_equal(again.predict(X)["price"], net.predict(X)["price"])


def test_weights_are_copies_of_rows():
    counts = RNG.integers(1, 3, 240)
    rows = np.repeat(np.arange(240), counts)
    copies = {name: y[rows] for name, y in Y.items()}
    start = Apart(price=ready(1, 1), kind=ready(3, 2))
    weighted = MultiHeadNet(start, LOSSES, optimizer=SGD(lr=0.1), batch_size=240, **STEP)
    weighted.fit(X, Y, sample_weight=counts)
    copied = MultiHeadNet(start, LOSSES, optimizer=SGD(lr=0.1), batch_size=len(rows), **STEP)
    copied.fit(X[rows], copies)
    np.testing.assert_allclose(weighted.predict(X)["price"], copied.predict(X)["price"], rtol=1e-9)
    assert weighted.score(X, Y, counts) == pytest.approx(copied.score(X[rows], copies), rel=1e-9)


@pytest.mark.parametrize("class_weight", ["balanced", {"low": 3.0, "top": 0.5}])
def test_weights_of_classes(class_weight):
    options = {"optimizer": SGD(lr=0.1), "alpha": 0.0, "max_iter": 1, "shuffle": False, "batch_size": 240}
    start = ready(3)
    heads = MultiHeadNet(start, {"a": "log_loss"}, class_weight={"a": class_weight}, **options)
    plain = NetClassifier(start, class_weight=class_weight, **options).fit(X, KIND)
    for one, other in zip(weights(heads.fit(X, {"a": KIND})), weights(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-14)
    both = Apart(price=ready(1, 1), kind=start)
    of_rows = compute_sample_weight(class_weight, KIND)
    net = MultiHeadNet(both, LOSSES, class_weight={"kind": class_weight}, **options).fit(X, Y)
    share = 2 * of_rows.sum() / (of_rows.sum() + 240)  # each target counts as much as its weight
    alone = NetClassifier(start, class_weight=class_weight, **{**options, "optimizer": SGD(lr=0.1 * share)})
    found = weights(net)[-len(list(start.own_parameters())) :]
    for one, other in zip(found, weights(alone.fit(X, KIND)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-14)


def test_rows_are_drawn_by_a_function_of_all_targets():
    seen = []

    def rare(y, sample_weight):
        seen.append(y)
        return np.where(y["kind"] == "top", 0.0, 1.0)

    net = MultiHeadNet(Trunk, LOSSES, sampler=rare, max_iter=30, lr=0.02, random_state=0).fit(X, Y)
    np.testing.assert_equal(seen[0]["kind"], KIND)
    np.testing.assert_allclose(seen[0]["price"], PRICE)
    assert "top" not in net.predict(X)["kind"]


def test_a_scorer_of_ones_own_gets_targets_as_they_were_given():
    def of_kind(estimator, X, y):
        return accuracy_score(y["kind"], estimator.predict(X)["kind"])

    frame = pd.DataFrame(Y)
    net = MultiHeadNet(Trunk, LOSSES, scoring=of_kind, early_stopping=False, **SMALL)
    net.fit(X, frame, X_val=X, y_val=frame)
    assert net.history_["validation_of_kind"][-1] == accuracy_score(KIND, net.predict(X)["kind"])


def test_scorers_by_heads():
    val = {"price": np.where(BINARY, np.nan, PRICE), "kind": np.where(BINARY, None, KIND.astype(object))}
    scoring = {"price": "neg_mean_absolute_error", "kind": "roc_auc_ovr"}
    net = MultiHeadNet(Trunk, LOSSES, scoring=scoring, monitor="kind", early_stopping=True, **SMALL)
    net.fit(X, Y, X_val=X, y_val=val)
    seen = BINARY == 0
    auc = roc_auc_score(KIND[seen], net.predict_proba(X[seen])["kind"], multi_class="ovr")
    assert max(net.history_["validation_kind"]) == pytest.approx(auc, rel=1e-9)
    assert net.best_validation_score_ == pytest.approx(auc, rel=1e-9)
    price = net.history_["validation_price"][net.best_epoch_ - 1]
    assert price == pytest.approx(-mean_absolute_error(PRICE[seen], net.predict(X[seen])["price"]), rel=1e-9)
    assert head_scorer("kind", "accuracy")(net, X, Y) == net.scores(X, Y)["kind"]
    assert repr(head_scorer("kind", "accuracy")) == "head_scorer('kind', 'accuracy')"
    with pytest.raises(InvalidParameterError, match=r"head 'kind'.*'acuracy'"):
        head_scorer("kind", "acuracy")
    with pytest.raises(ValueError, match=r"there is no head 'sort', only \['price', 'kind'\]"):
        head_scorer("sort", "r2")(net, X, Y)


@pytest.mark.parametrize("own", [False, True])
def test_searches(own):
    module = sknet.model_selection if own else sklearn.model_selection
    frame = pd.DataFrame(Y)
    scoring = {"price": head_scorer("price", "r2"), "kind": head_scorer("kind", "accuracy")}
    grid = {"lr": [1e-4, 0.05], "loss_weights": [None, {"kind": 2.0}]}
    net = MultiHeadNet(Trunk, LOSSES, max_iter=5, random_state=0)
    search = module.GridSearchCV(net, grid, scoring=scoring, refit="kind", cv=2).fit(X, frame)
    assert search.best_params_["lr"] == 0.05
    results = search.cv_results_
    best = search.best_index_
    halves = [slice(120, 240), slice(0, 120)]
    for k, half in enumerate(halves):
        one = clone(net).set_params(**search.best_params_).fit(X[half], frame[half])
        found = one.scores(X[halves[1 - k]], frame[halves[1 - k]])
        for name in LOSSES:
            assert results[f"split{k}_test_{name}"][best] == pytest.approx(found[name], rel=1e-9)
    y = Y if own else indexable(Y)
    scores = module.cross_validate(make_pipeline(StandardScaler(), net), X, y, cv=2, scoring=scoring)
    assert scores["test_kind"].shape == (2,)
    assert list(search.predict(X)) == list(frame)


def test_times_that_the_loss_alone_reads():
    times = np.c_[np.exp(X[:, 0] + RNG.normal(size=240)), RNG.random(240) < 0.7]
    net = MultiHeadNet(Trunk, {"time": AFT("log_normal"), "kind": "log_loss"}, **SMALL)
    y = {"time": times, "kind": KIND}
    net.fit(X, y)
    assert net.predict(X)["time"].shape == (240,)
    scores = net.scores(X, y)
    assert scores["time"] == AFT("log_normal").score(times, net.predict(X)["time"])
    assert net.score(X, y) == pytest.approx((scores["time"] + scores["kind"]) / 2)
    gone = np.where(BINARY[:, np.newaxis], np.nan, times)
    with pytest.raises(
        ValueError, match=r"AFT\(distribution='log_normal'\) reads 2 columns of y\['time'\] as"
    ):
        net.fit(X, {"time": gone, "kind": KIND})
    with pytest.raises(ValueError, match="and weights are of rows"):
        net.fit(X, y, sample_weight=RNG.random((240, 3)))


@pytest.mark.filterwarnings("ignore:Got `batch_size`")
def test_times_beside_targets_that_are_missing():
    times = np.c_[np.exp(X[:, 0]), BINARY]
    losses = {"time": "cox", "kind": "log_loss"}
    one = {**STEP, "batch_size": 240}
    start = Apart(time=ready(1, 1), kind=ready(3, 2))
    kind = np.where(BINARY, None, KIND.astype(object))
    net = MultiHeadNet(start, losses, optimizer=SGD(lr=0.1), **one).fit(X, {"time": times, "kind": kind})
    total = (2 * 240 + (BINARY == 0).sum()) / 3  # three columns of y
    of_times = NetRegressor(ready(1, 1), loss="cox", optimizer=SGD(lr=0.1 * 240 / total), **one).fit(X, times)
    np.testing.assert_allclose(net.predict(X)["time"], of_times.predict(X), rtol=1e-9)
    weighted = MultiHeadNet(start, losses, class_weight={"kind": "balanced"}, lr=0.1, **one)
    assert weighted.fit(X, {"time": times, "kind": kind}).scores(X, {"time": times, "kind": kind})["time"] > 0
    ones = MultiHeadNet(start, losses, optimizer=SGD(lr=0.1), **one)
    ones.fit(X, {"time": times, "kind": KIND}, sample_weight=np.ones((240, 3)))
    plain = MultiHeadNet(start, losses, optimizer=SGD(lr=0.1), **one).fit(X, {"time": times, "kind": KIND})
    np.testing.assert_allclose(ones.predict(X)["time"], plain.predict(X)["time"], rtol=1e-9)
    with pytest.raises(TypeError, match=r"one for each column of y side by side, got a dict of \['time'\]"):
        net.fit(X, {"time": times, "kind": KIND}, sample_weight={"time": np.ones(240)})


def test_a_function_as_a_loss():
    def cubic(y_true, output):
        return ops.sum(abs(output - y_true) ** 3, axis=-1) if output.ndim > 1 else abs(output - y_true) ** 3

    net = MultiHeadNet(Trunk, {"box": cubic, "kind": "log_loss"}, **SMALL)
    assert net.fit(X, {"box": BOX, "kind": KIND}).predict(X)["box"].shape == (240, 2)


# -- fits that go on ---------------------------------------------------------------------------------


def test_a_stream_goes_on_as_a_warm_start():
    options = {
        "random_state": 0,
        "shuffle": False,
        "scale_inputs": False,
        "scale_target": False,
        "alpha": 0.0,
    }
    classes = {"kind": np.unique(KIND)}
    stream = MultiHeadNet(Trunk, LOSSES, batch_size=240, **options)
    for _ in range(3):
        stream.partial_fit(X, Y, classes=classes)
    whole = MultiHeadNet(Trunk, LOSSES, batch_size=240, max_iter=1, warm_start=True, **options)
    for _ in range(3):
        whole.fit(X, Y)
    np.testing.assert_array_equal(stream.predict(X)["price"], whole.predict(X)["price"])
    assert stream.classes_.keys() == {"kind"}
    with pytest.raises(ValueError, match="head 'kind': `y` has classes not in"):
        stream.partial_fit(X, {"price": PRICE, "kind": np.full(240, "none")})
    with pytest.raises(ValueError, match=r"classes\['kind'\] are not those of the call before"):
        stream.partial_fit(X, Y, classes={"kind": ["a", "b"]})


def test_parts_of_a_stream_are_standardized_by_the_first():
    net = MultiHeadNet(Trunk, LOSSES, random_state=0)
    with pytest.raises(ValueError, match=r"classes must be passed on the first call.*'kind'"):
        net.partial_fit(X, Y)
    with pytest.raises(ValueError, match="needs all of y, and partial_fit sees a part"):
        clone(net).set_params(class_weight={"kind": "balanced"}).partial_fit(
            X, Y, classes={"kind": np.unique(KIND)}
        )
    many = {"price": np.full(240, 5.0), "kind": np.arange(240) % 40}
    with pytest.raises(
        ValueError, match=r"standardizes by the first part of a stream, and y\['price'\] is 5"
    ):
        net.partial_fit(X, many, classes={"kind": range(40)})
    many["price"] = PRICE
    net.partial_fit(X, many, classes={"kind": range(40)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.partial_fit(X, many)  # numbers of classes are in no unit
    with pytest.warns(UserWarning, match="are .* times as large as those that the first fit"):
        net.partial_fit(X, {**many, "price": PRICE + 20 * PRICE.std()})


def test_a_resumed_fit_ends_as_if_it_had_not_been_interrupted(tmp_path):
    options = {"random_state": 0, "early_stopping": True, "n_iter_no_change": 50}
    whole = MultiHeadNet(Trunk, LOSSES, max_iter=6, **options).fit(X, Y)
    MultiHeadNet(Trunk, LOSSES, max_iter=3, callbacks=[Checkpoint(tmp_path)], **options).fit(X, Y)
    resumed = MultiHeadNet(Trunk, LOSSES, max_iter=6, callbacks=[Checkpoint(tmp_path)], **options)
    resumed.fit(X, Y, resume_from=tmp_path)
    assert resumed.history_["validation_score"] == whole.history_["validation_score"]
    np.testing.assert_array_equal(resumed.predict(X)["price"], whole.predict(X)["price"])
    other = MultiHeadNet(Trunk, LOSSES, max_iter=6, callbacks=[Checkpoint(tmp_path)], **options)
    with pytest.raises((LoadError, sknet.exceptions.StateError)):
        other.fit(X, {**Y, "kind": np.roll(KIND, 1)}, resume_from=tmp_path)


def test_early_stopping_by_rows_of_ones_own():
    val = slice(180, 240)
    y_val = {name: y[val] for name, y in Y.items()}
    net = MultiHeadNet(Trunk, LOSSES, early_stopping=True, max_iter=5, random_state=0, monitor="score")
    net.fit(X[:180], {name: y[:180] for name, y in Y.items()}, X_val=X[val], y_val=y_val)
    assert net.validation_scores_[net.best_epoch_ - 1] == pytest.approx(net.score(X[val], y_val), rel=1e-9)
    assert net.monitor_ == "validation_score"


def test_a_fit_that_fails_leaves_the_estimator_as_it_was():
    net = MultiHeadNet(Trunk, LOSSES, **SMALL).fit(X, Y)
    before = net.predict(X)
    with pytest.raises(ValueError, match="is missing"):
        net.fit(X, {"price": PRICE})
    np.testing.assert_equal(net.predict(X), before)


# -- what is stored ----------------------------------------------------------------------------------


def fitted(**params):
    y = {**Y, "tags": TAGS, "pair": PAIR, "rank": KIND}
    losses = {
        **LOSSES,
        "tags": "log_loss",
        "pair": "log_loss",
        "rank": Ordinal(order=["top", "low", "middle"]),
    }
    return MultiHeadNet(Trunk, losses, **SMALL, **params).fit(X, y)


@pytest.mark.parametrize("n_members", [1, 3])
def test_files_pickles_and_frozen_predictors_predict_to_the_bit(n_members, tmp_path):
    net = fitted(n_members=n_members)
    expected, probable = net.predict(X), net.predict_proba(X)
    sknet.save(net, tmp_path / "net.sknet")
    sknet.save(net.freeze(), tmp_path / "frozen.sknet")
    for other in (
        pickle.loads(pickle.dumps(net)),
        net.slim(),
        net.freeze(),
        pickle.loads(pickle.dumps(net.freeze())),
        sknet.load(tmp_path / "net.sknet", trusted=[Trunk]),
        sknet.load(tmp_path / "frozen.sknet"),
    ):
        np.testing.assert_equal(other.predict(X), expected)
        np.testing.assert_equal(other.predict_proba(X), probable)
        np.testing.assert_equal(other.classes_, net.classes_)
    assert clone(net).get_params().keys() == net.get_params().keys()
    assert "'price': 'squared_error'" in repr(clone(net))


@pytest.mark.parametrize("n_members", [1, 2])
def test_python_files_predict_to_the_bit(n_members, tmp_path):
    net = fitted(n_members=n_members)
    net.freeze().to_python(tmp_path / "heads.py")
    names: dict = {}
    exec((tmp_path / "heads.py").read_text(), names)
    for rows in (X, X[:1]):
        np.testing.assert_equal(names["predict"](rows), net.predict(rows))
        np.testing.assert_equal(names["predict_proba"](rows), net.predict_proba(rows))
    np.testing.assert_equal(names["classes_"], net.classes_)
    one = MultiHeadNet(Trunk, {"y": "log_loss"}, **SMALL).fit(X, KIND)
    one.freeze().to_python(tmp_path / "one.py")
    exec((tmp_path / "one.py").read_text(), names)
    np.testing.assert_array_equal(names["predict"](X), one.predict(X))


def test_members_are_averaged():
    net = MultiHeadNet(Trunk, {**LOSSES, "two": "log_loss"}, n_members=2, bootstrap=True, **SMALL)
    net.fit(X, {**Y, "two": BINARY})
    found = net.predict_proba(X)
    np.testing.assert_allclose(found["two"].sum(axis=1), 1)
    np.testing.assert_array_equal(net.predict(X)["kind"], net.classes_["kind"][found["kind"].argmax(axis=1)])
    np.testing.assert_array_equal(net.predict(X)["two"], found["two"].argmax(axis=1))


def test_a_loss_of_ones_own_is_frozen_as_a_graph():
    net = MultiHeadNet(Trunk, {"price": Quartic(), "kind": "log_loss"}, **SMALL)
    net.fit(X, {**Y, "price": X[:, 0]})
    state = net.freeze().__getstate__()
    assert type(state["_loss"].heads["price"]).__name__ == "FrozenLoss"
    frozen = net.freeze()
    other = object.__new__(type(frozen))
    other.__setstate__(state)
    np.testing.assert_equal(other.predict(X), net.predict(X))


class Perceptron(nn.Module):
    """A network for scikit-learn's checks."""

    def __init__(self, n_features, n_outputs):
        self.body = nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Linear(16, n_outputs["y"]))

    def forward(self, x):
        return {"y": self.body(x)}


@pytest.mark.slow
@parametrize_with_checks([MultiHeadNet(Perceptron, {"y": "squared_error"}, max_iter=5, random_state=0)])
def test_scikit_learns_checks(estimator, check):
    run_check(estimator, check)


# -- held-out rows, predictions of folds and importances -----------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_each_label_of_each_head_is_trained_on_and_held_out(seed):
    y = {"kind": np.repeat(["a", "b"], [118, 2]), "rare": np.roll(np.repeat([0, 1], [118, 2]), 5)}
    seen = []

    def score(net, X, y):
        seen.append((len(X), {name: set(np.asarray(each).tolist()) for name, each in y.items()}))
        return 0.0

    options = {
        "early_stopping": True,
        "scoring": score,
        "monitor": "loss",
        "max_iter": 1,
        "random_state": seed,
    }
    MultiHeadNet(ready(2), dict.fromkeys(y, "log_loss"), **options).fit(X[:120], y)
    assert {n for n, _ in seen} == {108, 12}
    assert all(labels == {"kind": {"a", "b"}, "rare": {0, 1}} for _, labels in seen)


@pytest.mark.parametrize("convert", [dict, pd.DataFrame])
def test_predictions_of_folds_are_in_the_container_of_y(convert):
    parts, net = (
        sklearn.model_selection.KFold(3, shuffle=True, random_state=0),
        MultiHeadNet(ready(4), LOSSES, **SMALL),
    )
    estimator = make_pipeline(StandardScaler(), net)
    found = cross_val_predict(estimator, X, convert(Y), cv=parts, n_jobs=2)
    probable = cross_val_predict(estimator, X, convert(Y), cv=parts, method="predict_proba")
    assert type(found) is convert
    for rows, held_out in parts.split(X):
        one = clone(estimator).fit(X[rows], {name: each[rows] for name, each in Y.items()})
        for name, expected in one.predict(X[held_out]).items():
            np.testing.assert_array_equal(np.asarray(found[name])[held_out], expected)
        np.testing.assert_array_equal(probable["kind"][held_out], one.predict_proba(X[held_out])["kind"])
    with pytest.raises(ValueError, match="a cv that tests each row once"):
        cross_val_predict(net, X, convert(Y), cv=sklearn.model_selection.ShuffleSplit(2, random_state=0))


def test_importances_of_heads():
    network = Apart(price=nn.Linear(4, 1), kind=nn.Linear(4, 3))
    net = MultiHeadNet(network, LOSSES, scale_inputs=False, **SMALL).fit(X, Y)
    sample = X[np.linspace(0, 239, 200).astype(int)]
    networks = net.model_.module.network.networks
    coefs = np.concatenate([networks[name].weight.numpy().T for name in LOSSES])
    shares = np.abs((sample - sample.mean(axis=0))[:, np.newaxis] * coefs).mean(axis=0).sum(axis=0)
    np.testing.assert_allclose(net.feature_importances_, shares / shares.sum(), rtol=1e-4)
