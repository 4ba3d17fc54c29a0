"""Labels of several types, or with missing ones: refused in the same words wherever they are read."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import SVC

from sknet import MLPClassifier, TabularClassifier
from sknet.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_predict, cross_validate

X = np.random.default_rng(0).normal(size=(30, 3))
NET = MLPClassifier((3,), max_iter=2, tol=10.0, random_state=0)
GRID = {"alpha": [0.1, 1.0]}
LABELS = {
    "numbers and texts": ([1, "a", 2.0], r"1 \(int\), 'a' \(str\), 2.0 \(float\)"),
    "None": (["a", None, "b"], r"'a' \(str\), None \(missing\)"),
    "NaN": (["a", np.nan, "b"], r"'a' \(str\), nan \(missing\)|y has missing values"),
}
FITS = {
    "fit": NET.fit,
    "partial_fit": lambda X, y: clone(NET).partial_fit(X, y, classes=y[:3]),
    "ensemble": TabularClassifier(n_folds=2, budget=0.02).fit,
    "search": GridSearchCV(NET, GRID, cv=2, error_score="raise").fit,
    "search of others": GridSearchCV(SVC(), {"C": [1.0, 2.0]}, error_score="raise").fit,
    "halving": HalvingGridSearchCV(NET, GRID, cv=2, error_score="raise").fit,
    "cross_validate": lambda X, y: cross_validate(NET, X, y, cv=2, error_score="raise"),
    "cross_val_predict": lambda X, y: cross_val_predict(NET, X, y, cv=2),
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("fit", FITS)
def test_labels_of_several_types(fit, labels):
    values, named = LABELS[labels]
    if fit == "search of others" and labels == "numbers and texts":
        named = "Unknown label type"  # the words of another's estimator
    with pytest.raises((TypeError, ValueError), match=named):
        FITS[fit](X, np.array(values * 10, dtype=object))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_labels_of_one_type_in_an_array_of_objects():
    y = np.array(["a", "b"] * 15, dtype=object)
    assert clone(NET).fit(X, y).classes_.tolist() == ["a", "b"]
    assert cross_val_predict(NET, X, y, cv=2).shape == (30,)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([0, 1], "int"),
        ([False, True], "bool"),
        ([0.0, 1.0], "float"),
        ([1j, 2j], "str"),
        ([int, float], "str"),
    ],
)
def test_labels_of_another_type_in_an_array_of_objects(labels, kind):
    with pytest.raises(
        ValueError, match=rf"y has the dtype object, for .*: convert it, as by y.astype\({kind}\)"
    ):
        clone(NET).fit(X, np.array(labels * 15, dtype=object))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_scores_of_labels_of_several_types():
    fitted = clone(NET).fit(X, np.array(["a", "b"] * 15))
    with pytest.raises(TypeError, match=r"must be of one type, .* got 'a' \(str\), 1 \(int\): convert them"):
        fitted.score(X, np.array(["a", 1] * 15, dtype=object))
