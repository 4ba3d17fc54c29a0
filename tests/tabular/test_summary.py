"""Summaries of ensembles for tables: the networks of each kind, their sizes, and how much they count."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import sknet
from sknet import nn
from sknet.display import WeightsDisplay
from sknet.tabular import Members, TabularClassifier, TabularRegressor

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=60), "b": RNG.choice(["x", "y", "z"], 60), "c": RNG.normal(size=60)})
CODES = np.digitize(X["a"], [-0.5, 0.5])
SMALL = {"hidden_layer_sizes": [6], "epochs": 2}
QUICK = {
    "n_folds": 2,
    "smooth": Members(**SMALL),
    "sharp": Members(**{**SMALL, "epochs": 3}),
    "random_state": 0,
}
CASES = {
    "both kinds": (TabularClassifier(**QUICK, members=2), CODES),
    "labels": (TabularClassifier(**QUICK), np.array(["no", "yes"])[CODES % 2]),
    "one kind": (TabularRegressor(**{**QUICK, "sharp": None}), X["c"]),
    "one fold": (TabularRegressor(**{**QUICK, "n_folds": 1}), np.c_[X["c"], X["a"]]),
    "more columns": (TabularClassifier(**QUICK), CODES),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_the_networks(name):
    estimator, y = CASES[name]
    table = (
        pd.DataFrame({"a": X["a"], **{f"c{i}": X["b"] + str(i) for i in range(3)}})
        if name == "more columns"
        else X
    )
    found = estimator.fit(table, y).summary()
    sizes = [
        parameter.size for member in estimator.members_ for parameter in member.model.parameters.values()
    ]
    assert found.total_parameters == found.trained_parameters == sum(sizes)
    by_kind = {row.path: row for row in found.layers if "." not in row.path}
    assert list(by_kind) == list(estimator.mix_)
    for kind, row in by_kind.items():
        members = [member for member in estimator.members_ if member.kind == kind]
        assert row.text == f"{len(members)} x TabularNet"
        assert row.output_shape == (y.shape[1] if np.ndim(y) > 1 else len({*y}) if len({*y}) == 3 else 1,)
        first, width = members[0], members[0].encoder.plan.width
        expected = nn.summary(first.model.module, (1, width))
        shapes = {each.path: each.output_shape[1:] for each in expected.rows}
        rows = {each.path: each for each in found.layers if each.path.startswith(f"{kind}.")}
        assert {path.removeprefix(f"{kind}."): each.output_shape for path, each in rows.items()} == {
            path: shape for path, shape in shapes.items() if path
        }
        losses = np.mean([member.history["loss"] for member in members], axis=0)
        np.testing.assert_array_equal(found.history[f"{kind} loss"][: len(losses)], losses)


def test_text_and_html():
    estimator, y = CASES["both kinds"]
    text = str(estimator.fit(X, y).summary())
    weights, temperatures = estimator.mix_, estimator.temperature_
    assert "members: smooth: 4 in 2 folds, weight " in text
    for kind in ("smooth", "sharp"):
        said = f"{kind}: 4 in 2 folds, weight {weights[kind]:.2g}, temperature {temperatures[kind]:.3g}"
        assert said in text
        assert f"{kind}: " in re.search(r"optimizer: (.*)", text)[1]
    assert "columns: 2 numbers and 1 category, which become " in text
    assert f"score out of folds: {estimator.oof_score_:.4g}" in text
    page = estimator._repr_html_()
    for shown in ("Network of TabularClassifier", "4 x TabularNet", "smooth loss", "sharp loss"):
        assert shown in page
    assert page.count('<path d="M') >= 3  # axes and two curves


def test_before_the_fit_there_is_nothing_to_show():
    estimator = sknet.TabularClassifier()
    with pytest.raises(NotFittedError, match="This TabularClassifier instance is not fitted yet"):
        estimator.summary()
    assert "Network of" not in estimator._repr_html_()


def test_displays_of_one_network_refuse_ensembles_for_tables():
    with pytest.raises(TypeError, match="displays show networks of sknet, got TabularClassifier"):
        WeightsDisplay.from_estimator(CASES["both kinds"][0].fit(X, CODES))
