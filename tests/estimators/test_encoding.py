"""``encoder="table"`` equals encoding the training rows by hand."""

import contextlib
import pickle
import unittest

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import sknet
from sknet import Autoencoder, MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, NetTransformer, nn
from sknet.callbacks import Callback, Checkpoint
from sknet.optim import Adam
from sknet.preprocessing import TableEncoder
from tests.fuzz.tables import drawn, harmed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.encoder = nn.Linear(n_features, 8)
        self.decoder = nn.Linear(8, n_outputs)

    def forward(self, x):
        return self.decoder(self.encoder(x).tanh())


class TwoInputs(nn.Module):
    def __init__(self, n_outputs):
        self.last = nn.LazyLinear(n_outputs)

    def forward(self, a, b):
        return self.last(a + b)


SMALL = {"max_iter": 5, "random_state": 0}


def small(params):
    """Return parameters of an estimator that does not standardize what is encoded by hand either."""
    return SMALL | {"scale_inputs": "encoder" in params} | params


KINDS = {
    "MLPClassifier": lambda **params: MLPClassifier((8,), **small(params)),
    "MLPRegressor": lambda **params: MLPRegressor((8,), **small(params)),
    "NetClassifier": lambda **params: NetClassifier(Net, **small(params)),
    "NetRegressor": lambda **params: NetRegressor(Net, **small(params)),
    "NetTransformer": lambda **params: NetTransformer(Net, **small(params)),
}


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 80, n)),
            "city": rng.choice(["Rome", "Bern", "Oslo"], n),
            "zip": rng.choice([f"z{i}" for i in range(60)], n),
            "member": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    signal = frame["member"] * 2.0 - (frame["city"] == "Bern") + frame["age"].fillna(40) / 40
    return frame, (signal + 0.2 * rng.normal(size=n)).to_numpy()


X, SIGNAL = table()
LABELS = np.where(SIGNAL > 1.7, "yes", "no")
ENCODER = TableEncoder(n_bins=4, random_state=3)


def targets(kind):
    return LABELS if kind.endswith("Classifier") else None if kind.endswith("Transformer") else SIGNAL


def by_hand(kind, rows=slice(None)):
    """Return all rows, in order, encoded by an encoder fitted on some of them."""
    encoder = clone(ENCODER).set_params(target_type="classification" if "Class" in kind else "regression")
    y = targets(kind)
    own = encoder.fit_transform(X.iloc[rows], None if y is None else y[rows])
    found = encoder.transform(X)
    found[rows] = own
    return encoder, found


def outputs(estimator, rows):
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(rows)
    return estimator.predict(rows) if hasattr(estimator, "predict") else estimator.transform(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_learns_what_it_would_from_a_table_encoded_by_hand(kind):
    y = targets(kind)
    found = KINDS[kind](encoder=ENCODER).fit(X, y)
    encoder, encoded = by_hand(kind)
    expected = KINDS[kind]().fit(encoded, y)
    np.testing.assert_array_equal(outputs(found, X), outputs(expected, encoder.transform(X)))
    assert found.n_features_in_ == 5
    assert found.feature_names_in_.tolist() == list(X)
    assert found.encoder_.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    if y is not None:
        assert found.score(X, y) == expected.score(encoder.transform(X), y)
    polars = KINDS[kind](encoder=ENCODER).fit(pl.from_pandas(X), y)
    np.testing.assert_array_equal(outputs(polars, pl.from_pandas(X)), outputs(found, X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("refit", [False, True])
def test_held_out_rows_are_not_used(kind, refit):
    order = np.random.default_rng(1).permutation(len(X))
    pair = order[:80], order[90:]  # ten rows are in neither
    params = {"validation_split": pair, "early_stopping": True, "refit_on_all": refit}
    found = KINDS[kind](encoder=ENCODER, **params).fit(X, targets(kind))
    encoder, encoded = by_hand(kind, np.sort(pair[0]))
    expected = KINDS[kind](**params).fit(encoded, targets(kind))
    assert found.history_["validation_loss"] == expected.history_["validation_loss"]
    np.testing.assert_array_equal(outputs(found, X), outputs(expected, encoder.transform(X)))


def test_a_share_of_the_rows_is_held_out_before_the_encoder_is_fitted():
    """The row with the largest age is held out; an encoder fitted on it would have a larger edge."""
    seen = []
    for row in range(10):
        rows = X.assign(age=np.where(np.arange(len(X)) == row, 1000.0, 30.0))
        clf = MLPClassifier((4,), encoder="table", early_stopping=True, **SMALL).fit(rows, LABELS)
        seen.append("age" in clf.encoder_.get_feature_names_out())
    assert 0 < sum(seen) < 10
    groups = np.arange(len(X)) // 4
    grouped = MLPClassifier((4,), encoder="table", early_stopping=True, **SMALL)
    assert grouped.fit(X, LABELS, groups=groups).best_epoch_
    grouped.set_params(validation_split=GroupShuffleSplit(1)).fit(X, LABELS, groups=groups)
    with pytest.raises(ValueError, match=r"groups: .*inconsistent numbers of samples"):
        grouped.fit(X, LABELS, groups=groups[:7])


@pytest.mark.parametrize("kind", KINDS)
def test_parts_after_the_first_are_only_transformed(kind):
    y, first = targets(kind), slice(60)
    more = {"classes": ["no", "yes"]} if kind.endswith("Classifier") else {}
    found, expected = KINDS[kind](encoder=clone(ENCODER)), KINDS[kind]()
    encoder, _ = by_hand(kind, first)
    y_first = None if y is None else y[first]
    encoded = clone(encoder).fit_transform(X[first], y_first)
    validated = {} if y is None else {"y_val": y}
    found.partial_fit(X[first], y_first, X_val=X, **validated, **more)
    expected.partial_fit(encoded, y_first, X_val=encoder.transform(X), **validated, **more)
    for _ in range(2):
        found.partial_fit(X, y)
        expected.partial_fit(encoder.transform(X), y)
    np.testing.assert_array_equal(outputs(found, X), outputs(expected, encoder.transform(X)))
    found.set_params(warm_start=True).fit(X, y)
    expected.set_params(warm_start=True).fit(encoder.transform(X), y)
    np.testing.assert_array_equal(outputs(found, X), outputs(expected, encoder.transform(X)))
    with pytest.raises(ValueError, match=r"encoder was TableEncoder.* and is TableEncoder.*n_bins=5"):
        found.set_params(encoder__n_bins=5).partial_fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_predict_the_same(kind, tmp_path):
    found = KINDS[kind](encoder="table").fit(X, targets(kind))
    expected = outputs(found, X)
    sknet.save(found, tmp_path / "model")
    sknet.save(found.freeze(), tmp_path / "frozen")
    for other in (
        pickle.loads(pickle.dumps(found)),
        sknet.load(tmp_path / "model", trusted=[Net]),
        found.slim(),
    ):
        np.testing.assert_array_equal(outputs(other, X), expected)
    for other in (
        found.freeze(),
        pickle.loads(pickle.dumps(found.freeze())),
        sknet.load(tmp_path / "frozen", trusted=[Net]),
    ):
        np.testing.assert_allclose(outputs(other, X), expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(outputs(other, X[:1]), expected[:1], rtol=1e-5, atol=1e-7)
        assert other.n_features_in_ == 5
    assert clone(found).get_params(deep=False)["encoder"] == "table"
    width = found.encoder_.n_features_out_
    if not kind.endswith("Transformer"):
        assert found.input_gradient(X[:3]).shape == (3, width)
    np.testing.assert_allclose(found.layer(-2).transform(X), found.transform(X, layer=-2), rtol=1e-5)


def test_a_grid_reaches_into_the_encoder():
    grid = {"encoder__n_bins": [2, 8], "encoder__piecewise": ["tree", None]}
    search = GridSearchCV(KINDS["MLPClassifier"](encoder="table"), grid, cv=2).fit(X, LABELS)
    chosen = search.best_estimator_.encoder_
    assert search.best_params_ == {name: getattr(chosen, name.removeprefix("encoder__")) for name in grid}
    with pytest.raises(ValueError, match="Invalid parameter 'bins'"):
        MLPClassifier(encoder="table").set_params(encoder__bins=3)


def test_a_fit_that_is_resumed_has_the_same_encoder(tmp_path):
    class Stop(Callback):
        def on_epoch_end(self, fit):
            return "stop" if fit.epoch == 2 else None

    for seed in (0, None):
        folder = tmp_path / str(seed)
        params = {"encoder": "table", "early_stopping": True, "random_state": seed, "max_iter": 6}
        clf = KINDS["MLPClassifier"](**params, callbacks=[Checkpoint(folder)])
        clf.fit(X, LABELS, callbacks=[Stop()])
        resumed = KINDS["MLPClassifier"](**params).fit(X, LABELS, resume_from=folder)
        names = clf.encoder_.get_feature_names_out()
        assert resumed.encoder_.get_feature_names_out().tolist() == names.tolist()
        np.testing.assert_array_equal(resumed.encoder_.transform(X), clf.encoder_.transform(X))
        assert resumed.history_["validation_loss"][:2] == clf.history_["validation_loss"][:2]
        if seed is not None:
            whole = KINDS["MLPClassifier"](**params).fit(X, LABELS)
            np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_scorers_and_solvers():
    def looks(estimator, rows, y):
        assert rows.shape == (len(y), width)
        return float((estimator.predict(rows[:5]) == y[:5]).mean())

    width = MLPClassifier(encoder="table", **SMALL).fit(X, LABELS).encoder_.n_features_out_
    clf = MLPClassifier((8,), encoder="table", scoring={"own": looks, "auc": "roc_auc"}, **SMALL)
    clf.fit(X, LABELS, X_val=X[:20], y_val=LABELS[:20])
    expected = (clf.predict(X[:5]) == LABELS[:5]).mean()
    assert clf.history_["validation_own"][-1] == expected
    full = MLPRegressor((8,), encoder="table", optimizer="lbfgs", max_iter=300, random_state=0)
    assert full.fit(X, SIGNAL).score(X, SIGNAL) > 0.9


def test_tables_of_many_levels_stay_sparse():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({f"c{i}": rng.choice([f"l{j}" for j in range(30)], 400) for i in range(3)})
    y = rows["c0"].str.len().to_numpy() == 3
    clf = MLPClassifier((8,), encoder="table", optimizer=Adam(lr=0.02), early_stopping=True, random_state=0)
    clf.fit(rows, y)
    assert sp.issparse(clf.encoder_.transform(rows))
    assert clf.score(rows, y) > 0.95
    numbers = sp.csr_array(np.where(rng.random((50, 9)) < 0.3, rng.normal(size=(50, 9)), 0.0))
    coder = NetTransformer(Net, encoder="table", **SMALL).fit(numbers)
    assert coder.inverse_transform(coder.transform(numbers)).shape == (50, 9)


@pytest.mark.parametrize(("dtype", "container"), [("float64", "array"), ("float32", "frame")])
def test_precision_is_that_of_the_network(dtype, container):
    rows = X[["age"]] if container == "frame" else X[["age"]].to_numpy()
    raw = SMALL | {"scale_target": False}  # predictions have the precision of targets in other units, too
    found = MLPRegressor((4,), encoder="table", **raw).fit(rows, SIGNAL)
    assert found.predict(rows).dtype == dtype
    other = {"float32": "float64", "float64": "float32"}[dtype]
    asked = MLPRegressor((4,), encoder="table", dtype=other, **raw).fit(rows, SIGNAL)
    assert asked.predict(rows).dtype == asked.encoder_.transform(rows).dtype == other


@pytest.mark.parametrize(
    ("made", "rows", "error", "message"),
    [
        (
            lambda: MLPClassifier(encoder="frame"),
            X,
            ValueError,
            "'encoder' parameter of MLPClassifier must be",
        ),
        (lambda: MLPClassifier(encoder=TableEncoder), X, ValueError, r"pass an object, TableEncoder\(...\)"),
        (
            lambda: MLPClassifier(encoder=StandardScaler()),
            X,
            ValueError,
            "before MLPClassifier in a Pipeline",
        ),
        (lambda: MLPClassifier(encoder=TableEncoder(n_bins=1)), X, ValueError, "'n_bins' parameter"),
        (
            lambda: NetClassifier(Net, encoder="table"),
            {"a": X},
            TypeError,
            "reads one table, and X is a dict",
        ),
        (lambda: NetClassifier(TwoInputs, encoder="table"), X, ValueError, r"needs the inputs \['a', 'b'\]"),
        (lambda: MLPClassifier(encoder="table"), np.zeros((120, 2, 2)), ValueError, "Expected 2D array"),
        (lambda: MLPClassifier(encoder="table"), X.assign(age=[[1]] * 120), TypeError, "column 'age'"),
        (
            lambda: MLPClassifier(encoder="table"),
            X[["age"]].notna() | True,
            ValueError,
            "nothing can be learned",
        ),
        (lambda: MLPClassifier(encoder="table"), X[:50], ValueError, "inconsistent numbers of samples"),
    ],
)
def test_unreadable_tables(made, rows, error, message):
    clf = made()
    with pytest.raises(error, match=message):
        clf.fit(rows, LABELS)
    assert not hasattr(clf, "n_features_in_")
    with pytest.raises(AttributeError, match="has no encoder_: call fit first"):
        _ = clf.encoder_


def test_other_tables_after_the_fit():
    clf = MLPClassifier((4,), encoder="table", **SMALL).fit(X, LABELS)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(X[["city", "age", "zip", "member", "since"]])
    with pytest.raises(ValueError, match="column 'age': could not convert"):
        clf.predict(X.assign(age="old"))
    with pytest.raises(ValueError, match="X has 4 features"):
        MLPClassifier((4,), encoder="table", **SMALL).fit(X.to_numpy(), LABELS).predict(X.to_numpy()[:, :4])
    net = NetClassifier(Net, encoder="table", **SMALL)
    with pytest.raises(TypeError, match="lengths= are for sequences, and an encoder reads a table"):
        net.fit(X, LABELS, lengths=np.ones(len(X), int))
    plain = MLPClassifier((4,), **SMALL).fit(np.zeros((120, 2)), LABELS)
    with pytest.raises(AttributeError, match="it was fitted with encoder=None"):
        _ = plain.encoder_
    with pytest.raises(TypeError, match="Autoencoder has no parameter 'encoder'"):
        Autoencoder(encoder="table")


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_any_table(first):
    for seed in range(first, first + 20):
        rows, y = drawn(seed, "regression" if seed % 2 else "binary")
        kind = MLPRegressor if seed % 2 else MLPClassifier
        stops = len(rows) > 8 and seed % 3 == 0
        model = kind((4,), encoder="table", max_iter=2, early_stopping=stops, random_state=0)
        try:
            model.fit(rows, y)
        except ValueError as error:
            assert "column 'c0'" in str(error)  # noqa: PT017  which of the two it is depends on the table
            continue
        for part in (rows, harmed(rows, seed)):
            assert np.isfinite(outputs(model, part)).all()


# The scikit-learn checks that an encoder can affect: input validation and fitted attributes.
CHECKS = {
    "check_array_api_input",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimators_dtypes",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
    "check_regressors_int",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_checks_of_scikit_learn(kind):
    estimator = KINDS[kind](encoder="table", max_iter=3, optimizer=Adam(lr=0.02))
    for each, check in estimator_checks_generator(estimator):
        if check.func.__name__ in CHECKS:
            with contextlib.suppress(unittest.SkipTest):  # of arrays that only one in another Python reads
                check(each)
