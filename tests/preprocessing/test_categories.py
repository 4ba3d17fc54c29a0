"""Categories, compared with scikit-learn's encoders and with means written out."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import check_random_state

import sknet
from sknet.preprocessing import TableEncoder
from tests.freezing.test_python import module_of


def frame_of(levels):
    return pd.DataFrame({"c": pd.Series(levels, dtype=object)})


def test_levels_as_of_one_hot_encoder():
    rng = np.random.default_rng(0)
    X = frame_of(rng.choice(["a", "b", "c", "rare"], size=200, p=[0.4, 0.3, 0.29, 0.01]))
    encoder = TableEncoder(sparse_output=False).fit(X)
    kept = [level for level in "abc" if (X["c"] == level).sum() >= 5]
    expected = OneHotEncoder(categories=[kept], handle_unknown="ignore", sparse_output=False).fit(X)
    assert (X["c"] == "rare").sum() < 5
    np.testing.assert_array_equal(encoder.transform(X), expected.transform(X))
    assert encoder.get_feature_names_out().tolist() == ["c_a", "c_b", "c_c"]


def test_two_levels_have_one_output():
    encoder = TableEncoder().fit(frame_of(["no", "yes"] * 5))
    found = encoder.transform(frame_of(["no", "yes", "maybe", None]))
    assert found.tolist() == [[-1], [1], [0], [0]]
    assert encoder.get_feature_names_out().tolist() == ["c_True"]


def test_missing_is_a_level_and_unseen_are_zeros():
    encoder = TableEncoder(min_count=1, sparse_output=False).fit(frame_of(["a", "b", None, "c"]))
    assert encoder.get_feature_names_out().tolist() == ["c_a", "c_b", "c_c", "c_missing"]
    found = encoder.transform(frame_of(["b", float("nan"), "new", ("a", 1)]))
    assert found.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]


@pytest.mark.parametrize("levels", [["a"] * 9, ["a", "b", "c"], [f"id{i}" for i in range(20)]])
def test_uninformative_levels_have_no_output(levels):
    X = frame_of(levels).assign(number=np.arange(len(levels)))
    assert TableEncoder(piecewise=None).fit(X).get_feature_names_out().tolist() == ["number"]


def test_levels_of_several_types():
    X = frame_of([1, "1", 2.5, True, (1, 2), None] * 6)
    encoder = TableEncoder().fit(X)
    found = encoder.transform(X)
    # 1 == True, as everywhere in Python.
    assert found.shape[1] == 5
    assert (found.sum(axis=1) == 1).all()


# -- means of targets ---------------------------------------------------------------------------------------


def many(n=600, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 60, n)
    X = frame_of([f"z{i:02d}" for i in codes])
    return X, codes, rng


def means(levels, y, smoothing=20.0):
    """The mean of every level, one at a time."""
    overall = sum(y) / len(y)
    found = {}
    for level in set(levels):
        own = [t for each, t in zip(levels, y, strict=True) if each == level]
        found[level] = (sum(own) + smoothing * overall) / (len(own) + smoothing)
    return found, overall


TARGETS = {
    "regression": lambda codes, rng: codes / 10 + rng.normal(size=len(codes)),
    "binary": lambda codes, rng: (rng.random(len(codes)) < codes / 60).astype(int),
}


@pytest.mark.parametrize("task", TARGETS)
def test_many_levels_become_means_of_other_rows(task):
    X, codes, rng = many()
    y = TARGETS[task](codes, rng)
    encoder = TableEncoder(random_state=7, dtype="float64")
    fitted = encoder.fit_transform(X, y)
    levels = X["c"].tolist()
    crossed = np.empty(len(y))
    for others, own in KFold(5, shuffle=True, random_state=check_random_state(7)).split(X):
        found, overall = means([levels[i] for i in others], y[others])
        crossed[own] = [found.get(levels[i], overall) for i in own]
    center, scale = crossed.mean(), crossed.std()
    np.testing.assert_allclose(fitted[:, 0], (crossed - center) / scale, rtol=1e-9, atol=1e-12)
    found, overall = means(levels, y)
    expected = [(found.get(level, overall) - center) / scale for level in [*levels, "new"]]
    np.testing.assert_allclose(
        encoder.transform(frame_of([*levels, "new"]))[:, 0], expected, rtol=1e-9, atol=1e-12
    )
    assert encoder.get_feature_names_out().tolist() == ["c_target"]


def test_no_row_sees_its_own_target():
    """If rows saw their own targets, their means would be correlated with noise targets."""
    X, _, rng = many(n=1000)
    y = rng.normal(size=1000)
    fitted = TableEncoder(random_state=0, smoothing=0).fit_transform(X, y)
    of_itself = TableEncoder(random_state=0, smoothing=0).fit(X, y).transform(X)
    assert np.corrcoef(of_itself[:, 0], y)[0, 1] > 0.15
    assert np.corrcoef(fitted[:, 0], y)[0, 1] < 0.1


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (np.arange(600) % 3, ["c_target_0", "c_target_1", "c_target_2"]),
        (np.array(["a", "b"] * 300), ["c_target"]),
        (np.random.default_rng(0).normal(size=(600, 2)), ["c_target_0", "c_target_1"]),
        (np.random.default_rng(0).integers(0, 2, (600, 2)), ["c_target_0_1", "c_target_1_1"]),
        (np.arange(600.0).reshape(-1, 1) / 7, ["c_target"]),
    ],
)
def test_every_target_has_its_means(y, names):
    X, _, _ = many()
    assert TableEncoder().fit(X, y).get_feature_names_out().tolist() == names


def test_at_most_sixteen_classes_have_means():
    X, _, rng = many()
    names = TableEncoder().fit(X, rng.integers(0, 100, 600)).get_feature_names_out()
    assert len(names) == 16


def test_integers_can_be_declared_numeric():
    X, codes, _ = many()
    assert TableEncoder(target_type="regression").fit(X, codes).get_feature_names_out().tolist() == [
        "c_target"
    ]


def test_without_targets_the_most_frequent_levels_are_kept():
    X = frame_of([f"z{i:02d}" for i in range(50) for _ in range(5 + i)])
    names = TableEncoder().fit(X).get_feature_names_out().tolist()
    assert names == [f"c_z{i:02d}" for i in range(10, 50)]


@pytest.mark.parametrize(("fitted", "form"), [("numbers", "{}"), ("numbers", "{}.0"), ("texts", "{}")])
def test_levels_of_another_type_are_told(fitted, form):
    codes = np.arange(40) % 4
    tables = {"numbers": codes.astype(object), "texts": np.array([*map(form.format, codes)], dtype=object)}
    other = tables["texts" if fitted == "numbers" else "numbers"]
    encoder = TableEncoder().fit(pd.DataFrame({"zip": tables[fitted]}))
    for rows in (slice(None), slice(1)):
        with pytest.warns(UserWarning, match="column 'zip': all levels are unseen, since they are"):
            encoder.transform(pd.DataFrame({"zip": other[rows]}))
        encoder.transform(pd.DataFrame({"zip": tables[fitted][rows]}))
    encoder.transform(pd.DataFrame({"zip": [9 if fitted == "numbers" else "9"]}, dtype=object))


LEVELS = {"texts": ["x", "y"], "bytes": [b"x", b"y"], "booleans": [False, True], "numbers": [2, 3]}


@pytest.mark.parametrize("before", LEVELS)
@pytest.mark.parametrize("now", LEVELS)
def test_levels_of_another_kind_are_told(now, before, tmp_path):
    known, given = (pd.DataFrame({"a": pd.Categorical(20 * LEVELS[x])}) for x in (before, now))
    encoder = TableEncoder().fit(known)
    sknet.freeze(encoder).to_python(tmp_path / "written.py")
    transforms = encoder.transform, module_of(tmp_path / "written.py").transform
    for transform, rows in itertools.product(transforms, (slice(None), slice(1))):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            transform(given[rows])
        start = f"column 'a': all levels are unseen, since they are {now}, such as {LEVELS[now][0]!r}, and "
        end = f"those of the fit are {before}, such as {LEVELS[before][0]!r}: convert the column"
        assert [str(x.message) for x in told] == ([] if now == before else [start + end])


def test_texts_that_are_no_booleans_are_of_no_other_kind():
    encoder = TableEncoder().fit(pd.DataFrame({"a": 20 * ["yes", "no"]}))
    for levels in (["maybe"], ["maybe", "never"]):
        assert not encoder.transform(pd.DataFrame({"a": levels})).any()
