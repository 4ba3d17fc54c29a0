"""ONNX models and Python files take sequences of any length that the predictor takes."""

import importlib.util

import numpy as np
import pytest

from sknet import NetClassifier, NetRegressor, NetTransformer, nn, onnx, ops
from tests.estimators.data import quiet
from tests.estimators.nets import Tokens
from tests.onnx.runtime import names_and_arrays, run

RNG = np.random.default_rng(0)
STEPS, N_IDS = 9, 12
SERIES = RNG.normal(size=(30, STEPS, 3))
IDS = RNG.integers(0, N_IDS, (30, STEPS))
LENGTHS = RNG.integers(1, STEPS + 1, 30)
LABELS = np.arange(30) % 3
SHAPES = [(1, 1), (1, 5), (4, STEPS), (3, 31)]  # rows, steps


def fitted(module, X, y=LABELS, kind=NetClassifier, **given):
    # Convolutions have units of channels, which are not steps here.
    scales = module not in (Valid, Weighted)
    with quiet():
        return kind(module, max_iter=2, random_state=0, scale_inputs=scales).fit(X, y, **given)


def written(predictor, tmp_path):
    """Return the module that `to_python` writes."""
    path = tmp_path / "predictor.py"
    predictor.freeze().to_python(path)
    spec = importlib.util.spec_from_file_location("predictor", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(X, n, steps):
    """Return inputs like X with other numbers of rows and steps."""
    if X.dtype.kind == "f":
        return RNG.normal(size=(n, steps, *X.shape[2:]))
    return RNG.integers(0, N_IDS, (n, steps))


def dims(model):
    """Return the shape of each input and output of a model, with the names of free axes."""
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }


def assert_exported(estimator, cases, tmp_path, method="predict_proba", output="probabilities", **given):
    """Compare an ONNX model and a Python file with the estimator, for inputs by name; return both."""
    model = onnx.export(estimator, dtype=estimator.model_.dtype)
    module = written(estimator, tmp_path)
    for arrays in cases:
        X = arrays if len(arrays) > 1 else next(iter(arrays.values()))
        wanted = getattr(estimator, method)(X)
        np.testing.assert_allclose(getattr(module, method)(X), wanted, rtol=1e-5, atol=1e-6)
        kinds = {name: x.astype("int64" if x.dtype.kind in "iu" else estimator.model_.dtype)
                 for name, x in arrays.items()}  # fmt: skip
        found = names_and_arrays(model, *kinds.values())[output]
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)
    return model, module


@pytest.mark.parametrize("has_lengths", [False, True])
@pytest.mark.parametrize("X", [SERIES, IDS], ids=["numbers", "ids"])
@pytest.mark.parametrize("name", ["lstm", "gru", "tcn", "transformer"])
def test_named_networks(name, X, has_lengths, tmp_path):
    estimator = fitted(name, X, **({"lengths": LENGTHS} if has_lengths else {}))
    cases = [{"x": drawn(X, n, steps)} for n, steps in SHAPES]
    if has_lengths:
        counts = [RNG.integers(1, steps + 1, n) for n, steps in SHAPES]
        cases = [{**case, "lengths": each} for case, each in zip(cases, counts, strict=True)]
    model, module = assert_exported(estimator, cases, tmp_path)
    assert dims(model)["x" if has_lengths else "X"][:2] == ["n", "s1"]
    if has_lengths:
        found = module.predict(cases[3]["x"], lengths=cases[3]["lengths"])
        np.testing.assert_array_equal(found, module.predict(cases[3]))


class Valid(nn.Module):
    """Convolutions without padding, and the largest value over time; two steps are lost."""

    def __init__(self, n_outputs):
        self.layer, self.head = nn.Conv1d(3, 5, 3), nn.Linear(5, n_outputs)

    def forward(self, x):
        return self.head(ops.max(ops.relu(self.layer(ops.moveaxis(x, -1, 1))), axis=2))


class Sliced(nn.Module):
    """A learned table of positions, of which the first are taken."""

    def __init__(self, n_outputs):
        self.words, self.positions = nn.Embedding(N_IDS, 4), nn.Embedding(STEPS, 4)
        self.head = nn.Linear(4, n_outputs)

    def forward(self, x):
        return self.head(ops.mean(self.words(x) + self.positions.weight[: x.shape[1]], axis=1))


class Counted(Sliced):
    """A learned table of positions, of which numbers are looked up."""

    def forward(self, x):
        return self.head(ops.mean(self.words(x) + self.positions(ops.arange(x.shape[1])), axis=1))


class Causal(nn.Module):
    """Attention to what came before, with fixed waves as positions."""

    def __init__(self, n_outputs):
        self.words, self.positions = nn.Embedding(N_IDS, 8), nn.PositionalEncoding()
        self.layer = nn.TransformerEncoderLayer(8, 2)
        self.head = nn.Linear(8, n_outputs)

    def forward(self, x):
        return self.head(self.layer(self.positions(self.words(x)), is_causal=True)[:, -1])


class Weighted(nn.Module):
    """A mean over steps, weighted by a second sequence of the same length."""

    def __init__(self, n_outputs):
        self.head = nn.Linear(3, n_outputs)

    def forward(self, x, weight):
        return self.head(ops.sum(x * ops.expand_dims(weight, -1), axis=1) / x.shape[1])


class Ends(nn.Module):
    """The first step beside the last, backwards, and each step beside the one before."""

    def __init__(self, n_outputs):
        self.head = nn.Linear(9, n_outputs)

    def forward(self, x):
        pairs = ops.concat([x[:, 1:], x[:, :-1]], axis=1)
        return self.head(ops.concat([x[:, 0], x[:, ::-1][:, 0], ops.mean(pairs, axis=1)], axis=-1))


class Pooled(nn.Module):
    """Halves the steps: their number is no multiple of that of the inputs."""

    def __init__(self, n_outputs):
        self.pool, self.head = nn.MaxPool1d(2), nn.Linear(3, n_outputs)

    def forward(self, x):
        return self.head(ops.mean(self.pool(ops.moveaxis(x, -1, 1)), axis=2))


@pytest.mark.parametrize(
    ("module", "X", "least", "most"),
    [(Valid, SERIES, 3, 40), (Sliced, IDS, 1, STEPS), (Counted, IDS, 1, STEPS), (Causal, IDS, 1, 40),
     (Ends, SERIES, 2, 40)],
)  # fmt: skip
def test_own_networks(module, X, least, most, tmp_path):
    estimator = fitted(module, X)
    cases = [{"x": drawn(X, n, steps)} for n in (1, 4) for steps in {least, STEPS, most}]
    assert_exported(estimator, cases, tmp_path)


@pytest.mark.parametrize(
    ("module", "X", "wrong", "says"),
    [
        (Valid, SERIES, 2, r"s1, a length, to be at least 3, got 2"),
        (Sliced, IDS, STEPS + 1, rf"s1, a length, to be at least 1 and at most {STEPS}, got {STEPS + 1}"),
        (Counted, IDS, STEPS + 1, rf"s1, a length, to be at least 1 and at most {STEPS}, got {STEPS + 1}"),
    ],
)
def test_a_file_says_which_lengths_a_network_takes(module, X, wrong, says, tmp_path):
    estimator = fitted(module, X)
    given = drawn(X, 2, wrong)
    with pytest.raises((ValueError, IndexError)):
        estimator.predict(given)
    with pytest.raises(ValueError, match=says):
        written(estimator, tmp_path).predict(given)


def test_inputs_of_one_length(tmp_path):
    X = {"x": SERIES, "weight": RNG.random((30, STEPS))}
    estimator = fitted(Weighted, X, SERIES[:, 0, 0], NetRegressor)
    cases = [{"x": drawn(SERIES, n, steps), "weight": RNG.random((n, steps))} for n, steps in SHAPES]
    _, module = assert_exported(estimator, cases, tmp_path, "predict", "variable")
    with pytest.raises(ValueError, match=r"weight: expected .* of shape \(n_samples, s1\), got .*\(4, 5\)"):
        module.predict({"x": drawn(SERIES, 4, 6), "weight": RNG.random((4, 5))})


def test_a_label_of_each_step(tmp_path):
    class Tags(nn.Module):
        def __init__(self, n_outputs):
            self.layer = nn.GRU(3, 4, bidirectional=True, returns="sequence")
            self.head = nn.Linear(8, n_outputs)

        def forward(self, x):
            return self.head(self.layer(x))

    estimator = fitted(Tags, SERIES, IDS % 3)
    model = onnx.export(estimator, dtype=estimator.model_.dtype)
    module = written(estimator, tmp_path)
    assert dims(model)["label"] == ["n", "s1"]
    for n, steps in SHAPES:
        X = drawn(SERIES, n, steps)
        np.testing.assert_array_equal(module.predict(X), estimator.predict(X))
        found = names_and_arrays(model, X.astype(estimator.model_.dtype))
        np.testing.assert_array_equal(found["label"], estimator.predict(X))


def test_codes_of_sequences_and_back(tmp_path):
    class Coder(nn.Module):
        def __init__(self):
            self.encoder, self.decoder = nn.Linear(3, 2), nn.Linear(2, 3)

        def forward(self, x):
            return self.decoder(ops.tanh(self.encoder(x)))

    estimator = fitted(Coder, SERIES, None, NetTransformer)
    module = written(estimator, tmp_path)
    for n, steps in SHAPES:
        X = drawn(SERIES, n, steps)
        codes = estimator.transform(X)
        np.testing.assert_allclose(module.transform(X), codes, rtol=1e-6)
        back = estimator.inverse_transform(codes)
        np.testing.assert_allclose(module.inverse_transform(codes), back, rtol=1e-5)


@pytest.mark.parametrize("layer", ["embedding", "rnn"])
def test_layers_of_any_length(layer, tmp_path):
    X = {"tokens": IDS, "lengths": LENGTHS}
    estimator = fitted(Tokens, X)
    part = onnx.export(estimator.layer(layer))
    longer = {"tokens": drawn(IDS, 4, 20), "lengths": np.array([20, 3, 1, 9])}
    [found] = run(part, *longer.values())
    np.testing.assert_allclose(found, estimator.transform(longer, layer), rtol=1e-5, atol=1e-6)


def test_a_fixed_length_is_said_with_the_operation(tmp_path):
    estimator = fitted(Pooled, SERIES)
    assert estimator.predict(drawn(SERIES, 2, 5)).shape == (2,)
    says = r"takes only the length 9 in axis 1 of the input 'X'.*\(reshape differs\).*first is .*self\.pool"
    for write in (onnx.export, lambda x: x.freeze().to_python(tmp_path / "it.py")):
        with pytest.warns(UserWarning, match=says):
            write(estimator)
    model = onnx.export(estimator, example=drawn(SERIES, 1, 6))  # whoever gives a length is not warned
    assert dims(model)["X"] == ["n", 6, 3]


def test_columns_of_tables_are_no_sequence(tmp_path):
    class Means(nn.Module):
        def __init__(self, n_features, n_outputs):
            self.head = nn.Linear(1, n_outputs)

        def forward(self, x):
            return self.head(ops.mean(x, axis=1, keepdims=True))

    estimator = fitted(Means, SERIES[:, 0])
    assert dims(onnx.export(estimator))["X"] == ["n", 3]
    with pytest.raises(ValueError, match=r"X: expected numbers of shape \(n_samples, 3\)"):
        written(estimator, tmp_path).predict(np.ones((2, 4)))


def test_modules(tmp_path):
    module = nn.Sequential(nn.Conv1d(3, 4, 5, padding=2), nn.ReLU()).initialize(0)
    example = RNG.normal(size=(2, 3, 7)).astype("float32")
    model = onnx.export(module, example=example)
    assert dims(model) == {"x": ["n", 3, "s1"], "output": ["n", 4, "s1"]}
    for steps in (5, 7, 40):
        x = RNG.normal(size=(3, 3, steps)).astype("float32")
        np.testing.assert_allclose(run(model, x)[0], module(x).numpy(), rtol=1e-5, atol=1e-6)
