"""Tables that are not numbers: the error names the columns, and what takes them does take them."""

import numpy as np
import pytest

from sknet import Autoencoder, MLPClassifier, MLPRegressor, NetClassifier, nn

pandas = pytest.importorskip("pandas", reason="the tables are frames")

AGES = pandas.DataFrame({"age": [20.0, 30.0, 40.0, 50.0] * 5})
CITIES = ["Rome", "Oslo"] * 10
DATES = pandas.date_range("2020-01-01", periods=20)
TABLES = {
    "strings": (AGES.assign(city=CITIES), "X has columns that are not numbers: 'city'"),
    "categories": (AGES.assign(city=pandas.Categorical(CITIES)), "not numbers: 'city'"),
    "dates": (AGES.assign(built=DATES), "not numbers: 'built'"),
    "both": (AGES.assign(city=CITIES, built=DATES), "not numbers: 'city', 'built'"),
    "objects": (AGES.assign(city=CITIES).to_numpy(), "not numbers: 1"),
    "nested": (AGES.assign(city=CITIES).to_numpy().tolist(), "not numbers: 1"),
    "many": (pandas.DataFrame(dict.fromkeys("abcdefg", CITIES)), "'a', 'b', 'c', 'd', 'e' and 2 more"),
    "missing": (AGES.mask(AGES == 30), "Input X contains NaN"),
}
Y = np.arange(20) % 2
KINDS = {
    "MLPClassifier": lambda **params: MLPClassifier((4,), max_iter=2, **params),
    "MLPRegressor": lambda **params: MLPRegressor((4,), max_iter=2, **params),
    "NetClassifier": lambda **params: NetClassifier(nn.Sequential(nn.LazyLinear(1)), max_iter=2, **params),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_named_with_what_takes_them(kind, name):
    X, message = TABLES[name]
    known = {"classes": [0, 1]} if "Classifier" in kind else {}
    for method, given in (("fit", {}), ("partial_fit", known)):
        estimator = KINDS[kind]()
        with pytest.raises((ValueError, TypeError), match=message) as raised:
            getattr(estimator, method)(X, Y, **given)
        assert f'{kind}(encoder="table") reads' in str(raised.value)
        assert not hasattr(estimator, "n_features_in_")
    KINDS[kind](encoder="table").fit(X, Y)  # as the message says


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_to_predict_are_named_too():
    classifier = MLPClassifier((4,), max_iter=2).fit(AGES.assign(rooms=1.0), Y)
    with pytest.raises(ValueError, match=r"(?s)not numbers: 'rooms'.*encoder=\"table\""):
        classifier.predict(AGES.assign(rooms="two"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_has_no_encoder_or_other_errors_are_left_as_they_are():
    for estimator, X, y in [
        (Autoencoder((2,)), TABLES["missing"][0], None),
        (MLPRegressor(), AGES, np.where(Y, np.nan, 1.0)),
        (MLPRegressor(), AGES, np.array(CITIES)),
        (MLPClassifier(), AGES.mask(AGES == 30, np.inf), Y),
    ]:
        with pytest.raises((ValueError, TypeError), match=r"\w") as raised:
            estimator.fit(X, y)
        assert "encoder=" not in str(raised.value)
