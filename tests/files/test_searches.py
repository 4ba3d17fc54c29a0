"""Searches in files: predictions, scores, results, and a best estimator that is slim for predictions."""

import numpy as np
import pytest
from scipy.stats import loguniform, norm, randint
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet.exceptions import LoadError
from sknet.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
)
from sknet.persistence import read_any, write
from tests.estimators.data import quiet
from tests.files.test_fields import edited, put
from tests.fuzz.layout import apart, together

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 20))
Y = (X[:, 0] > 0).astype(int)
NET = sknet.MLPClassifier((300,), max_iter=2, random_state=0)
GRID = {"alpha": [1e-4, 1e-2, 0.1], "activation": ["relu", "tanh"]}
DRAWN = {"alpha": loguniform(1e-5, 1), "n_iter_no_change": randint(2, high=9), "activation": ["relu", "tanh"]}
SEARCHES = {
    "grid": lambda: GridSearchCV(NET, GRID, cv=2),
    "several scores": lambda: GridSearchCV(
        NET, GRID, cv=2, scoring=["roc_auc", "neg_log_loss"], refit="roc_auc"
    ),
    "scores by name": lambda: GridSearchCV(NET, GRID, cv=2, scoring={"a": "f1", "b": "accuracy"}, refit="a"),
    "without refit": lambda: GridSearchCV(NET, GRID, cv=2, refit=False),
    "random": lambda: RandomizedSearchCV(NET, DRAWN, n_iter=3, cv=2, random_state=0, scoring="roc_auc"),
    "halving": lambda: HalvingGridSearchCV(NET, GRID, cv=2, random_state=0),
    "random halving": lambda: HalvingRandomSearchCV(NET, DRAWN, cv=2, random_state=0),
    "hyperband": lambda: HyperbandSearchCV(NET, DRAWN, cv=2, random_state=0),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_come_back(name, tmp_path):
    with quiet():
        search = SEARCHES[name]().fit(X, Y)
    for include in ("all", "predict"):
        sknet.save(search, tmp_path / "it", include)
        found = sknet.load(tmp_path / "it")
        assert type(found) is type(search)
        assert repr(found.cv_results_) == repr(search.cv_results_)
        assert found.cv_results_["param_alpha"].mask.shape == search.cv_results_["param_alpha"].mask.shape
        if name != "without refit":
            np.testing.assert_array_equal(found.predict_proba(X), search.predict_proba(X))
            assert found.score(X, Y) == search.score(X, Y)
            assert found.best_params_ == search.best_params_
            own = sum(array.nbytes for array in search.best_estimator_.model_.parameters.values())
            assert ((tmp_path / "it").stat().st_size < 1.05 * own + 4000) == (include == "predict")
    with quiet():
        again = sknet.load(tmp_path / "it").fit(X, Y)
    for key in ("mean_test_score", "mean_test_roc_auc", "mean_test_a"):
        if key in search.cv_results_:
            np.testing.assert_array_equal(again.cv_results_[key], search.cv_results_[key])


@pytest.mark.parametrize("distribution", [norm(), norm(1, scale=2), randint(1, 5), loguniform(0.1, 1, loc=3)])
def test_distributions_draw_the_same(distribution, tmp_path):
    sknet.save(RandomizedSearchCV(NET, {"alpha": distribution}), tmp_path / "it")
    found = sknet.load(tmp_path / "it").param_distributions["alpha"]
    np.testing.assert_array_equal(found.rvs(9, random_state=0), distribution.rvs(9, random_state=0))


def test_scorers_without_a_name_are_refused(tmp_path):
    search = GridSearchCV(NET, GRID, scoring=make_scorer(fbeta_score, beta=3))
    with pytest.raises(TypeError, match="scoring: it is a scorer that scikit-learn has no name for"):
        sknet.save(search, tmp_path / "it")


WRONG = {
    "scorer": ["nonsense", "os.system", 5, None, [1], {"tuple": []}],
    "distribution": [
        ["os", [], {"dict": {}}],
        ["_distn", [], {"dict": {}}],
        ["norm", ["a"], {"dict": {"b": 1}}],
        3,
    ],
    "masked": [[1, 2, 3], [1], "x"],
    "timedelta": ["123", [1.5], [1, 2], [1, 2, "3"], [True, 0, 0], 5],
}


def test_the_networks_of_a_best_pipeline_are_slim(tmp_path):
    pipeline = make_pipeline(StandardScaler(), NET)
    with quiet():
        search = GridSearchCV(pipeline, {"mlpclassifier__alpha": [1e-3]}, cv=2).fit(X, Y)
    sizes = {}
    for include in ("all", "predict"):
        sknet.save(search, tmp_path / "it", include)
        sizes[include] = (tmp_path / "it").stat().st_size
        found = sknet.load(tmp_path / "it", trusted=[Pipeline, StandardScaler])
        np.testing.assert_array_equal(found.predict_proba(X), search.predict_proba(X))
    own = sum(x.nbytes for x in search.best_estimator_[-1].model_.parameters.values())
    assert sizes["predict"] < sizes["all"] - 1.5 * own  # without the optimizer's two averages
    assert search.best_estimator_[-1].model_.state  # nothing is taken from the search itself


@pytest.mark.parametrize(
    ("tag", "content"), [(tag, content) for tag in WRONG for content in WRONG[tag]], ids=str
)
def test_wrong_values_are_refused(tag, content, tmp_path):
    sknet.save(RandomizedSearchCV(NET, {"alpha": norm()}), tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    state = document["objects"][-1][1]["dict"]["params"]["dict"]
    assert "distribution" in state["param_distributions"]["dict"]["alpha"]
    state["param_distributions"] = {tag: content}
    (tmp_path / "it").write_bytes(together(header, document, arrays))
    with pytest.raises(LoadError, match="cannot be loaded"):
        sknet.load(tmp_path / "it")


# -- edited results ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path, found = tmp_path_factory.mktemp("searches") / "it", {}

    def of(name):
        if name not in found:
            with quiet():
                sknet.save(SEARCHES[name]().fit(X, Y), path)
            found[name] = read_any(path)[1]
        return found[name]

    return of


RESULTS = ["state", "cv_results_"]
ZEROS = np.zeros(6)
EDITED = {
    "a column of another length": ("grid", [*RESULTS, "mean_fit_time"], np.zeros(5)),
    "a column of texts": ("grid", [*RESULTS, "mean_test_score"], {"texts": np.full((6, 1), 97, np.uint32)}),
    "a column that is a number": ("grid", [*RESULTS, "mean_test_score"], 0.5),
    "a column that is a list": ("grid", [*RESULTS, "mean_test_score"], [0.5] * 6),
    "an unknown column": ("grid", [*RESULTS, "planted()"], ZEROS),
    "no split": ("grid", [*RESULTS, "split1_test_score"], ...),
    "one split more": ("grid", [*RESULTS, "split2_test_score"], ZEROS),
    "a huge number of splits": ("grid", ["state", "n_splits_"], 2**52),
    "no candidates": ("grid", [*RESULTS, "params"], ...),
    "candidates that are texts": ("grid", [*RESULTS, "params"], ["alpha"] * 6),
    "candidates of nothing": ("grid", [*RESULTS, "params"], [{"dict": {}}] * 6),
    "a parameter that is none": ("grid", [*RESULTS, "params"], [{"dict": {"planted": 1}}] * 6),
    "no column of a parameter": ("grid", [*RESULTS, "param_alpha"], ...),
    "a column of no parameter": ("grid", [*RESULTS, "param_tol"], ZEROS),
    "a masked candidate": (
        "grid", [*RESULTS, "param_alpha"], {"masked": [ZEROS, np.ones(6, bool), 0.0]},
    ),
    "a best candidate out of range": ("grid", ["state", "best_index_"], 6),
    "a negative best candidate": ("grid", ["state", "best_index_"], -1),
    "other best parameters": (
        "grid", ["state", "best_params_"], {"dict": {"alpha": 7.0, "activation": "relu"}},
    ),
    "best parameters that are a text": ("grid", ["state", "best_params_"], "alpha"),
    "another best score": ("grid", ["state", "best_score_"], 7.0),
    "a best score that is a text": ("grid", ["state", "best_score_"], "7"),
    "another best estimator": ("grid", ["state", "best_estimator_"], {"class": "sknet.nn.Linear"}),
    "other scorers": ("several scores", ["state", "scorer_"], {"dict": {"f1": {"scorer": "f1"}}}),
    "scorers of one": ("several scores", ["state", "multimetric_"], False),
    "rungs that differ": ("halving", ["state", "n_resources_"], [1, 2, 3, 4, 5]),
    "rungs of nothing": ("halving", ["state", "n_candidates_"], [0]),
    "no dispatch": ("halving", ["state", "pre_dispatch"], ...),
    "iterations that are floats": ("halving", [*RESULTS, "iter"], ZEROS),
    "brackets of other fields": ("hyperband", ["state", "brackets_"], [{"dict": {"bracket": 0}}]),
    "brackets that differ": (
        "hyperband",
        ["state", "brackets_"],
        [{"dict": {"bracket": 0, "n_candidates": [1, 2], "n_resources": [1]}}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITED)
def test_edited_searches_are_refused(name, saved, tmp_path):
    which, path, value = EDITED[name]
    cls = type(SEARCHES[which]()).__name__
    write(tmp_path / "it", edited(saved(which), cls, put(path, value)), "object")
    with pytest.raises(LoadError, match=rf"an invalid sknet\.model_selection\.{cls}: ValueError: "):
        sknet.load(tmp_path / "it")
    write(tmp_path / "it", saved(which), "object")
    sknet.load(tmp_path / "it")
