"""Exported estimators: onnxruntime's outputs equal their predictions."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

import sknet
from sknet import NetClassifier, NetRegressor, NetTransformer, losses, neural_network, nn, onnx
from sknet.losses import LOSSES
from tests.estimators.data import TABLES
from tests.estimators.nets import Both, Images, Tokens
from tests.onnx.runtime import names_and_arrays

NAMES = np.array(["cold", "mild", "hot", "torrid"])
N_TRAINING = 160


def labelled(task, kind):
    """Return a table for a task with a different kind of labels."""
    X, y = TABLES[task]
    return X, {
        "int": y,
        "str": NAMES[y % 4],
        "object": NAMES[y % 4].astype(object),
        "bool": y > 0,
        "float": y + 5.0,
    }[kind]


def fitted(kind, X, y=None, **params):
    defaults = {} if "module" in params else {"hidden_layer_sizes": (7,)}
    estimator = kind(**{**defaults, "max_iter": 3, "random_state": 0, **params})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y)


def close(found, wanted, dtype="float64"):
    # onnxruntime computes some functions in single precision only
    tolerance = 2e-5 if dtype == "float32" else 3e-6
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def joined(parts):
    """Return probabilities of several columns as one array."""
    found = np.zeros((len(parts), len(parts[0]), max(part.shape[1] for part in parts)))
    for whole, part in zip(found, parts, strict=True):
        whole[:, : part.shape[1]] = part
    return found


def check_classifier(clf, model, X, dtype="float64", **given):
    """Compare labels and probabilities, for ordinary rows, extreme ones and a single one."""
    for rows in (X[N_TRAINING:], X[:1], X[:9] * 1e3, X[:3] * 0):
        found = names_and_arrays(model, rows.astype(dtype))
        assert list(found) == ["label", "probabilities"]
        labels = clf.predict(rows.astype(dtype))
        text = labels.dtype.kind in "UO"
        assert found["label"].dtype == (object if text else np.int64)
        assert found["label"].shape == labels.shape
        assert (found["label"] == labels).all()
        wanted = clf.predict_proba(rows.astype(dtype))
        wanted = joined(wanted) if isinstance(wanted, list) else wanted
        assert found["probabilities"].dtype == dtype
        close(found["probabilities"], wanted, dtype)


CLASSIFICATIONS = [
    ("binary", "int", {}),
    ("binary", "str", {}),
    ("binary", "object", {}),
    ("binary", "bool", {}),
    ("binary", "float", {}),
    ("binary", "int", {"loss": "focal"}),
    ("binary", "int", {"calibrate": "temperature", "early_stopping": True}),
    ("multiclass", "int", {}),
    ("multiclass", "str", {}),
    ("multiclass", "str", {"loss": "focal"}),
    ("multiclass", "float", {"calibrate": "temperature", "early_stopping": True}),
    ("multilabel", "int", {}),
    ("multilabel", "int", {"loss": "focal"}),
    ("ordinal", "int", {"loss": "ordinal"}),
    ("ordinal", "str", {"loss": losses.Ordinal(order=["torrid", "cold", "hot", "mild"])}),
    ("ordinal", "str", {"loss": losses.Ordinal(order=["cold", "mild", "hot", "torrid"]),
                        "calibrate": "temperature", "early_stopping": True}),
    ("binary", "str", {"loss": losses.Ordinal(order=["mild", "cold"])}),
    ("columns", "int", {}),
    ("columns", "int", {"calibrate": "temperature", "early_stopping": True}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("task", "kind", "params"), CLASSIFICATIONS, ids=str)
def test_a_classifier_gives_labels_and_probabilities(task, kind, params, dtype):
    X, y = labelled(task, kind)
    clf = fitted(sknet.MLPClassifier, X[:N_TRAINING].astype(dtype), y[:N_TRAINING], **params)
    check_classifier(clf, onnx.export(clf, dtype=dtype), X, dtype)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_classifier_of_scikit_learns_signature(task, solver):
    X, y = TABLES[task]
    clf = fitted(neural_network.MLPClassifier, X[:N_TRAINING], y[:N_TRAINING], solver=solver)
    check_classifier(clf, onnx.export(clf, dtype="float64"), X)
    check_classifier(clf, onnx.export(clf.freeze(), dtype="float64"), X)


def test_several_columns_of_strings():
    X, y = TABLES["columns"]
    clf = fitted(sknet.MLPClassifier, X, np.stack([NAMES[y[:, 0]], NAMES[y[:, 1] - 3]], axis=1))
    check_classifier(clf, onnx.export(clf, dtype="float64"), X)


@pytest.mark.parametrize("loss", ["hinge", losses.Hinge(squared=True)], ids=str)
@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_a_loss_without_probabilities_gives_scores(task, loss):
    X, y = TABLES[task]
    clf = fitted(sknet.MLPClassifier, X, y, loss=loss)
    found = names_and_arrays(onnx.export(clf, dtype="float64"), X)
    assert list(found) == ["label", "scores"]
    assert (found["label"] == clf.predict(X)).all()
    close(found["scores"], clf.decision_function(X))


@pytest.mark.parametrize("task", ["multiclass", "columns"])
def test_scores_of_several_classes(task):
    X, y = TABLES[task]
    clf = fitted(sknet.MLPClassifier, X, y, loss="multi_margin")
    found = names_and_arrays(onnx.export(clf, dtype="float64"), X)
    wanted = clf.decision_function(X)
    assert (found["label"] == clf.predict(X)).all()
    if task == "multiclass":
        close(found["scores"], wanted)
        return
    close(found["scores"][0], wanted[0])
    close(found["scores"][1, :, :2], wanted[1])
    assert (found["scores"][1, :, 2] == -np.inf).all()


def test_a_single_class_is_always_predicted():
    X, y = TABLES["binary"]
    clf = fitted(neural_network.MLPClassifier, X, np.full(len(y), "only"))
    found = names_and_arrays(onnx.export(clf, dtype="float64"), X * 100)
    assert set(found["label"]) == {"only"}


ACTIVATIONS = sorted(nn.ACTIVATIONS)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation(activation):
    X, y = TABLES["multiclass"]
    clf = fitted(sknet.MLPClassifier, X[:N_TRAINING], NAMES[y[:N_TRAINING]], activation=activation)
    found = names_and_arrays(onnx.export(clf, dtype="float64"), X)
    close(found["probabilities"], clf.predict_proba(X))
    wanted = clf.predict_proba(X)
    sure = np.diff(np.sort(wanted, axis=1)[:, -2:], axis=1)[:, 0] > 1e-5
    assert (found["label"] == clf.predict(X))[sure].all()
    assert sure.mean() > 0.9


REGRESSION_LOSSES = sorted(
    name
    for name, loss in LOSSES.items()
    if "regression" in loss.tasks and name != "kl_divergence" and loss.columns_per_target == 1
)


@pytest.mark.parametrize("loss", ["cox", "aft", losses.AFT("log_normal")], ids=str)
def test_times_until_an_event(loss):
    X, y = TABLES["regression"]
    reg = fitted(sknet.MLPRegressor, X, np.c_[1 + np.abs(y), y > 0], loss=loss)
    found = names_and_arrays(onnx.export(reg, dtype="float64"), X)["variable"]
    close(found[:, 0], reg.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("scale_target", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("task", ["counts", "many counts"])
@pytest.mark.parametrize("loss", [*REGRESSION_LOSSES, losses.Quantile([0.1, 0.5, 0.9])], ids=str)
def test_a_regressor_gives_what_it_predicts(loss, task, dtype, scale_target):
    X, y = TABLES[task]
    y = y / y.max()  # between 0 and 1, in the domain of every loss
    made = LOSSES[loss]() if isinstance(loss, str) else loss
    scale_target = scale_target and made.scaling is not None
    reg = fitted(sknet.MLPRegressor, X.astype(dtype), y, loss=loss, scale_target=scale_target)
    model = onnx.export(reg, dtype=dtype)
    for rows in (X, X[:1], X[:5] * 0):
        found = names_and_arrays(model, rows.astype(dtype))
        assert list(found) == ["variable"]
        wanted = reg.predict(rows.astype(dtype))
        assert found["variable"].dtype == wanted.dtype == ("float64" if scale_target else dtype)
        close(found["variable"], wanted.reshape(len(rows), -1), dtype)


def test_the_precision_may_be_another():
    X, y = TABLES["regression"]
    reg = fitted(sknet.MLPRegressor, X, y)
    found = names_and_arrays(onnx.export(reg, dtype="float32"), X.astype("float32"))
    close(found["variable"][:, 0], reg.predict(X), "float32")


def test_targets_far_from_zero_keep_their_precision():
    X, z = TABLES["regression"]
    y = 1e8 + z / z.std()  # neighbours in float32 are 8 apart
    reg = fitted(sknet.MLPRegressor, X.astype("float32"), y, scale_target=True)
    for dtype in (None, "float32"):
        found = names_and_arrays(onnx.export(reg, dtype=dtype), X.astype("float32"))["variable"][:, 0]
        np.testing.assert_allclose(found - 1e8, reg.predict(X) - 1e8, atol=1e-4)


def test_compositions_sum_to_one():
    X, _ = TABLES["regression"]
    y = np.abs(X[:, :3]) / np.abs(X[:, :3]).sum(axis=1, keepdims=True)
    reg = fitted(sknet.MLPRegressor, X, y, loss="kl_divergence")
    found = names_and_arrays(onnx.export(reg, dtype="float64"), X)["variable"]
    close(found, reg.predict(X))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("kind", ["network", "encoder", "ensemble"])
def test_inputs_that_single_precision_rounds_are_named_at_export(kind):
    rng = np.random.default_rng(0)
    X = rng.normal((0, 1e8, 0), size=(80, 3))  # neighbours in float32 are 8 apart
    y = X[:, 1] - 1e8
    reg = {
        "network": sknet.MLPRegressor((4,), max_iter=20, tol=1.0, random_state=0),
        "encoder": sknet.MLPRegressor((4,), encoder="table", max_iter=20, tol=1.0, random_state=0),
        "ensemble": sknet.TabularRegressor(budget=0.01, random_state=0),
    }[kind].fit(X, y)
    with pytest.warns(UserWarning, match=r"^column 1: an input of float32 .* dtype='float64'$"):
        onnx.export(reg, dtype="float32")
    double = onnx.export(reg, dtype="float64")  # without a warning
    np.testing.assert_allclose(names_and_arrays(double, X)["variable"][:, 0], reg.predict(X), atol=1e-4)
    reg.fit(X - np.array([0, 1e8, 0]), y)
    onnx.export(reg, dtype="float32")


def test_half_precision_is_close():
    X, y = labelled("multiclass", "str")
    clf = fitted(sknet.MLPClassifier, X, y)
    found = names_and_arrays(onnx.export(clf, dtype="float16"), X.astype("float16"))
    assert found["probabilities"].dtype == np.float16
    np.testing.assert_allclose(found["probabilities"], clf.predict_proba(X), rtol=1e-2, atol=2e-3)
    assert (found["label"] == clf.predict(X)).mean() > 0.97


class Tags(nn.Module):
    def __init__(self, n_outputs):
        self.embedding = nn.Embedding(20, 4)
        self.last = nn.Linear(4, n_outputs)

    def forward(self, tokens):
        return self.last(self.embedding(tokens))


RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(60, 1, 8, 8))
TOKENS = RNG.integers(0, 20, (60, 7))
LENGTHS = RNG.integers(1, 8, 60)
BOTH = {"numbers": RNG.normal(size=(60, 3)), "word": TOKENS[:, 0]}
CLASSES = NAMES[RNG.integers(0, 3, 60)]
# Network, X, y, and the names and types of the inputs.
NETWORKS = {
    "images": (Images, IMAGES, CLASSES, {"X": np.float64}),
    "token ids": (Tokens, TOKENS, CLASSES, {"X": np.int64}),
    "several inputs": (Both, BOTH, CLASSES, {"numbers": np.float32, "word": np.int64}),
    "sequences": (Tokens, {"tokens": TOKENS, "lengths": LENGTHS}, CLASSES,
                  {"tokens": np.int64, "lengths": np.int64}),
    "positions": (Tags, TOKENS, NAMES[TOKENS % 3], {"X": np.int64}),
    "numbers": (Both, BOTH, RNG.normal(size=(60, 2)), {"numbers": np.float32, "word": np.int64}),
}  # fmt: skip


@pytest.mark.parametrize("case", NETWORKS)
def test_custom_networks_take_their_inputs_by_name(case):
    module, X, y, kinds = NETWORKS[case]
    is_regression = y.dtype.kind == "f"
    estimator = fitted(NetRegressor if is_regression else NetClassifier, X, y, module=module)
    model = onnx.export(estimator, dtype=estimator.model_.dtype)
    given = X if isinstance(X, dict) else {"X": X}
    assert [x.name for x in model.graph.input] == list(kinds)
    for n_rows in (60, 1):
        part = {name: x[:n_rows] for name, x in given.items()}
        dtype = estimator.model_.dtype
        arrays = {n: x.astype(dtype if x.dtype.kind == "f" else np.int64) for n, x in part.items()}
        found = names_and_arrays(model, *[arrays[name] for name in kinds])
        rows = part if isinstance(X, dict) else part["X"]
        if is_regression:
            close(found["variable"], estimator.predict(rows), dtype)
        else:
            close(found["probabilities"], estimator.predict_proba(rows), dtype)
            assert (found["label"] == estimator.predict(rows)).all()


def test_an_example_says_other_lengths_than_those_of_the_fit():
    estimator = fitted(NetClassifier, TOKENS, NAMES[TOKENS % 3], module=Tags)
    longer = RNG.integers(0, 20, (4, 11))
    found = names_and_arrays(onnx.export(estimator, example=longer[:1]), longer)
    assert (found["label"] == estimator.predict(longer)).all()


def coders():
    X, _ = TABLES["binary"]
    yield fitted(sknet.Autoencoder, X, hidden_layer_sizes=(6, 3)), X
    yield fitted(sknet.MLPClassifier, *TABLES["multiclass"]).layer(-2), X

    class Coder(nn.Module):
        def __init__(self, n_features, n_outputs):
            self.encoder = nn.Linear(n_features, 3)
            self.decoder = nn.Linear(3, n_outputs)

        def forward(self, x):
            return self.decoder(self.encoder(x))

    yield fitted(NetTransformer, X, module=Coder), X


@pytest.mark.parametrize("number", range(3))
def test_transformers_give_what_they_transform(number):
    coder, X = list(coders())[number]
    model = onnx.export(coder, dtype="float64")
    found = names_and_arrays(model, X)
    assert list(found) == ["variable"]
    close(found["variable"], coder.transform(X))


def test_weights_that_are_averaged_are_those_of_predictions():
    X, y = TABLES["regression"]
    reg = fitted(sknet.MLPRegressor, X, y, optimizer=sknet.optim.EMA(sknet.optim.Adam()))
    close(names_and_arrays(onnx.export(reg, dtype="float64"), X)["variable"][:, 0], reg.predict(X))


def test_names_of_parameters_may_be_those_of_inputs_and_outputs():
    class Named(nn.Module):
        def __init__(self):
            for name in ("X", "label", "probabilities"):
                setattr(self, name, nn.Parameter(np.ones(12)))

        def forward(self, x):
            return (x * self.X * self.label * self.probabilities).sum(axis=1, keepdims=True)

    X, y = TABLES["binary"]
    clf = fitted(NetClassifier, X, y, module=Named())
    check_classifier(clf, onnx.export(clf, dtype="float64"), X)


def test_a_fit_in_float64_takes_float32_unless_told_otherwise():
    X, y = TABLES["multiclass"]
    clf = fitted(sknet.MLPClassifier, X, y)
    assert clf.model_.dtype == np.float64
    check_classifier(clf, onnx.export(clf), X, "float32")
    check_classifier(clf, onnx.export(clf.freeze()), X, "float32")
    check_classifier(clf, onnx.export(clf, dtype="float64"), X, "float64")


def test_the_file_is_read_back(tmp_path):
    X, y = TABLES["multiclass"]
    clf = fitted(sknet.MLPClassifier, X, y)
    onnx.export(clf, tmp_path / "classifier.onnx", dtype="float64")
    found = onnx.load(tmp_path / "classifier.onnx").eval()(sknet.Tensor(X))
    assert (found["label"].numpy() == clf.predict(X)).all()
    close(found["probabilities"].numpy(), clf.predict_proba(X))


def test_mistakes_are_named():
    X, y = TABLES["binary"]
    with pytest.raises(NotFittedError):
        onnx.export(sknet.MLPClassifier())
    with pytest.raises(TypeError, match=r"LogisticRegression: call sknet\.onnx\.register"):
        onnx.export(LogisticRegression())
    clf = fitted(sknet.MLPClassifier, X, y)
    with pytest.raises(ValueError, match="12 columns"):
        onnx.export(clf, example=X[:, :3])
    days = np.array(["2026-01-01", "2026-01-02"], "datetime64[D]")[y]
    with pytest.raises(ValueError, match="integers or strings, but those of this MLPClassifier are"):
        onnx.export(fitted(sknet.MLPClassifier, X, days))


@pytest.mark.parametrize("n_members", [1, 2])
def test_several_heads(n_members):
    class Heads(nn.Module):
        def __init__(self, n_features, n_outputs):
            self.trunk = nn.Sequential(nn.Linear(n_features, 6), nn.Tanh())
            self.heads = nn.ModuleDict({name: nn.Linear(6, width) for name, width in n_outputs.items()})

        def forward(self, x):
            x = self.trunk(x)
            return {name: head(x) for name, head in self.heads.items()}

    X, y = TABLES["multiclass"]
    columns = np.stack([y % 2, y], axis=1) + 3
    given = {"size": X[:, 0], "kind": NAMES[y % 4], "two": y > 0, "pair": columns}
    kinds = {"size": "squared_error", "kind": "log_loss", "two": "log_loss", "pair": "log_loss"}
    net = fitted(sknet.MultiHeadNet, X, given, module=Heads, loss=kinds, n_members=n_members)
    found = names_and_arrays(onnx.export(net, dtype="float64"), X)
    expected, probable = net.predict(X), net.predict_proba(X)
    assert list(found) == [*kinds, "kind_probabilities", "two_probabilities", "pair_probabilities"]
    close(found["size"].ravel(), expected["size"])
    for name in ("kind", "two", "pair"):
        np.testing.assert_array_equal(found[name], expected[name])
    close(found["kind_probabilities"], probable["kind"])
    close(found["two_probabilities"], probable["two"])
    close(found["pair_probabilities"], joined(probable["pair"]))
    with pytest.raises(ValueError, match="rename the head"):
        onnx.export(
            fitted(
                sknet.MultiHeadNet,
                X,
                {"a": y, "a_probabilities": X[:, 0]},
                module=Heads,
                loss={"a": "log_loss", "a_probabilities": "squared_error"},
            )
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("kind", ["residuals", "offset", "deviations", "quantiles"])
def test_bounds_of_targets_are_outputs(kind, n_targets):
    X, y = TABLES["regression"]
    y = y if n_targets == 1 else np.stack([y, 10 * y[::-1]], axis=1)
    loss = {"deviations": "gaussian_nll", "quantiles": losses.Quantile([0.1, 0.5, 0.9])}.get(kind, "huber")
    split = np.arange(100), np.arange(100, len(X))
    params = {"loss": loss, "calibrate": "conformal", "validation_split": split, "early_stopping": False}
    given = {"offset": np.round(3 * y, 1).reshape(-1, n_targets)} if kind == "offset" else {}
    reg = sknet.MLPRegressor((7,), max_iter=3, random_state=0, **params).fit(X, y, **given)
    found = names_and_arrays(onnx.export(reg, dtype="float64", coverage=0.8), X, *given.values())
    assert list(found) == ["variable", "lower", "upper"]
    bounds = reg.predict_interval(X, 0.8, **given).reshape(len(X), 2, n_targets)
    close(np.stack([found["lower"], found["upper"]], axis=1), bounds)
    if loss == "huber":  # the distance is the residual of the rank ceil(.8 (n + 1)) of the held-out rows
        residuals = np.sort(np.abs(y.reshape(-1, n_targets) - found["variable"])[100:], axis=0)
        distance = residuals[int(np.ceil(0.8 * (len(residuals) + 1))) - 1]
        close(found["variable"] - distance, found["lower"])
        close(found["variable"] + distance, found["upper"])


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_sets_of_classes_are_an_output(task):
    X, y = TABLES[task]
    split = np.arange(60), np.arange(60, len(X))
    params = {"calibrate": "conformal", "validation_split": split, "early_stopping": False}
    labels = NAMES[y % 4]
    clf = fitted(sknet.MLPClassifier, X, labels, **params)
    places = np.searchsorted(clf.classes_, labels[60:])
    for coverage in (0.3, 0.9):
        found = names_and_arrays(onnx.export(clf.freeze(), dtype="float64", coverage=coverage), X)
        assert list(found) == ["label", "probabilities", "set"]
        np.testing.assert_array_equal(found["set"], clf.predict_set(X, coverage))
        distances = 1.0 - found["probabilities"]
        own = np.sort(distances[60:][np.arange(len(places)), places])
        bound = own[int(np.ceil(coverage * (len(own) + 1))) - 1] + 1e-12
        is_likeliest = np.arange(len(clf.classes_)) == distances.argmin(axis=1)[:, np.newaxis]
        np.testing.assert_array_equal(found["set"], (distances <= bound) | is_likeliest)


def test_bounds_of_an_ensemble_of_a_table_are_outputs():
    X, y = TABLES["regression"]
    params = {"loss": losses.Quantile([0.1, 0.5, 0.9]), "members": 1, "n_folds": 2, "budget": 0.05}
    reg = sknet.TabularRegressor(random_state=0, **params).fit(X, y)
    found = names_and_arrays(onnx.export(reg, coverage=0.8), X.astype("float32"))
    bounds = reg.predict_interval(X.astype("float32"), 0.8)
    close(np.concatenate([found["lower"], found["upper"]], axis=1), bounds, "float32")


def test_bounds_that_a_predictor_has_not_are_refused():
    X, y = TABLES["binary"]
    clf = fitted(sknet.MLPClassifier, X, y)
    with pytest.raises(
        ValueError, match=r"coverage=0\.8 is for predictors with intervals or sets, and this Fr"
    ):
        onnx.export(clf, coverage=0.8)
    with pytest.raises(TypeError, match="an estimator with intervals or sets, got LayerOutput"):
        onnx.export(clf.layer(-2), coverage=0.8)
    reg = fitted(sknet.MLPRegressor, *TABLES["regression"], loss=losses.Quantile([0.1, 0.5, 0.9]))
    with pytest.raises(ValueError, match=r"interval of coverage 0\.5 is between the quantiles"):
        onnx.export(reg, coverage=0.5)
