"""Padded sequences with lengths: every method, against each sequence alone without padding."""

import inspect
import pickle

import numpy as np
import pandas
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.metadata_routing import get_routing_for_object

from sknet import MLPClassifier, Model, NetClassifier, NetRegressor, NetTransformer, load, nn, ops, save
from sknet.losses import Quantile
from tests.estimators.data import quiet


class Recurrent(nn.Module):
    def __init__(self, n_outputs):
        self.lstm = nn.LSTM(3, 6)
        self.hidden = nn.Linear(6, 5)
        self.head = nn.Linear(5, n_outputs)

    def forward(self, x, lengths=None):
        _, (last, _) = self.lstm(x, lengths=lengths)
        return self.head(self.hidden(last[-1]).tanh())


class Pooled(nn.Module):
    """The mean over the steps that are not padding."""

    def __init__(self, n_outputs):
        self.each = nn.Linear(3, 6)
        self.hidden = nn.Linear(6, 5)
        self.head = nn.Linear(5, n_outputs)

    def forward(self, x, lengths=None):
        steps = self.each(x).tanh()
        if lengths is None:
            pooled = steps.mean(axis=1)
        else:
            counted = (ops.arange(x.shape[1]) < ops.reshape(lengths, (-1, 1))).astype(x.dtype)
            pooled = (steps * ops.expand_dims(counted, -1)).sum(axis=1) / counted.sum(axis=1, keepdims=True)
        return self.head(self.hidden(pooled).tanh())


KINDS = {
    "binary": lambda net, **p: NetClassifier(net, **p),
    "multiclass": lambda net, **p: NetClassifier(net, **p),
    "multilabel": lambda net, **p: NetClassifier(net, **p),
    "regression": lambda net, **p: NetRegressor(net, **p),
    "scaled": lambda net, **p: NetRegressor(net, scale_target=True, **p),
    "several": lambda net, **p: NetRegressor(net, **p),
    "deviations": lambda net, **p: NetRegressor(net, loss="gaussian_nll", **p),
    "quantiles": lambda net, **p: NetRegressor(net, loss=Quantile([0.1, 0.5, 0.9]), **p),
}
METHODS = {
    "binary": ("predict", "predict_proba", "predict_log_proba", "decision_function"),
    "multiclass": ("predict", "predict_proba", "predict_log_proba", "decision_function"),
    "multilabel": ("predict", "predict_proba", "decision_function"),
    "regression": ("predict",),
    "scaled": ("predict",),
    "several": ("predict",),
    "deviations": ("predict", "predict_std", "predict_interval"),
    "quantiles": ("predict", "predict_quantiles", "predict_interval"),
}
NETS = {"recurrent": Recurrent, "pooled": Pooled}
CASES = [(kind, net, seed) for seed, net in enumerate(NETS) for kind in KINDS]


def drawn(kind, seed, n=12, steps=7):
    """Return sequences padded with noise, their lengths, and targets."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, steps + 1, n)
    X = rng.normal(size=(n, steps, 3)) + 5 * rng.normal(size=(n, steps, 3)) * padding_of(lengths, steps)
    y = {
        "binary": lambda: rng.permutation(np.arange(n) % 2),
        "multiclass": lambda: np.array(["a", "b", "c"])[rng.permutation(np.arange(n) % 3)],
        "multilabel": lambda: rng.integers(0, 2, (n, 3)),
        "several": lambda: rng.normal(size=(n, 2)),
    }.get(kind, lambda: rng.normal(size=n))()
    return X, lengths, y


def padding_of(lengths, steps):
    return (np.arange(steps) >= np.asarray(lengths)[:, None])[..., None]


def fitted(kind, net, seed, **params):
    X, lengths, y = drawn(kind, seed)
    params = {"max_iter": 3, "batch_size": 8, "random_state": seed} | params
    with quiet():
        return KINDS[kind](NETS[net], **params).fit(X, y, lengths=lengths), X, lengths, y


def each_alone(method, X, lengths, *args, **more):
    """Yield the unpadded result of every sequence, and its first element."""
    for row, length in enumerate(lengths):
        yield row, length, method(X[row : row + 1, :length], *args, lengths=[length], **more)


@pytest.mark.parametrize(("kind", "net", "seed"), CASES)
def test_predictions_are_those_of_each_sequence_alone(kind, net, seed):
    estimator, X, lengths, _ = fitted(kind, net, seed)
    for name in METHODS[kind]:
        for predictor in (estimator, estimator.freeze()):
            method = getattr(predictor, name)
            whole = method(X, lengths=lengths)
            for row, _, alone in each_alone(method, X, lengths):
                if whole.dtype.kind in "US":
                    assert whole[row] == alone[0]
                else:
                    np.testing.assert_allclose(whole[row], alone[0], rtol=1e-9, err_msg=name)
    if kind == "deviations":
        for predictor in (estimator, estimator.freeze()):
            mean, std = predictor.predict(X, return_std=True, lengths=lengths)
            np.testing.assert_array_equal(mean, predictor.predict(X, lengths=lengths))
            np.testing.assert_array_equal(std, predictor.predict_std(X, lengths=lengths))
        wide = estimator.predict_interval(X, 0.95, lengths=lengths)
        np.testing.assert_allclose(wide[:, 1] - wide[:, 0], 2 * 1.959963984540054 * std, rtol=1e-6)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("layer", [-2, -1, "hidden", "each:0"])
def test_hidden_layers_are_those_of_each_sequence_alone(net, layer):
    if layer == "each:0":
        layer = {"recurrent": "lstm", "pooled": "each"}[net]
    estimator, X, lengths, _ = fitted("multiclass", net, 3)
    transformers = (
        lambda X, **more: estimator.transform(X, layer, **more),
        lambda X, **more: estimator.transform(X, layer=layer, **more),
        estimator.layer(layer).transform,
        lambda X, **more: estimator.freeze().transform(X, layer, **more),
    )
    for transform in transformers:
        whole = transform(X, lengths=lengths)
        for row, length, alone in each_alone(transform, X, lengths):
            expected = whole[row] if whole.ndim == 2 else whole[row, :length]
            np.testing.assert_allclose(expected, alone[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["input_gradient", "integrated_gradients"])
@pytest.mark.parametrize(("kind", "net", "seed"), [c for c in CASES if c[0] != "several"])
def test_attributions_are_those_of_each_sequence_alone(kind, net, seed, name):
    estimator, X, lengths, _ = fitted(kind, net, seed)
    target = 1 if kind == "multilabel" else None
    baselines = [{}, {"baseline": 0.3}, {"baseline": X[0]}] if name == "integrated_gradients" else [{}]
    for more in baselines:
        method = getattr(estimator, name)
        whole = method(X, target=target, lengths=lengths, **more)
        assert whole.shape == X.shape
        assert not whole[np.broadcast_to(padding_of(lengths, X.shape[1]), X.shape)].any()
        for row, length in enumerate(lengths):
            begin = {k: v[:length] if np.ndim(v) else v for k, v in more.items()}
            alone = method(X[row : row + 1, :length], target=target, lengths=[length], **begin)
            np.testing.assert_allclose(whole[row, :length], alone[0], rtol=1e-7, atol=1e-12)


def test_inputs_by_name_are_a_dict():
    estimator, X, lengths, _ = fitted("binary", "pooled", 0)
    by_name = estimator.input_gradient({"x": X, "lengths": lengths})
    assert list(by_name) == ["x"]
    np.testing.assert_array_equal(by_name["x"], estimator.input_gradient(X, lengths=lengths))


class Tokens(nn.Module):
    def __init__(self, n_outputs):
        self.table = nn.Embedding(9, 4)
        self.head = nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        return self.head(self.table(x).mean(axis=1))


def test_integers_have_no_gradient():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (20, 4)), rng.integers(0, 2, 20)
    with quiet():
        alone = NetClassifier(Tokens, max_iter=2, random_state=0).fit(X, y)
        padded = NetClassifier(Tokens, max_iter=2, random_state=0).fit(X, y, lengths=[4] * 20)
    for found in (
        lambda: alone.input_gradient(X),
        lambda: alone.integrated_gradients(X),
        lambda: padded.input_gradient(X, lengths=[4] * 20),
    ):
        with pytest.raises(
            ValueError, match="X holds integers, and outputs of NetClassifier have no gradient"
        ):
            found()


def test_frames_keep_their_index():
    rng = np.random.default_rng(0)
    index = [f"row {i}" for i in range(20)]
    frame = pandas.DataFrame(rng.integers(0, 9, (20, 4)), index=index, columns=list("abcd"))
    with quiet():
        net = NetClassifier(Tokens, max_iter=2, random_state=0).fit(frame, [0, 1] * 10, lengths=[4] * 20)
    found = net.set_output(transform="pandas").transform(frame, layer="head", lengths=[4] * 20)
    assert list(found.index) == index
    assert list(found.columns) == ["netclassifier0"]


# -- routing -------------------------------------------------------------------------------------------

ROUTED = {
    NetClassifier: (
        "fit",
        "partial_fit",
        "predict",
        "predict_proba",
        "predict_log_proba",
        "score",
        "transform",
    ),
    NetRegressor: ("fit", "partial_fit", "predict", "score", "transform"),
}


@pytest.mark.parametrize("kind", ROUTED)
def test_lengths_can_be_requested_of_every_method(kind):
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = kind(Recurrent)
        requests = get_routing_for_object(estimator)
        for method in ROUTED[kind]:
            assert "lengths" in getattr(requests, method).requests
        assert "lengths" in get_routing_for_object(nn_layer()).transform.requests


def nn_layer():
    return fitted("binary", "pooled", 0)[0].layer(-2)


def test_every_method_of_inputs_takes_lengths():
    """Every method that takes X takes lengths: a new method without them fails here."""
    for kind in (NetClassifier, NetRegressor, NetTransformer):
        for name in dir(kind):
            if name.startswith("_") or name in ("fit_transform",):
                continue
            method = inspect.getattr_static(kind, name)
            method = getattr(method, "fn", method)
            if callable(method) and "X" in inspect.signature(method).parameters:
                assert "lengths" in inspect.signature(method).parameters, f"{kind.__name__}.{name}"


def requested(estimator):
    for method in ("fit", *ROUTED[type(estimator)][2:]):
        getattr(estimator, f"set_{method}_request")(lengths=True)
    return estimator


def doubled(X):
    return 2 * X


def test_lengths_are_routed_through_a_pipeline():
    X, lengths, y = drawn("binary", 5)
    net = NetClassifier(Recurrent, max_iter=3, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True), quiet():
        pipe = make_pipeline(FunctionTransformer(doubled), requested(net)).fit(X, y, lengths=lengths)
        by_hand = NetClassifier(Recurrent, max_iter=3, random_state=0).fit(2 * X, y, lengths=lengths)
        for name in ("predict", "predict_proba", "transform"):
            found = getattr(pipe, name)(X, lengths=lengths)
            np.testing.assert_array_equal(found, getattr(by_hand, name)(2 * X, lengths=lengths))
        assert pipe.score(X, y, lengths=lengths) == by_hand.score(2 * X, y, lengths=lengths)
        layer = by_hand.layer(-2).set_transform_request(lengths=True)
        last = NetClassifier(nn.Sequential(nn.LazyLinear(1)), max_iter=2, random_state=0)
        last.set_fit_request(lengths=False).set_predict_request(lengths=False)
        stacked = Pipeline([("layer", layer), ("last", last)]).fit(X, y, lengths=lengths)
        codes = by_hand.transform(X, lengths=lengths)
        np.testing.assert_array_equal(stacked.predict(X, lengths=lengths), stacked[-1].predict(codes))


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_lengths_are_split_with_the_rows_in_searches_and_cross_validation(kind):
    X, lengths, y = drawn(kind, 6, n=24)
    made = {"binary": NetClassifier, "regression": NetRegressor}[kind]
    with sklearn.config_context(enable_metadata_routing=True), quiet():
        net = requested(made(Recurrent, max_iter=3, random_state=0))
        pipe = make_pipeline(FunctionTransformer(doubled), net)
        found = cross_validate(
            pipe, X, y, cv=3, params={"lengths": lengths}, return_estimator=True, return_indices=True
        )
        for i, estimator in enumerate(found["estimator"]):
            train, test = found["indices"]["train"][i], found["indices"]["test"][i]
            alone = made(Recurrent, max_iter=3, random_state=0).fit(
                2 * X[train], y[train], lengths=lengths[train]
            )
            expected = alone.score(2 * X[test], y[test], lengths=lengths[test])
            assert found["test_score"][i] == expected
            np.testing.assert_array_equal(
                estimator.predict(X, lengths=lengths), alone.predict(2 * X, lengths=lengths)
            )
        name = type(net).__name__.lower()
        search = GridSearchCV(pipe, {f"{name}__alpha": [0.0, 0.1]}, cv=3, error_score="raise")
        search.fit(X, y, lengths=lengths)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_estimator_.predict(X, lengths=lengths).shape == y.shape


def test_lengths_of_a_table_raise():
    frozen = MLPClassifier((4,), max_iter=1, tol=1e9, random_state=0)
    with quiet():
        frozen = frozen.fit(np.ones((4, 2)), [0, 1, 0, 1]).freeze()
    with pytest.raises(
        TypeError, match="lengths= are for sequences, and this FrozenClassifier takes a table"
    ):
        frozen.predict(np.ones((4, 2)), lengths=[1, 1, 1, 1])


# -- forgotten -----------------------------------------------------------------------------------------

FORGOTTEN = (
    "the network was fitted with lengths, and without them padding would be read as data: give lengths="
)


@pytest.mark.parametrize(("kind", "net", "seed"), CASES)
def test_predictions_without_the_lengths_of_the_fit_raise(kind, net, seed):
    estimator, X, _, y = fitted(kind, net, seed)
    for predictor in (estimator, estimator.freeze()):
        names = [*METHODS[kind], "transform"]
        names += ["score", "input_gradient", "integrated_gradients"] if predictor is estimator else []
        for name in names:
            more = {"y": y} if name == "score" else {}
            if "gradient" in name and kind in ("multilabel", "several"):
                more = {"target": 0}
            for given in (X, {"x": X}):
                with pytest.raises(ValueError, match=FORGOTTEN):
                    getattr(predictor, name)(given, **more)
    with pytest.raises(ValueError, match=FORGOTTEN):
        estimator.layer(-2).transform(X)


class Last(nn.Module):
    """A network that reads sequences, with an input that is optional."""

    def __init__(self):
        self.cell = nn.GRU(2, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x, lengths=None):
        _, last = self.cell(x, lengths=lengths)
        return self.head(last[-1])


def as_saved(model, folder):
    save(model, folder / "model")
    return load(folder / "model", trusted=[Last])


@pytest.mark.parametrize("way", ["fit", "train", "step", "lbfgs"])
def test_models_refuse_what_lacks_the_lengths_of_the_fit(way, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 5, 2)).astype(np.float32), rng.normal(size=(8, 1))
    given = {"x": x, "lengths": np.arange(8) % 5 + 1}
    model = Model(Last(), optimizer="lbfgs" if way == "lbfgs" else "adam", random_state=0)
    with quiet():
        if way == "train":
            model.train([(given, y)])
        elif way == "step":
            model.step(given, y)
        else:
            model.fit(given, y, epochs=1)
    right = model.predict(given)
    for each in (model, model.copy(), pickle.loads(pickle.dumps(model)), as_saved(model, tmp_path)):
        np.testing.assert_array_equal(each.predict(given), right)
        for wrong in (x, {"x": x}):
            with pytest.raises(ValueError, match=r"fitted with lengths.*give X=\{'x': ..., 'lengths': ...\}"):
                each.predict(wrong)
    if way == "fit":
        with pytest.raises(ValueError, match=r"fitted with lengths.*give X_val=\{'x'"):
            model.fit(given, y, epochs=1, X_val=x, y_val=y)
    model.optimizer = "adam"
    model.step(x, y)  # the latest training has none
    assert model.predict(x).shape == (8, 1)


def test_fits_that_continue_without_lengths_raise():
    estimator, X, lengths, y = fitted("binary", "recurrent", 0, warm_start=True)
    before = estimator.predict_proba(X, lengths=lengths)
    for fit in (estimator.fit, estimator.partial_fit):
        with pytest.raises(ValueError, match=FORGOTTEN):
            fit(X, y)
    np.testing.assert_array_equal(estimator.predict_proba(X, lengths=lengths), before)


@pytest.mark.parametrize("kind", ["binary", "regression"])
@pytest.mark.parametrize("params", [{}, {"early_stopping": True}])
def test_a_validation_without_lengths_raises(kind, params):
    X, lengths, y = drawn(kind, 3)
    net = KINDS[kind](Recurrent, max_iter=2, random_state=0, **params)
    with pytest.raises(ValueError, match=r"X_val and y_val .*lengths_val= with X_val"):
        net.fit(X[:8], y[:8], lengths=lengths[:8], X_val=X[8:], y_val=y[8:])
    with pytest.raises(ValueError, match=r"X_val and y_val .*lengths_val= with X_val"):
        net.partial_fit(X[:8], y[:8], lengths=lengths[:8], X_val=X[8:], y_val=y[8:], **classes_of(kind))


def classes_of(kind):
    return {"classes": [0, 1]} if kind == "binary" else {}


class Masked(nn.Module):
    def __init__(self, n_outputs):
        self.head = nn.Linear(3, n_outputs)

    def forward(self, x, mask=None):
        return self.head(x if mask is None else x * mask)


def test_any_input_of_the_fit_that_is_missing_is_named():
    rng = np.random.default_rng(0)
    X, mask, y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 3)) * 1.0, rng.integers(0, 2, 20)
    with quiet():
        net = NetClassifier(Masked, max_iter=2, random_state=0).fit({"x": X, "mask": mask}, y)
    for predictor in (net, net.freeze()):
        for given in (X, {"x": X}):
            with pytest.raises(ValueError, match=r"fitted with the input 'mask', and X has only \['x'\]"):
                predictor.predict(given)
