"""Hidden activations of estimators always agree with forward hooks on an eager copy."""

import pickle

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import neural_network, nn
from sknet.estimators import LayerOutput
from sknet.optim import EMA, Adam
from tests.estimators.data import CLASSIFICATIONS, TABLES, first_part, quiet


class Deep(nn.Module):
    """A typical custom network: parts, one shared activation, and operations between the parts."""

    def __init__(self, n_features, n_outputs, hidden=6):
        self.act = nn.Tanh()
        self.encoder = nn.Sequential(nn.Linear(n_features, hidden), nn.BatchNorm(hidden), nn.Dropout(0.1))
        self.middle = nn.Linear(hidden, 5)
        self.head = nn.Linear(5, n_outputs)

    def forward(self, x):
        return self.head(self.act(self.middle(self.act(self.encoder(x)))) * 2)


def fresh(name, task, **params):
    params = {"max_iter": 3, "batch_size": 64, "random_state": 0} | params
    kind = "Classifier" if task in CLASSIFICATIONS else "Regressor"
    if name == "drop-in":
        return getattr(neural_network, f"MLP{kind}")(**{"hidden_layer_sizes": (8, 4)} | params)
    params = {"scale_inputs": False} | params
    if name == "Net":
        return getattr(sknet, f"Net{kind}")(nn.ModuleFactory(Deep, hidden=6), **params)
    return getattr(sknet, f"MLP{kind}")(**{"hidden_layer_sizes": (8, 4)} | params)


# Names of estimators: layers, and the paths and calls that they are.
LAYERS = {
    "MLP": {-2: ("3", 0), 0: ("0", 0), "1": ("1", 0), -1: ("4", 0), "": ("", 0)},
    "drop-in": {-2: ("3", 0), 2: ("2", 0), "4": ("4", 0)},
    "Net": {
        -2: ("act", 1),
        0: ("encoder.0", 0),
        "encoder.1": ("encoder.1", 0),
        "act:0": ("act", 0),
        5: ("act", 1),
    },
}
TASKS = ("multiclass", "multilabel", "regression", "multioutput")


def by_hooks(estimator, X, path, call):
    """Return the output seen by a forward hook on an eager copy of the network."""
    model, found = estimator.model_, []
    twin = model.module.copy().eval()
    twin.load_state_dict(model.evaluation_parameters, strict=False)
    twin.get_submodule(path).register_forward_hook(lambda module, args, output: found.append(output.numpy()))
    twin(np.asarray(X, model.dtype))
    return found[call]


def check(estimator, name, X):
    for layer, place in LAYERS[name].items():
        expected = by_hooks(estimator, X, *place)
        for n_rows in (len(X), 1):
            found = estimator.transform(X[:n_rows], layer=layer)
            np.testing.assert_allclose(found, expected[:n_rows], rtol=1e-9, atol=1e-12)
        assert found.dtype == expected.dtype
        assert len(estimator.get_feature_names_out(layer=layer)) == found.shape[1]
        np.testing.assert_allclose(estimator.layer(layer).transform(X), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(estimator.transform(X), estimator.transform(X, -2))


@pytest.fixture(params=LAYERS)
def name(request):
    return request.param


@pytest.mark.parametrize("task", TASKS)
def test_layers(name, task):
    X, y = TABLES[task]
    with quiet():
        check(fresh(name, task).fit(X, y), name, X)


def test_sequences(name):
    """After any changes, a transformation uses the current network."""
    X, y = TABLES["multiclass"]
    estimator = fresh(name, "multiclass", warm_start=True)
    with quiet():
        for step in range(3):
            first_part("multiclass", estimator, X[: 100 + step], y[: 100 + step])
            check(estimator, name, X)
        estimator.set_params(max_iter=1).fit(X, y)
        check(estimator, name, X)
        check(pickle.loads(pickle.dumps(estimator)), name, X)
        estimator.set_params(warm_start=False, random_state=1).fit(X, y)
        check(estimator, name, X)
    other = clone(estimator)
    with pytest.raises(NotFittedError):
        other.transform(X)
    with pytest.raises(NotFittedError):
        other.layer()
    with pytest.raises(NotFittedError):
        other.get_feature_names_out()


def test_frozen_weights_and_a_module_that_was_changed():
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = fresh("Net", "multiclass").fit(X, y)
        check(estimator, "Net", X)
        estimator.model_.module.encoder.requires_grad_(False)
        check(estimator, "Net", X)
        estimator.partial_fit(X, y)
        check(estimator, "Net", X)
    estimator.model_.module.act = nn.ReLU()
    check(estimator, "Net", X)
    estimator.model_.module.encoder[1].eps = 0.3
    check(estimator, "Net", X)
    estimator.model_.module.middle.register_forward_hook(lambda module, args, output: output + 1)
    expected = by_hooks(estimator, X, "act", 1)
    np.testing.assert_allclose(estimator.transform(X), expected, rtol=1e-9)


def test_averages_are_what_transforms():
    X, y = TABLES["multiclass"]
    with quiet():
        check(fresh("MLP", "multiclass", optimizer=EMA(Adam(0.05), decay=0.9)).fit(X, y), "MLP", X)


def test_activations_of_any_rank():
    class Images(nn.Module):
        def __init__(self, n_features, n_outputs):
            self.net = nn.Sequential(
                nn.Lambda(as_images), nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(n_outputs)
            )

        def forward(self, x):
            return self.net(x)

    X, y = np.random.default_rng(0).normal(size=(40, 25)), np.arange(40) % 3
    with quiet():
        estimator = sknet.NetClassifier(Images, max_iter=2, scale_inputs=False, random_state=0).fit(X, y)
    found = estimator.transform(X, layer="net.1")
    assert found.shape == (40, 3, 3, 3)
    np.testing.assert_allclose(found, by_hooks(estimator, X, "net.1", 0), rtol=1e-9)
    assert estimator.transform(X).shape == (40, 27)
    with pytest.raises(ValueError, match=r"output of layer 'net.1' has shape \(3, 3, 3\) for each row"):
        estimator.get_feature_names_out(layer="net.1")
    with pytest.raises(ValueError, match="output of layer 1 has shape"):
        estimator.set_output(transform="pandas").transform(X, layer=1)


def as_images(x):
    return x.reshape(-1, 1, 5, 5)


def test_sparse_rows():
    X, y = scipy.sparse.random_array((90, 12), density=0.3, format="csr", rng=0), np.arange(90) % 3
    with quiet():
        estimator = fresh("MLP", "multiclass").fit(X, y)
    np.testing.assert_allclose(estimator.transform(X), by_hooks(estimator, X.toarray(), "3", 0), rtol=1e-9)
    np.testing.assert_allclose(estimator.layer(1).transform(X), estimator.transform(X, 1), rtol=1e-9)


# -- as part of scikit-learn's machinery ----------------------------------------------------------


def test_in_the_middle_of_a_pipeline(name):
    X, y = TABLES["multiclass"]
    model = make_pipeline(StandardScaler(), fresh(name, "multiclass"), LogisticRegression())
    with quiet():
        model.fit(X, y)
        network = clone(model[1]).fit(model[0].transform(X), y)
    hidden = by_hooks(network, model[0].transform(X), *LAYERS[name][-2])
    np.testing.assert_allclose(model[:-1].transform(X), hidden, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), clone(model[2]).fit(hidden, y).predict(hidden))
    assert list(model[:-1].get_feature_names_out()) == list(network.get_feature_names_out())


def test_in_unions():
    X, y = TABLES["regression"]
    union = FeatureUnion([("a", fresh("MLP", "regression")), ("b", fresh("drop-in", "regression"))])
    columns = ColumnTransformer(
        [("net", fresh("MLP", "regression"), [0, 1, 2]), ("rest", "passthrough", [3])]
    )
    with quiet():
        assert union.fit(X, y).transform(X).shape == (len(X), 8)
        assert columns.fit(X, y).transform(X).shape == (len(X), 5)
        assert make_pipeline(columns, Ridge()).fit(X, y).score(X, y) > 0
    assert columns.get_feature_names_out()[0] == "net__mlpregressor0"


@pytest.mark.parametrize("library", [pandas, polars])
def test_data_frames(library, name):
    X, y = TABLES["multiclass"]
    frame = library.DataFrame({f"x{i}": X[:, i] for i in range(X.shape[1])})
    estimator = fresh(name, "multiclass")
    with quiet():
        estimator.fit(frame, y)
    expected = {layer: estimator.transform(frame, layer=layer) for layer in LAYERS[name]}
    assert all(type(found) is np.ndarray for found in expected.values())
    alone = {layer: estimator.layer(layer) for layer in LAYERS[name]}
    setting = library.__name__
    for layer, array in expected.items():
        estimator.set_output(transform=setting)
        alone[layer].set_output(transform=setting)
        with config_context(transform_output=setting):
            frames = [
                estimator.transform(frame, layer=layer),
                alone[layer].transform(frame),
                clone(alone[layer]).transform(frame),
                pickle.loads(pickle.dumps(estimator)).transform(frame, layer),
            ]
        for found in frames:
            assert type(found) is library.DataFrame
            np.testing.assert_array_equal(np.asarray(found), array)
        assert list(frames[0].columns) == list(estimator.get_feature_names_out(layer=layer))
        assert list(frames[1].columns) == [f"layeroutput{i}" for i in range(array.shape[1])]
    with quiet():
        assert type(clone(estimator).fit_transform(frame, y)) is library.DataFrame
    estimator.set_output(transform="default")
    assert type(estimator.transform(frame)) is np.ndarray


def test_names_of_features_are_checked():
    X, y = TABLES["multiclass"]
    frame = pandas.DataFrame(X, columns=[f"x{i}" for i in range(12)])
    with quiet():
        estimator = fresh("MLP", "multiclass").fit(frame, y)
    for transformer in (estimator, estimator.layer(0), clone(estimator.layer(0))):
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            transformer.transform(frame[frame.columns[::-1]])
        with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
            transformer.get_feature_names_out([f"y{i}" for i in range(12)])


# -- layer() ----------------------------------------------------------------------------------------


def test_a_separate_layer_does_not_change():
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = fresh("Net", "multiclass").fit(X, y)
        hidden = estimator.layer()
        before = hidden.transform(X)
        estimator.fit(X, y).partial_fit(X, y)
        assert not np.allclose(estimator.transform(X), before)
        model = make_pipeline(hidden, LogisticRegression()).fit(X, y)
    for other in (hidden, hidden.fit(X, y), clone(hidden), model[0], pickle.loads(pickle.dumps(hidden))):
        np.testing.assert_array_equal(other.transform(X), before)
        np.testing.assert_array_equal(other.fit_transform(X, y), before)
    assert hidden.n_features_in_ == 12


@pytest.mark.slow
def test_a_search_over_layers():
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = fresh("MLP", "multiclass").fit(X, y)
    hidden = estimator.layer(0)
    model = make_pipeline(hidden, LogisticRegression())
    search = GridSearchCV(model, {"layeroutput__layer": [1, "3", -1]}, cv=3, n_jobs=2).fit(X, y)
    scores = [
        cross_val_score(LogisticRegression(), estimator.transform(X, layer), y, cv=3).mean()
        for layer in (1, 3, 4)
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores)
    assert hidden.layer == 0
    inside = "FrozenClassifier(12-8-4-3, relu, LogLoss, float64)"
    assert " ".join(repr(hidden).split()) == f"LayerOutput(estimator={inside}, layer=0)"


def test_a_layer_of_an_estimator_that_continues_training():
    """Given the estimator itself, a transformer is a view of it."""
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = fresh("MLP", "multiclass").fit(X, y)
        view = LayerOutput(estimator, 0)
        estimator.partial_fit(X, y)
    np.testing.assert_array_equal(view.fit(X, y).transform(X), estimator.transform(X, 0))


BAD = [
    (9, ValueError, r"there is no layer 9: Sequential has 5, 0: '0' \(Linear\), 1: '1' \(ReLU\)"),
    ("2.x", ValueError, "there is no layer '2.x'"),
    (None, TypeError, "layer must be a number or the path of a module"),
]


@pytest.mark.parametrize(("layer", "kind", "message"), BAD)
def test_missing_layers(layer, kind, message):
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = fresh("MLP", "multiclass").fit(X, y)
    for ask in (
        lambda: estimator.transform(X, layer=layer),
        lambda: estimator.layer(layer),
        lambda: estimator.get_feature_names_out(layer=layer),
        lambda: estimator.freeze().transform(X, layer=layer),
        lambda: LayerOutput(estimator, layer).fit(),
        lambda: estimator.layer(0).set_params(layer=layer).transform(X),
    ):
        with pytest.raises(kind, match=message):
            ask()


def test_a_network_without_hidden_layers_has_only_outputs():
    X = np.random.default_rng(0).normal(size=(20, 3))
    clf = sknet.MLPClassifier((), tol=1e9, n_iter_no_change=1, random_state=0).fit(X, X[:, 0] > 0)
    for asked in (
        lambda: clf.transform(X),
        clf.get_feature_names_out,
        lambda: clf.layer(-2).fit(X).transform(X),
    ):
        with pytest.raises(
            ValueError, match=r"Sequential has no hidden layer, .* '0' \(Linear\)\. Give layer=-1"
        ):
            asked()
    np.testing.assert_array_equal(clf.transform(X, layer=-1)[:, 0], clf.decision_function(X))
