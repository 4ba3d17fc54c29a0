"""Arguments of fit, partial_fit and score are routed through scikit-learn's pipelines and searches."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object

import sknet
from sknet import model_selection, nn
from sknet.callbacks import Callback
from tests.estimators.data import TABLES, WEIGHTS, quiet, same_bits

X, Y = TABLES["binary"]
X = X * 100 + 7  # useless to a network unless scaled
TARGET = TABLES["regression"][1]
GROUPS = np.random.default_rng(0).permutation(230) // 10
TRAINING, HELD_OUT = slice(0, 160), slice(160, None)


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def network():
    return nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(1))


KINDS = {
    "MLPClassifier": lambda **p: sknet.MLPClassifier((8,), **p),
    "MLPRegressor": lambda **p: sknet.MLPRegressor((8,), **p),
    "NetClassifier": lambda **p: sknet.NetClassifier(network(), **p),
    "NetRegressor": lambda **p: sknet.NetRegressor(network(), **p),
}


def made(kind, **params):
    return KINDS[kind](
        **{"max_iter": 6, "random_state": 0, "batch_size": 64, "early_stopping": True} | params
    )


def targets(kind):
    return Y if "Classifier" in kind else TARGET


def pipeline(estimator, **params):
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    return Pipeline([("scale", scaler), ("net", estimator)], **params)


ROUTED = {
    "fit": {"X_val", "y_val", "sample_weight_val", "sample_weight", "groups", "callbacks"},
    "partial_fit": {"X_val", "y_val", "sample_weight_val", "sample_weight"},
    "score": {"sample_weight"},
}


@pytest.mark.parametrize("method", ROUTED)
@pytest.mark.parametrize("kind", KINDS)
def test_every_argument_can_be_requested(kind, method):
    estimator = made(kind)
    requests = getattr(get_routing_for_object(estimator), method).requests
    assert requests.keys() >= ROUTED[method]
    # Groups are for the splitter of a search, unless a fit asks for them.
    assert {name: asked for name, asked in requests.items() if asked is not None} == (
        {"groups": False} if method == "fit" else {}
    )
    for name in ROUTED[method]:
        getattr(estimator, f"set_{method}_request")(**{name: True})
        assert getattr(get_routing_for_object(clone(estimator)), method).requests[name] is True


@pytest.mark.parametrize("kind", KINDS)
def test_validation_rows_are_routed_through_a_pipeline(kind):
    """They are scaled as the training rows are."""
    y = targets(kind)
    estimator = made(kind).set_fit_request(X_val=True, y_val=True, sample_weight=True, sample_weight_val=True)
    given = {"y_val": y[HELD_OUT], "sample_weight_val": WEIGHTS[HELD_OUT], "sample_weight": WEIGHTS[TRAINING]}
    pipe = pipeline(estimator, transform_input=["X_val"])
    scaler = StandardScaler().fit(X[TRAINING])
    with quiet():
        pipe.fit(X[TRAINING], y[TRAINING], X_val=X[HELD_OUT], **given)
        by_hand = made(kind).fit(
            scaler.transform(X[TRAINING]), y[TRAINING], X_val=scaler.transform(X[HELD_OUT]), **given
        )
    assert pipe[-1].history_["validation_loss"] == by_hand.history_["validation_loss"]
    np.testing.assert_array_equal(pipe.predict(X), by_hand.predict(scaler.transform(X)))


def test_untransformed_rows_are_validated_as_they_are():
    estimator = made("MLPClassifier").set_fit_request(X_val=True, y_val=True)
    with quiet():
        scaled, raw = (
            pipeline(clone(estimator), transform_input=names).fit(
                X[TRAINING], Y[TRAINING], X_val=X[HELD_OUT], y_val=Y[HELD_OUT]
            )
            for names in (["X_val"], None)
        )
    assert min(scaled[-1].history_["validation_loss"]) < min(raw[-1].history_["validation_loss"])


@pytest.mark.slow
def test_a_search_validates_each_candidate_on_the_same_rows():
    estimator = made("MLPClassifier", scoring=["roc_auc", "neg_log_loss"], monitor="roc_auc")
    estimator.set_fit_request(X_val=True, y_val=True, sample_weight=True).set_score_request(
        sample_weight=True
    )
    search = GridSearchCV(
        pipeline(estimator, transform_input=["X_val"]),
        {"net__optimizer__lr": [1e-3, 3e-2], "net__early_stopping": [True, False]},
        cv=2,
        scoring=get_scorer("neg_log_loss").set_score_request(sample_weight=True),
    )
    with quiet():
        search.fit(
            X[TRAINING], Y[TRAINING], X_val=X[HELD_OUT], y_val=Y[HELD_OUT], sample_weight=WEIGHTS[TRAINING]
        )
    best = search.best_estimator_
    expected = log_loss(Y[HELD_OUT], best.predict_proba(X[HELD_OUT]))
    epoch = (best[-1].best_epoch_ or best[-1].n_iter_) - 1
    assert best[-1].history_["validation_loss"][epoch] == pytest.approx(expected)
    assert best[-1].history_["validation_neg_log_loss"][epoch] == pytest.approx(-expected)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()


class Groups(Callback):
    """Records the validation rows."""

    seen: list = []

    def on_fit_begin(self, fit):
        Groups.seen.append((set(fit.training.X[:, -1]), set(fit.validation.X[:, -1])))


@pytest.mark.parametrize("split", [None, GroupKFold(3), GroupShuffleSplit(1)], ids=str)
def test_groups_are_routed_through_cross_validation(split):
    """Neither the outer nor the inner split divides a group."""
    Groups.seen.clear()
    with_groups = np.column_stack([X, GROUPS])
    estimator = made("MLPClassifier", validation_split=split, callbacks=[Groups()])
    estimator.set_fit_request(groups=True)
    with quiet():
        found = cross_validate(
            estimator, with_groups, Y, cv=GroupKFold(3), params={"groups": GROUPS}, return_estimator=True
        )
    assert len(Groups.seen) == 3
    for training, validation in Groups.seen:
        assert training
        assert validation
        assert not training & validation
        assert len(training | validation) < 23  # some are those of the outer split
    assert all(each.best_epoch_ for each in found["estimator"])


SEARCHES = {
    "scikit-learn": lambda e: GridSearchCV(e, {"random_state": [0, 1]}, cv=GroupKFold(3)),
    "grid": lambda e: model_selection.GridSearchCV(e, {"random_state": [0, 1]}, cv=GroupKFold(3)),
    "random": lambda e: model_selection.RandomizedSearchCV(
        e, {"random_state": [0, 1]}, n_iter=2, cv=GroupKFold(3)
    ),
    "halving": lambda e: model_selection.HalvingGridSearchCV(e, {"random_state": [0, 1]}, cv=GroupKFold(3)),
    "halving, random": lambda e: model_selection.HalvingRandomSearchCV(
        e, {"random_state": [0, 1]}, cv=GroupKFold(3)
    ),
    "hyperband": lambda e: model_selection.HyperbandSearchCV(
        e, {"random_state": [0, 1]}, max_resources=3, cv=GroupKFold(3)
    ),
}
OF_GROUPS = {
    **KINDS,
    "TabularClassifier": lambda **_: sknet.TabularClassifier(members=2, budget=0.01),
    "TabularRegressor": lambda **_: sknet.TabularRegressor(members=2, budget=0.01),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_GROUPS)
def test_groups_are_for_the_splitter_unless_a_fit_asks_for_them(kind):
    request = get_routing_for_object(OF_GROUPS[kind]()).fit.requests
    assert request["groups"] is False
    with quiet():
        found = cross_validate(
            OF_GROUPS[kind](max_iter=1), X, targets(kind), cv=GroupKFold(3), params={"groups": GROUPS},
            return_indices=True,
        )  # fmt: skip
    for training, held_out in zip(*(found["indices"][part] for part in ("train", "test")), strict=True):
        assert not set(GROUPS[training]) & set(GROUPS[held_out])


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("is_routed", [False, True])
@pytest.mark.filterwarnings("ignore:The total space")
def test_searches_split_by_groups_with_and_without_routing(kind, is_routed):
    estimator = made("MLPClassifier", max_iter=3, early_stopping=False)
    with sklearn.config_context(enable_metadata_routing=is_routed), quiet():
        found = SEARCHES[kind](estimator).fit(X, Y, groups=GROUPS)
    with sklearn.config_context(enable_metadata_routing=False), quiet():
        expected = SEARCHES[kind](estimator).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )


def test_callbacks_of_one_fit_are_routed_through_a_pipeline():
    Groups.seen.clear()
    pipe = pipeline(made("MLPRegressor").set_fit_request(callbacks=True))
    with quiet():
        pipe.fit(X, TARGET, callbacks=[Groups()])
    assert len(Groups.seen) == 1


def test_weights_of_a_score():
    with quiet():
        estimator = made("MLPClassifier").fit(X, Y)
    expected = estimator.score(X, Y, WEIGHTS)
    pipe = Pipeline([("net", estimator.set_score_request(sample_weight=True))])
    assert pipe.score(X, Y, sample_weight=WEIGHTS) == expected != estimator.score(X, Y)


def test_unrequested_metadata_raises():
    pipe = pipeline(made("MLPClassifier"), transform_input=["X_val"])
    with pytest.raises(ValueError, match=r"\[.*X_val.*\] are passed but are not explicitly set as requested"):
        pipe.fit(X, Y, X_val=X, y_val=Y)


def test_parts_through_a_meta_estimator():
    from sklearn.multiclass import OneVsRestClassifier

    estimator = made("MLPClassifier", early_stopping=False).set_partial_fit_request(sample_weight=True)
    meta = OneVsRestClassifier(estimator)
    meta.partial_fit(X, Y, classes=[0, 1], sample_weight=WEIGHTS)
    alone = made("MLPClassifier", early_stopping=False).partial_fit(X, Y, WEIGHTS, classes=[0, 1])
    assert same_bits(meta.estimators_[0], alone)
