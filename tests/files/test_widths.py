"""Steps of frozen pipelines in edited files, which take other numbers of columns than they are given."""

import copy

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

import sknet
from sknet.exceptions import LoadError
from sknet.persistence import read_any, write

X = np.abs(np.random.default_rng(0).normal(size=(40, 3)).round(1)) + 0.1
Y = (X[:, 0] > 0.7).astype(int)
STEPS = {
    "Scaling": StandardScaler(),
    "Imputing": SimpleImputer(),
    "Projection": PCA(n_components=2),
    "Selection": SelectKBest(k=2),
    "Products": PolynomialFeatures(),
    "Bins": KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
    "Powers": PowerTransformer(),
    "BoxCox": PowerTransformer(method="box-cox"),
    "Quantiles": QuantileTransformer(n_quantiles=10),
    "OneHot": OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
    "Ordinal": OrdinalEncoder(),
    "Columns": ColumnTransformer([("a", StandardScaler(), [0, 2])]),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_take_what_they_are_given(name, tmp_path):
    frozen = sknet.freeze(make_pipeline(STEPS[name]).fit(X, Y))
    sknet.save(frozen, tmp_path / "it")
    np.testing.assert_array_equal(sknet.load(tmp_path / "it").transform(X), frozen.transform(X))
    kind, document = read_any(tmp_path / "it")
    document = copy.deepcopy(document)
    [state] = (state for found, state in document["objects"] if found.endswith(".Features"))
    state["dict"]["count"] = 2
    if name == "Products":  # which may be of the first columns
        state["dict"]["count"] = 1
    write(tmp_path / "it", document, kind)
    message = rf"a step {name} takes .* but is given [12]|of 2 columns, 2 is used"
    with pytest.raises(LoadError, match=message):
        sknet.load(tmp_path / "it")


PASSING = {
    "Binarizing": Binarizer(),
    "Elementwise": FunctionTransformer(np.log),
    "Normalizing": Normalizer(),
    "Encoding": sknet.TableEncoder(piecewise=None),
}


def changed(document, cls, **fields):
    """Return a document in which objects of a class have other fields."""
    document = copy.deepcopy(document)
    states = [state["dict"] for found, state in document["objects"] if found.endswith(f".{cls}")]
    assert states
    for state in states:
        assert state.keys() >= fields.keys()
        state.update(fields)
    return document


@pytest.mark.parametrize("name", PASSING)
def test_steps_of_any_width_pass_it_on(name, tmp_path):
    clf = sknet.MLPClassifier((3,), max_iter=5, tol=10.0, n_iter_no_change=1, random_state=0)
    frozen = sknet.freeze(make_pipeline(PASSING[name], clf).fit(X, Y))
    sknet.save(frozen, tmp_path / "it")
    np.testing.assert_array_equal(sknet.load(tmp_path / "it").predict_proba(X), frozen.predict_proba(X))
    kind, document = read_any(tmp_path / "it")
    for count in (2, 4):
        write(tmp_path / "it", changed(document, "Features", count=count), kind)
        with pytest.raises(LoadError, match=r"columns, but its last step takes 3|3 descriptions"):
            sknet.load(tmp_path / "it")


def test_names_of_an_encoding(tmp_path):
    sknet.save(sknet.freeze(make_pipeline(sknet.TableEncoder()).fit(X, Y)), tmp_path / "it")
    kind, document = read_any(tmp_path / "it")
    write(tmp_path / "it", changed(document, "Encoding", names={"tuple": ["a", "b"]}), kind)
    with pytest.raises(LoadError, match="a step Encoding takes 2 columns, but is given 3"):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_targets_are_transformed_back_from_as_many_columns(n_targets, within, tmp_path):
    regressor = sknet.MLPRegressor((3,), max_iter=5, tol=10.0, n_iter_no_change=1, random_state=0)
    y = X[:, 0] if n_targets == 1 else X[:, :2]
    model = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), regressor), transformer=StandardScaler()
    )
    model = (make_pipeline(MinMaxScaler(), model) if within else model).fit(X, y)
    frozen = sknet.freeze(model)
    sknet.save(frozen, tmp_path / "it")
    np.testing.assert_array_equal(sknet.load(tmp_path / "it").predict(X), frozen.predict(X))
    kind, document = read_any(tmp_path / "it")
    wrong = {"tuple": [{"tuple": ["multiply", np.ones(3 - n_targets)]}]}
    document = copy.deepcopy(document)
    scalings = [state["dict"] for found, state in document["objects"] if found.endswith(".Scaling")]
    [inverse] = [each for each in scalings if _width(each) == n_targets and not _is_of_inputs(each)]
    inverse["operations"] = wrong
    write(tmp_path / "it", document, kind)
    with pytest.raises(LoadError, match=rf"a step Scaling takes {3 - n_targets} columns, but is given"):
        sknet.load(tmp_path / "it")


def _width(scaling):
    return len(scaling["operations"]["tuple"][0]["tuple"][1])


def _is_of_inputs(scaling):
    return _width(scaling) == X.shape[1]


def test_a_pipeline_around_targets_gives_what_its_regressor_takes(tmp_path):
    regressor = sknet.MLPRegressor((3,), max_iter=5, tol=10.0, n_iter_no_change=1, random_state=0)
    model = make_pipeline(Normalizer(), TransformedTargetRegressor(regressor, transformer=StandardScaler()))
    sknet.save(sknet.freeze(model.fit(X, X[:, 0])), tmp_path / "it")
    kind, document = read_any(tmp_path / "it")
    write(tmp_path / "it", changed(document, "Features", count=2), kind)
    with pytest.raises(LoadError, match="its steps return 2 columns, but its last step takes 3"):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize("field", ["positions", "mask"])
def test_parts_of_tables(field, tmp_path):
    chosen = (
        ColumnTransformer([("a", StandardScaler(), [0, 2])]) if field == "positions" else SelectKBest(k=2)
    )
    clf = sknet.MLPClassifier((3,), max_iter=5, tol=10.0, n_iter_no_change=1, random_state=0)
    sknet.save(sknet.freeze(make_pipeline(chosen, clf).fit(X, Y)), tmp_path / "it")
    kind, document = read_any(tmp_path / "it")
    for _, state in document["objects"]:
        if field in state.get("dict", {}):
            changed = {"tuple": [0]} if field == "positions" else np.ones(3, bool)
            state["dict"][field] = changed
    write(tmp_path / "it", document, kind)
    with pytest.raises(LoadError, match=r"columns, but (is given 1|its last step takes 2)"):
        sknet.load(tmp_path / "it")
