"""Encoders of tables and ensembles as ONNX models: onnxruntime's outputs are theirs."""

import datetime
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse
from onnx import TensorProto
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import sknet
from sknet import onnx
from sknet.exceptions import CaptureError
from sknet.tabular import TabularClassifier, TabularRegressor
from tests.fuzz.tables import drawn, harmed
from tests.tabular import test_neighbors as neighbors
from tests.tabular import test_residuals as residuals
from tests.tabular.test_frozen import CASES
from tests.tabular.test_frozen import X as TABLE
from tests.tabular.test_sums import WAVE
from tests.tabular.test_sums import X as WAVES

DTYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
CLOSE = {"float16": 2e-2, "float32": 2e-5, "float64": 2e-6}


def fed(kind, column):
    """Return a column as an input of this type."""
    values = column.tolist()
    if kind == "tensor(string)":
        return np.array([["" if not isinstance(x, str) else x] for x in values], dtype=object)
    if kind == "tensor(int64)" and column.dtype.kind == "M":
        local = column.dt.tz_localize(None) if column.dt.tz is not None else column
        return local.to_numpy("datetime64[us]").astype(np.int64).reshape(-1, 1)
    if kind == "tensor(int64)":
        return np.array(values, np.int64).reshape(-1, 1)
    if kind == "tensor(bool)":
        return np.array(values, bool).reshape(-1, 1)
    if column.dtype.kind == "m":
        return column.dt.total_seconds().to_numpy(DTYPES[kind]).reshape(-1, 1)
    with np.errstate(over="ignore"):
        return column.astype("float64").to_numpy(DTYPES[kind], na_value=np.nan).reshape(-1, 1)


def outputs(model, table):
    """Return the outputs of a model for a data frame by name."""
    return outputs_of(session_for(model), table)


def session_for(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def outputs_of(session, table):
    if [each.name for each in session.get_inputs()] == ["X"] and "X" not in table:
        dtype = DTYPES[session.get_inputs()[0].type]
        given = {"X": np.hstack([fed(session.get_inputs()[0].type, table[c]) for c in table]).astype(dtype)}
    else:
        given = {each.name: fed(each.type, table[each.name]) for each in session.get_inputs()}
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, given), strict=True))


def dense(x):
    return x.toarray() if hasattr(x, "toarray") else x


def is_fitting(column, kind):
    """Tell whether an input of this type can hold a column: there is no missing integer or truth value."""
    values = [x for x in column.tolist() if x is not None and x is not pd.NA and x == x]
    if kind == TensorProto.STRING:
        return all(isinstance(x, str) for x in values)
    if kind == TensorProto.INT64:
        return column.dtype.kind == "M" or (
            len(values) == len(column) and set(map(type, values)) <= {int, bool}
        )
    if kind == TensorProto.BOOL:
        return len(values) == len(column) and set(map(type, values)) <= {bool}
    return not any(isinstance(x, str) for x in values)


def fitting(table, model):
    """Tell whether the inputs of a model can hold a table."""
    kinds = {each.name: each.type.tensor_type.elem_type for each in model.graph.input}
    return all(is_fitting(table[name], kinds.get(name, TensorProto.DOUBLE)) for name in table)


@pytest.mark.slow
def test_random_tables():
    compared = refused = 0
    for seed in range(80):
        X, y = drawn(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                encoder = sknet.TableEncoder(random_state=0).fit(X, y)
            except ValueError:
                continue  # nothing can be learned from it
            try:
                model = onnx.export(encoder, dtype="float64")
            except CaptureError as error:
                assert "holds either texts or numbers" in str(error)  # noqa: PT017
                refused += 1
                continue
            new = harmed(X, seed)
            session = session_for(model)
            for table in (X, X[:1], new):
                if not fitting(table, model):
                    continue
                found = outputs_of(session, table)["variable"]
                expected = dense(encoder.transform(table))
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=f"seed {seed}")
                compared += 1
    assert refused < 20
    assert compared > 60


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.float32])
def test_levels_may_be_scalars_of_numpy(kind):
    X = pd.DataFrame({"level": pd.Series([kind(i % 2) for i in range(40)], dtype=object)})
    encoder = sknet.TableEncoder(sparse_output=False, categorical_features=["level"]).fit(X, X["level"] > 0)
    found = outputs_of(session_for(onnx.export(encoder, dtype="float64")), X.astype(kind))["variable"]
    np.testing.assert_allclose(found, encoder.transform(X), rtol=1e-6)


def test_dates_of_two_centuries():
    rng = np.random.default_rng(0)
    seconds = rng.integers(-2_208_988_800, 4_102_444_800, 3000)
    days = [
        datetime.datetime(y, m, d)
        for y in (1900, 2000, 2023, 2024)
        for m, d in ((1, 1), (2, 28), (3, 1), (12, 31))
    ]
    leap = [datetime.datetime(2000, 2, 29, 23, 59, 59, 999999), datetime.datetime(2024, 2, 29)]
    when = pd.Series([*pd.to_datetime(seconds, unit="s").to_pydatetime(), *days, *leap, pd.NaT])
    table = pd.DataFrame({"when": when.astype("datetime64[us]")})
    encoder = sknet.TableEncoder(piecewise=None).fit(table)
    assert len(encoder.get_feature_names_out()) == 10
    found = outputs(onnx.export(encoder, dtype="float64"), table)["variable"]
    np.testing.assert_allclose(found, encoder.transform(table), rtol=1e-6, atol=2e-6)


N = 200
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "city": RNG.choice(np.array(["Bern", "Oslo", "Rome", None], dtype=object), N),
        "zip": RNG.integers(0, 90, N).astype(str),
        "is_on": RNG.random(N) < 0.5,
        "when": pd.date_range("2024-01-01", periods=N, freq="31h"),
        "rooms": pd.Categorical(RNG.integers(1, 5, N)),
    }
)
LABELS = np.array(["low", "middle", "high"])[RNG.integers(0, 3, N)]
QUICK = {"hidden_layer_sizes": (6,), "max_iter": 3, "random_state": 0}


def quiet(estimator, X, y=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", None])
@pytest.mark.parametrize(
    "labels", [LABELS, LABELS == "low", RNG.integers(0, 2, (N, 3))], ids=["3", "2", "many"]
)
def test_classifiers_with_an_encoder(labels, dtype):
    clf = quiet(sknet.MLPClassifier(encoder="table", **QUICK), FRAME, labels)
    session = session_for(onnx.export(clf, dtype=dtype))
    for rows in (FRAME, FRAME[:1], FRAME.assign(city="Paris", size=1e9)):
        if dtype == "float16" and rows["size"].max() > 1e4:
            continue  # infinite in half precision
        found = outputs_of(session, rows)
        close = CLOSE[dtype or "float32"]
        np.testing.assert_allclose(found["probabilities"], clf.predict_proba(rows), rtol=close, atol=close)
        if dtype != "float16":
            np.testing.assert_array_equal(found["label"], clf.predict(rows))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ensembles(case):
    model, y = CASES[case]
    model = quiet(model, TABLE, y)
    for ensemble in (model, model.freeze()):
        session = session_for(onnx.export(ensemble))
        for rows in (TABLE, TABLE[:1], TABLE[5:7]):
            found = outputs_of(session, rows)
            if isinstance(model, TabularRegressor):
                expected = model.predict(rows).reshape(len(rows), -1)
                np.testing.assert_allclose(found["variable"], expected, rtol=1e-5, atol=1e-5)
                continue
            labels = model.predict(rows)
            assert (found["label"] == labels).all()
            if hasattr(model, "predict_proba"):
                expected = model.predict_proba(rows)
                parts = expected if isinstance(expected, list) else [expected]
                given = found["probabilities"] if isinstance(expected, list) else [found["probabilities"]]
                for part, wanted in zip(given, parts, strict=True):
                    np.testing.assert_allclose(part[:, : wanted.shape[1]], wanted, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_allclose(
                    found["scores"], model.decision_function(rows), rtol=1e-5, atol=1e-5
                )


def test_numbers_alone_are_one_input():
    X = RNG.normal(size=(N, 3))
    X[:, 2] = RNG.integers(0, 4, N)
    X[:9, 0] = np.nan
    reg = quiet(sknet.MLPRegressor(encoder=sknet.TableEncoder(categorical_features=[2]), **QUICK), X, X[:, 1])
    model = onnx.export(reg, dtype="float64")
    assert [each.name for each in model.graph.input] == ["X"]
    found = outputs(model, pd.DataFrame(X))
    np.testing.assert_allclose(found["variable"][:, 0], reg.predict(X), rtol=1e-5, atol=1e-5)
    sparse = scipy.sparse.random_array((N, 5), density=0.3, rng=0, format="csr")
    encoder = sknet.TableEncoder().fit(sparse)
    found = outputs(onnx.export(encoder, dtype="float64"), pd.DataFrame(sparse.toarray()))
    np.testing.assert_allclose(found["variable"], encoder.transform(sparse).toarray(), rtol=1e-6, atol=1e-6)


def test_missing_texts_are_empty():
    encoder = sknet.TableEncoder(sparse_output=False).fit(FRAME[["city"]])
    found = outputs(onnx.export(encoder), FRAME[["city"]])["variable"]
    np.testing.assert_array_equal(found, encoder.transform(FRAME[["city"]]))


IN_SKL2ONNX = FRAME.drop(columns=["when"]).assign(
    city=FRAME["city"].fillna("Rome"),
    size=FRAME["size"].astype("float32"),
    rooms=FRAME["rooms"].astype("int64"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        sknet.MLPClassifier(encoder="table", **QUICK),
        make_pipeline(sknet.TableEncoder(sparse_output=False), sknet.MLPClassifier(**QUICK)),
        make_pipeline(sknet.TableEncoder(), LogisticRegression()),
        TabularClassifier(n_folds=2, budget=0.05, random_state=0),
        TabularRegressor(n_folds=2, budget=0.05, random_state=0),
    ],
    ids=["encoder in it", "encoder before it", "another classifier", "ensemble", "regressor"],
)
def test_in_skl2onnx(model):
    onnx.register()
    X = IN_SKL2ONNX
    is_regressor = isinstance(model, TabularRegressor)
    model = quiet(model, X, X["rooms"] * 1.5 if is_regressor else LABELS)
    options = None if is_regressor else {"zipmap": False}
    found = outputs(to_onnx(model, X[:1], options=options), X)
    if is_regressor:
        np.testing.assert_allclose(found["variable"][:, 0], model.predict(X), rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), rtol=1e-4, atol=1e-5)
        assert (found["label"] == model.predict(X)).mean() > 0.99


def test_mistakes_are_named():
    mixed = pd.DataFrame({"k": np.array(["a", 1] * 20, dtype=object)})
    with pytest.raises(
        CaptureError, match=r"column 'k': its levels are \[1, 'a'\], and an input .* holds either"
    ):
        onnx.export(sknet.TableEncoder().fit(mixed))
    clf = quiet(
        sknet.MLPClassifier(encoder="table", **QUICK), FRAME.rename(columns={"city": "label"}), LABELS
    )
    with pytest.raises(
        ValueError, match=r"the column 'label' has the name of an output \(label, probabilities\)"
    ):
        onnx.export(clf)
    with pytest.raises(NotFittedError):
        onnx.export(TabularClassifier())
    onnx.register()
    clf = quiet(sknet.MLPClassifier(encoder="table", **QUICK), FRAME[["size", "city"]], LABELS)
    numbers = [("size", FloatTensorType([None, 1])), ("city", Int64TensorType([None, 1]))]
    with pytest.raises(ValueError, match=r"input 'city' .* holds texts, and is given a Int64TensorType"):
        to_onnx(clf, initial_types=numbers)
    with pytest.raises(
        CaptureError, match="column 'city': not all columns are numbers, so each must be an input"
    ):
        to_onnx(clf, initial_types=[("X", FloatTensorType([None, 2]))])


@pytest.mark.slow
@pytest.mark.parametrize("is_ensemble", [False, True])
def test_empty_texts_that_are_no_missing_ones_are_named_at_export(is_ensemble):
    texts = np.array(["", None, "p", "q"], object)[np.arange(80) % 4]
    table = pd.DataFrame({"n": np.arange(80) % 7.0, "c": texts, "d": ["u", "v"] * 40})
    target = (np.arange(80) % 4 == 0).astype(int)
    model = (
        TabularClassifier(budget=0.1, random_state=0)
        if is_ensemble
        else sknet.MLPClassifier((8,), encoder="table", tol=0.1, random_state=0)
    ).fit(table, target)
    with pytest.warns(UserWarning, match="^column 'c': empty texts are a level, .* missing texts"):
        exported = onnx.export(model)
    rest = table[table.c.notna()]
    found = outputs(exported, rest)["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(rest), atol=2e-5)
    table["c"] = table.c.replace("", "nothing")
    model.fit(table, target)  # without a warning, missing texts are empty ones
    np.testing.assert_allclose(
        outputs(onnx.export(model), table)["probabilities"], model.predict_proba(table), atol=2e-5
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_numbers(dtype):
    """A sum is missing where one of both numbers is; infinite numbers are clipped before."""
    table = WAVES[["east", "north", "other"]]
    reg = TabularRegressor(n_folds=1, members=1, budget=0.1, random_state=0).fit(table, WAVE)
    assert reg.encoder_[0].schema.sums
    strange = pd.concat([table[:60], table[:2].assign(east=[np.inf, np.nan], north=[np.inf, 1.0])])
    found = outputs(onnx.export(reg, dtype=dtype), strange.astype(dtype))["variable"]
    np.testing.assert_allclose(found[:, 0], reg.predict(strange), rtol=1e-4, atol=1e-4)


def test_neighbors():
    model = TabularClassifier(**neighbors.QUICK).fit(neighbors.X, neighbors.Y)
    assert model.mix_["neighbors"] > 0
    found = outputs(onnx.export(model), neighbors.X[:50])
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(neighbors.X[:50]), atol=1e-4)


def test_residuals_of_similar_rows():
    model = TabularRegressor(**residuals.QUICK).fit(residuals.X, residuals.Y)
    assert model.mix_["neighbors"] > 0
    found = outputs(onnx.export(model), residuals.X[:50])
    np.testing.assert_allclose(found["variable"].ravel(), model.predict(residuals.X[:50]), atol=1e-2)
