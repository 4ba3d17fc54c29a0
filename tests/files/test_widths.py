"""Steps of frozen pipelines in edited files, which take other numbers of columns than they are given."""

import copy

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
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
