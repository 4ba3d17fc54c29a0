"""Standardized inputs: the fit equals that on scaled data, and all else is in the units of X."""

import copy
import importlib.util
import pickle
import re

import joblib
import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import nn, ops
from sknet.device import Device, to_device, to_host
from sknet.persistence import read_any, write
from tests.estimators.data import TABLES, WEIGHTS, estimator_for, first_part, outputs, quiet, same_bits
from tests.files.test_fields import edited

X, Y = TABLES["binary"]
UNITS = np.geomspace(1e-6, 1e6, X.shape[1])
SHIFTS = np.linspace(-3, 1e3, X.shape[1]) * UNITS
RAW = X * UNITS + SHIFTS
ROWS = np.arange(len(X))
TRAINING, HELD_OUT = ROWS[:160], ROWS[160:]


def fitted(X, y, weight=None, task="binary", **params):
    with quiet():
        return estimator_for(task, **{"scale_inputs": True, "max_iter": 20} | params).fit(X, y, weight)


def test_the_statistics_are_those_of_standard_scaler():
    for weight in (None, WEIGHTS):
        expected = StandardScaler().fit(RAW, sample_weight=weight)
        clf = fitted(RAW, Y, weight)
        np.testing.assert_allclose(clf.input_mean_, expected.mean_, rtol=1e-12)
        np.testing.assert_allclose(clf.input_scale_, expected.scale_, rtol=1e-12)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression", "counts"])
def test_a_fit_equals_one_behind_a_scaler(task):
    """Up to rounding: both compute in double precision."""
    X, y = TABLES[task]
    X = X * UNITS + SHIFTS
    scaled = StandardScaler().fit_transform(X)
    mine, other = fitted(X, y, task=task), fitted(scaled, y, task=task, scale_inputs=False)
    np.testing.assert_allclose(outputs(mine, X), outputs(other, scaled), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mine.loss_curve_, other.loss_curve_, rtol=1e-9)


def test_only_rows_that_are_trained_on_decide():
    held_out = RAW.copy()
    held_out[HELD_OUT] *= 100
    for clf in (
        fitted(held_out, Y, validation_split=(TRAINING, HELD_OUT), early_stopping=True),
        fitted(held_out[TRAINING], Y[TRAINING]),
    ):
        np.testing.assert_allclose(clf.input_mean_, RAW[TRAINING].mean(axis=0), rtol=1e-12)
    with quiet():
        clf = estimator_for("binary", scale_inputs=True)
        clf.fit(RAW[TRAINING], Y[TRAINING], X_val=held_out[HELD_OUT], y_val=Y[HELD_OUT])
    np.testing.assert_allclose(clf.input_scale_, RAW[TRAINING].std(axis=0), rtol=1e-12)


def test_weights_equal_repeated_rows():
    counts = np.random.default_rng(0).integers(0, 4, len(Y))
    repeated = np.repeat(ROWS, counts)
    shared = {"optimizer": "lbfgs", "alpha": 0.0, "max_iter": 5}
    mine = fitted(RAW, Y, counts.astype(float), **shared)
    other = fitted(RAW[repeated], Y[repeated], **shared)
    np.testing.assert_allclose(mine.input_scale_, other.input_scale_, rtol=1e-12)
    np.testing.assert_allclose(outputs(mine, RAW), outputs(other, RAW), rtol=1e-6)


def test_class_weights_count_like_sample_weights():
    mine = fitted(RAW, Y, class_weight={0: 0.25, 1: 4.0})
    other = fitted(RAW, Y, np.where(Y == 1, 4.0, 0.25))
    assert same_bits(mine, other)


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_numbers_whose_spread_is_small_beside_their_mean(dtype):
    """In float32, 1e8 and 1e8 + 1 are the same."""
    clf = fitted(X, Y, dtype=dtype)
    far = fitted(1e8 + X, Y, dtype=dtype)
    np.testing.assert_allclose(outputs(far, 1e8 + X), outputs(clf, X), atol=1e-4)
    np.testing.assert_array_equal(far.freeze().predict_proba(1e8 + X), far.predict_proba(1e8 + X))


@pytest.mark.parametrize("convert", [np.ndarray.tolist, lambda x: tuple(map(tuple, x))])
def test_lists_are_read_in_double_precision(convert):
    """The network is that of float32 rows, but the means and deviations are those of the numbers given."""
    far = convert(1e8 + X)
    clf = fitted(far, Y)
    np.testing.assert_allclose(clf.input_mean_, (1e8 + X).mean(axis=0), rtol=1e-15)
    np.testing.assert_allclose(clf.input_scale_, (1e8 + X).std(axis=0), rtol=1e-12)
    assert clf.model_.dtype == np.float32
    same = fitted((1e8 + X), Y, dtype="float32")
    np.testing.assert_array_equal(clf.predict_proba(far), same.predict_proba(1e8 + X))


def test_integers_are_not_rounded_before():
    whole = np.random.default_rng(0).integers(0, 50, (200, 3)) + 2**40
    y = whole[:, 0] > 2**40 + 25
    clf = fitted(whole, y, max_iter=100)
    assert clf.model_.dtype == np.float32
    np.testing.assert_array_equal(clf.input_mean_, whole.mean(axis=0))
    assert clf.score(whole, y) > 0.9
    frozen = clf.freeze()
    for n in (1, 200):
        np.testing.assert_array_equal(frozen.predict_proba(whole[:n]), clf.predict_proba(whole[:n]))


@pytest.mark.parametrize("factor", [1e300, 1e150, 1e-150, 1e-300, 1e-310])
def test_extreme_units(factor):
    clf = fitted(X * factor, Y)
    np.testing.assert_allclose(outputs(clf, X * factor), outputs(fitted(X, Y), X), atol=1e-6)


def test_numbers_near_the_largest_float_are_refused():
    wide = RAW.copy()
    wide[:, 3] = np.where(Y, 1.7e308, -1.7e308)
    with pytest.raises(ValueError, match=r"feature 3 of X has numbers near the largest float64"):
        fitted(wide, Y)


def test_constant_columns_are_only_shifted():
    still = RAW.copy()
    still[:, 1], still[:, 2] = 0.1 + 0.2, 7e12
    still[::2, 1] = 0.3  # the same up to rounding
    clf = fitted(still, Y)
    np.testing.assert_array_equal(clf.input_scale_[1:3], 1.0)
    np.testing.assert_allclose(clf.input_mean_[1:3], [0.3, 7e12], rtol=1e-15)


def test_a_unit_makes_no_difference():
    """As it does without: an accuracy of .997 becomes one of .51."""
    wide = RAW.copy()
    wide[:, 0] *= 1e5
    assert fitted(wide, Y, max_iter=60).score(wide, Y) == fitted(RAW, Y, max_iter=60).score(RAW, Y)


def test_raw_data_of_breast_cancer():
    data, labels = load_breast_cancer(return_X_y=True)
    with quiet():
        scores = cross_val_score(sknet.MLPClassifier(scale_inputs=True, random_state=0), data, labels, cv=5)
    assert scores.mean() >= 0.97


def test_raw_data_of_diabetes():
    data, y = load_diabetes(return_X_y=True, scaled=False)
    with quiet():
        reg = sknet.MLPRegressor(scale_inputs=True, scale_target=True, random_state=0)
        assert cross_val_score(reg, data, y, cv=5).mean() >= 0.42


# -- kinds of inputs -------------------------------------------------------------------------------------


def test_sparse_inputs_are_divided_and_stay_sparse():
    sparse = scipy.sparse.random(230, 40, 0.1, random_state=0, format="csr") * 1e4
    expected = StandardScaler(with_mean=False)
    for weight in (None, WEIGHTS):
        clf = fitted(sparse, Y, weight)
        np.testing.assert_allclose(
            clf.input_scale_, expected.fit(sparse, sample_weight=weight).scale_, rtol=1e-12
        )
        assert not clf.input_mean_.any()
    assert scipy.sparse.issparse(clf._input_scaling.scaled(sparse, np.float32))
    np.testing.assert_allclose(clf.predict_proba(sparse), clf.predict_proba(sparse.toarray()), rtol=1e-12)
    frozen = clf.freeze()
    np.testing.assert_allclose(frozen.predict_proba(sparse), clf.predict_proba(sparse), rtol=1e-12)


def test_sparse_rows_of_a_fit_on_an_array():
    clf = fitted(RAW, Y)
    sparse = scipy.sparse.csr_matrix(RAW)
    np.testing.assert_allclose(clf.predict_proba(sparse), clf.predict_proba(RAW), rtol=1e-12)


def test_frames_lists_and_columns_in_fortran_order():
    pandas = pytest.importorskip("pandas")
    clf = fitted(RAW, Y)
    frame = pandas.DataFrame(RAW, columns=[f"c{i}" for i in range(RAW.shape[1])])
    assert same_bits(fitted(np.asfortranarray(RAW), Y), clf)
    assert same_bits(fitted(RAW.tolist(), Y), fitted(RAW, Y, dtype="float32"))
    named = fitted(frame, Y)
    assert same_bits(named, clf)
    for n in (1, 50):
        np.testing.assert_array_equal(named.predict_proba(frame[:n]), clf.predict_proba(RAW[:n]))
        np.testing.assert_array_equal(named.freeze().predict_proba(frame[:n]), clf.predict_proba(RAW[:n]))


class Images(nn.Module):
    def __init__(self, n_outputs):
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(64, n_outputs)

    def forward(self, x):
        return self.head(self.conv(x).reshape((x.shape[0], -1)))


def test_images_are_standardized_by_channel():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(60, 3, 6, 6)) * np.reshape([1, 1e4, 1e-3], (3, 1, 1)) + 5
    y = images[:, 1].mean(axis=(1, 2)) > 5
    with quiet():
        clf = sknet.NetClassifier(Images, scale_inputs=True, max_iter=3, random_state=0).fit(images, y)
    np.testing.assert_allclose(clf.input_mean_.ravel(), images.mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(clf.input_scale_.ravel(), images.std(axis=(0, 2, 3)), rtol=1e-12)
    for n in (1, 60):
        np.testing.assert_array_equal(clf.freeze().predict_proba(images[:n]), clf.predict_proba(images[:n]))


class Waves(nn.Module):
    def __init__(self, n_outputs):
        self.conv, self.head = nn.Conv1d(2, 3, 3), nn.Linear(15, n_outputs)

    def forward(self, x):
        return self.head(self.conv(x).reshape((x.shape[0], -1)))


def test_waves_are_standardized_by_channel_where_the_network_begins_with_a_convolution():
    waves = np.random.default_rng(0).normal(size=(40, 2, 7)) * [[1.0], [1e5]]
    with quiet():
        clf = sknet.NetClassifier(Waves, scale_inputs=True, max_iter=2).fit(waves, waves[:, 1, 0] > 0)
    np.testing.assert_allclose(clf.input_scale_.ravel(), waves.std(axis=(0, 2)), rtol=1e-12)


class TurnedWaves(nn.Module):
    def __init__(self, n_outputs):
        self.conv, self.head = nn.Conv1d(2, 3, 3), nn.Linear(3, n_outputs)

    def forward(self, x):
        return self.head(ops.max(self.conv(ops.moveaxis(x, 1, 2)), axis=2))


def test_waves_with_channels_last_are_standardized_by_channel():
    waves = np.random.default_rng(0).normal(size=(40, 7, 2)) * [1.0, 1e5]
    with quiet():
        clf = sknet.NetClassifier(TurnedWaves, max_iter=2).fit(waves, waves[:, 0, 1] > 0)
    np.testing.assert_allclose(clf.input_scale_.ravel(), waves.std(axis=(0, 1)), rtol=1e-12)
    assert clf.predict_proba(np.concatenate([waves, waves], axis=1)).shape == (40, 2)


class Steps(nn.Module):
    def __init__(self, n_outputs):
        self.body, self.head = nn.GRU(2, 4), nn.Linear(4, n_outputs)

    def forward(self, x, lengths):
        return self.head(self.body(x, lengths=lengths)[0].sum(axis=1))


def test_sequences_are_standardized_by_feature_over_valid_steps():
    rng = np.random.default_rng(0)
    sequences, lengths = rng.normal(size=(50, 7, 2)) * [1, 1e4], rng.integers(1, 8, 50)
    weight = rng.integers(0, 3, 50)
    sequences[np.arange(7) >= lengths[:, np.newaxis]] = 9e9
    valid = np.concatenate(
        [x[:n] for x, n, times in zip(sequences, lengths, weight, strict=True) for _ in range(times)]
    )
    with quiet():
        clf = sknet.NetClassifier(Steps, scale_inputs=True, max_iter=2)
        clf.fit(sequences, sequences[:, 0, 0] > 0, weight, lengths=lengths)
    np.testing.assert_allclose(clf.input_mean_["x"], valid.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(clf.input_scale_["x"], valid.std(axis=0), rtol=1e-12)


class Words(nn.Module):
    def __init__(self, n_outputs):
        self.words, self.head = nn.Embedding(10, 4), nn.Linear(6, n_outputs)

    def forward(self, ids, x):
        return self.head(ops.concat([self.words(ids), x], axis=1))


class OnlyWords(nn.Module):
    def __init__(self, n_outputs):
        self.words, self.head = nn.Embedding(10, 4), nn.Linear(4, n_outputs)

    def forward(self, ids):
        return self.head(self.words(ids).mean(axis=1))


def test_sequences_of_numbers_with_weights():
    X = np.random.default_rng(0).normal(3, 2, size=(40, 6))
    weight, labels = np.arange(40) % 3, np.arange(40) % 2
    with quiet():
        found = sknet.NetClassifier("gru", max_iter=1).fit(X, labels, weight, lengths=np.full(40, 6))
    assert found.input_mean_["x"] == pytest.approx(np.average(X.mean(axis=1), weights=weight), rel=1e-12)


def test_integers_that_a_network_reads_stay():
    rng = np.random.default_rng(0)
    both = {"ids": rng.integers(0, 10, 40), "x": rng.normal(size=(40, 2)) * 1e6}
    y = both["x"][:, 0] > 0
    with quiet():
        clf = sknet.NetClassifier(Words, scale_inputs=True, max_iter=30, random_state=0).fit(both, y)
        none = sknet.NetClassifier(OnlyWords, scale_inputs=True, max_iter=2)
        none.fit(rng.integers(0, 10, (40, 5)), y)
    assert clf.input_mean_.keys() == {"x"}
    np.testing.assert_allclose(clf.input_mean_["x"], both["x"].mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(clf.freeze().predict_proba(both), clf.predict_proba(both))
    with pytest.raises(AttributeError, match="its inputs are not standardized"):
        _ = none.input_mean_


def test_a_trained_module_gets_inputs_as_they_are():
    with quiet():
        first = sknet.NetClassifier(
            nn.Sequential(nn.Linear(12, 1)), scale_inputs=True, max_iter=2, random_state=0
        ).fit(X, Y)
        second = sknet.NetClassifier(first.model_.module, scale_inputs=True, max_iter=2).fit(X, Y)
    assert hasattr(first, "input_mean_")
    assert not hasattr(second, "input_mean_")


def test_rows_on_a_device(fake_device):
    place = Device.parse("fake")
    clf = fitted(to_device(RAW, place), Y)
    np.testing.assert_allclose(clf.input_scale_, RAW.std(axis=0), rtol=1e-9)
    found = clf.predict_proba(to_device(RAW, place))
    np.testing.assert_allclose(to_host(found), fitted(RAW, Y).predict_proba(RAW), rtol=1e-7)
    assert isinstance(clf.coefs_[0], np.ndarray)


def test_many_rows_are_standardized_as_they_are_predicted(monkeypatch):
    clf = fitted(RAW, Y)
    frozen, expected, codes = clf.freeze(), clf.predict_proba(RAW), clf.transform(RAW)
    monkeypatch.setattr("sknet.estimators._scaling.MOST_BYTES", 100)
    np.testing.assert_array_equal(clf.predict_proba(RAW), expected)
    np.testing.assert_array_equal(frozen.predict_proba(RAW), expected)
    np.testing.assert_array_equal(clf.transform(RAW), codes)
    assert clf.predict_proba(RAW[:1]).shape == (1, 2)


def test_a_mapped_file_is_standardized_as_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("sknet.estimators._scaling.MOST_BYTES", 100)
    np.save(tmp_path / "X.npy", RAW)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for params in ({}, {"early_stopping": True, "max_iter": 3}):
        clf = fitted(mapped, Y, **params)
        assert same_bits(clf, fitted(RAW, Y, **params))
        np.testing.assert_array_equal(clf.feature_importances_, fitted(RAW, Y, **params).feature_importances_)


def test_moments_do_not_depend_on_how_many_rows_are_read_at_once(monkeypatch):
    whole = fitted(RAW, Y, WEIGHTS)
    monkeypatch.setattr("sknet.estimators._scaling.AT_ONCE", 50)
    parts = fitted(RAW, Y, WEIGHTS)
    np.testing.assert_allclose(parts.input_mean_, whole.input_mean_, rtol=1e-13)
    np.testing.assert_allclose(parts.input_scale_, whole.input_scale_, rtol=1e-13)


# -- continued fits --------------------------------------------------------------------------------------


def test_the_first_part_of_a_stream_decides():
    clf = first_part("binary", estimator_for("binary", scale_inputs=True), RAW[:100], Y[:100])
    clf.partial_fit(RAW[100:], Y[100:])
    np.testing.assert_allclose(clf.input_mean_, RAW[:100].mean(axis=0), rtol=1e-12)
    scaler = StandardScaler().fit(RAW[:100])
    other = first_part(
        "binary", estimator_for("binary", scale_inputs=False), scaler.transform(RAW[:100]), Y[:100]
    )
    other.partial_fit(scaler.transform(RAW[100:]), Y[100:])
    np.testing.assert_allclose(clf.predict_proba(RAW), other.predict_proba(scaler.transform(RAW)), rtol=1e-9)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_column_that_begins_as_a_constant_gets_its_unit_where_it_varies(convert, unit, tmp_path):
    """It has a mean of 0 here, and what the first rows are learned as does not change."""
    rng = np.random.default_rng(0)
    first, later = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    first[:, 1] = 0
    unlike = np.array([1, unit, 1])
    reg = sknet.MLPRegressor((4,), random_state=0).partial_fit(convert(first * unlike), first[:, 0])
    before = reg.predict(convert(first * unlike))
    sknet.save(reg, tmp_path / "reg")
    loaded = sknet.load(tmp_path / "reg")
    if unit <= 1:  # few rows do not tell, unless they are far away
        assert reg.partial_fit(convert(later[:5] * unlike), later[:5, 0]).input_scale_[1] == 1.0
    for each in (reg, loaded):
        each.partial_fit(convert(later * unlike), later[:, 0])
        np.testing.assert_allclose(each.input_scale_[1], unit * np.abs(later[:, 1]).max(), rtol=1e-12)
        scale = each.input_scale_[1]
        each.partial_fit(convert(3 * later * unlike), later[:, 0])
        assert each.input_scale_[1] == scale
    frozen = loaded.set_params(lr=1e-30).partial_fit(convert(first * unlike), first[:, 0]).freeze()
    np.testing.assert_allclose(frozen.predict(convert(first * unlike)), before, atol=0.1)


def test_other_units_in_a_stream():
    clf = first_part("binary", estimator_for("binary", scale_inputs=True), RAW, Y)
    before = outputs(clf, RAW)
    other = RAW.copy()
    other[:, 4] += 1e4 * UNITS[4]
    with pytest.raises(ValueError, match="half of the values of feature 4 of X are more than"):
        clf.partial_fit(other, Y)
    np.testing.assert_array_equal(outputs(clf, RAW), before)
    other[:, 4] = RAW[:, 4] + 20 * UNITS[4]
    with pytest.warns(UserWarning, match=r"feature 4 of X is .* times as large as in the rows"):
        clf.partial_fit(other, Y)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
def test_units_whose_deviations_overflow_are_refused(convert):
    reg = sknet.MLPRegressor((4,), random_state=0).partial_fit(convert(1e-5 * X), Y)
    with pytest.raises(ValueError, match=r"half of the values of .* are more than inf times as far"):
        reg.partial_fit(convert(np.full_like(X, 1e308)), Y)


@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
def test_rows_whose_deviations_overflow_are_clipped(convert, n):
    clf = fitted(convert(1e-5 * X), Y)
    far, near = np.full((n, X.shape[1]), 1e308), np.ones((n, X.shape[1]))
    for each in (clf, clf.freeze()):
        np.testing.assert_array_equal(each.predict_proba(convert(far)), each.predict_proba(convert(near)))


def test_a_warm_start_keeps_the_units():
    with quiet():
        clf = estimator_for("binary", scale_inputs=True, warm_start=True).fit(RAW[:100], Y[:100])
        mean = clf.input_mean_
        clf.fit(RAW, Y)
        np.testing.assert_array_equal(clf.input_mean_, mean)
        clf.set_params(scale_inputs=False)
        with pytest.raises(ValueError, match="scale_inputs was True when this network was fitted"):
            clf.fit(RAW, Y)
        clf.set_params(warm_start=False).fit(RAW, Y)
    assert not hasattr(clf, "input_mean_")


def test_members_share_the_units_of_all_rows():
    clf = fitted(RAW, Y, n_members=3, bootstrap=True, max_iter=5)
    np.testing.assert_allclose(clf.input_mean_, RAW.mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(clf.freeze().predict_proba(RAW), clf.predict_proba(RAW))
    scaled = StandardScaler().fit_transform(RAW)
    other = fitted(scaled, Y, n_members=3, bootstrap=True, max_iter=5, scale_inputs=False)
    np.testing.assert_allclose(clf.predict_proba(RAW), other.predict_proba(scaled), rtol=1e-9)


@pytest.mark.parametrize("scales", [False, True])
def test_members_can_be_fitted_in_other_processes(scales):
    params = {"n_members": 2, "max_iter": 2, "scale_inputs": scales}
    with joblib.parallel_config("loky", n_jobs=2):
        there = fitted(RAW, Y, **params)
    np.testing.assert_array_equal(there.predict_proba(RAW), fitted(RAW, Y, **params).predict_proba(RAW))


# -- parameters and attributions -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clf():
    return fitted(RAW, Y, hidden_layer_sizes=(8, 5))


def decisions(coefs, intercepts):
    x = RAW
    for weight, bias in zip(coefs[:-1], intercepts[:-1], strict=True):
        x = np.maximum(x @ weight + bias, 0)
    return (x @ coefs[-1] + intercepts[-1]).ravel()


def test_coefs_are_in_the_units_of_the_inputs(clf):
    np.testing.assert_allclose(
        decisions(clf.coefs_, clf.intercepts_), clf.decision_function(RAW), rtol=1e-6, atol=1e-9
    )
    with pytest.raises(ValueError, match="read-only"):
        clf.coefs_[0][0, 0] = 1.0


def test_coefs_can_be_set(clf):
    clf = copy.deepcopy(clf)
    before = list(clf.intercepts_)
    clf.coefs_[0] = clf.coefs_[0] / 2
    np.testing.assert_allclose(clf.intercepts_[0], before[0], rtol=1e-9)
    clf.intercepts_[0] = before[0] + 1
    np.testing.assert_allclose(
        decisions(clf.coefs_, clf.intercepts_), clf.decision_function(RAW), rtol=1e-6, atol=1e-9
    )
    with pytest.raises(ValueError, match=re.escape("coefs_[0] must be an array of real numbers of shape")):
        clf.coefs_[0] = np.zeros((2, 2))


def test_gradients_are_with_respect_to_the_inputs(clf):
    x, gradient = RAW[:5], clf.input_gradient(RAW[:5], target=1)
    for j, step in enumerate(1e-6 * clf.input_scale_):
        apart = step * (np.arange(12) == j)
        slope = (clf.decision_function(x + apart) - clf.decision_function(x - apart)) / (2 * step)
        np.testing.assert_allclose(gradient[:, j], slope, rtol=1e-3, atol=1e-6 / UNITS[j])


def test_integrated_gradients_begin_at_a_baseline_in_units_of_the_inputs(clf):
    baseline = RAW.mean(axis=0)
    found = clf.integrated_gradients(RAW[:5], baseline=baseline, target=1, n_steps=300)
    apart = clf.decision_function(RAW[:5]) - clf.decision_function(baseline[np.newaxis])
    np.testing.assert_allclose(found.sum(axis=1), apart, atol=5e-3)


def test_the_summary_says_it(clf):
    assert clf.summary().lines()["inputs"] == "standardized by the training rows"
    assert "inputs" not in fitted(X, Y, scale_inputs=False).summary().lines()


def test_units_are_only_there_after_a_fit_that_has_them():
    with pytest.raises(AttributeError, match=r"has no input_mean_: call fit first"):
        _ = sknet.MLPClassifier().input_mean_


def test_scorers_and_callbacks_see_the_inputs_as_they_are():
    seen = []

    def look(estimator, X, y):
        seen.append(np.abs(estimator.predict_proba(X[::-1]) - estimator.predict_proba(X)[::-1]).max())
        assert set(map(tuple, X.tolist())) <= set(map(tuple, RAW.tolist()))
        return 0.5

    look.greater_is_better = True
    fitted(RAW, Y, scoring=look, early_stopping=True, max_iter=2, n_iter_no_change=5)
    assert len(seen) == 4
    assert max(seen[1::2]) < 1e-12  # of the rows that are held out, whose outputs are of the epoch's end


# -- transformers ----------------------------------------------------------------------------------------


def test_an_autoencoder_returns_the_units_of_the_inputs():
    params = {"hidden_layer_sizes": (8, 4), "max_iter": 30, "random_state": 0}
    scaler = StandardScaler().fit(RAW)
    with quiet():
        coder = sknet.Autoencoder(scale_inputs=True, **params).fit(RAW)
        other = sknet.Autoencoder(scale_inputs=False, **params).fit(scaler.transform(RAW))
    codes = coder.transform(RAW)
    np.testing.assert_allclose(codes, other.transform(scaler.transform(RAW)), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(coder.loss_curve_, other.loss_curve_, rtol=1e-9)
    assert coder.score(RAW) == pytest.approx(other.score(scaler.transform(RAW)), rel=1e-9)
    expected = scaler.inverse_transform(other.inverse_transform(codes))
    np.testing.assert_allclose(coder.inverse_transform(codes), expected, rtol=1e-8)
    frozen = pickle.loads(pickle.dumps(coder.freeze()))
    np.testing.assert_array_equal(frozen.inverse_transform(codes), coder.inverse_transform(codes))


def test_counts_are_reconstructed_as_they_are():
    """Poisson's deviance is not that of standardized counts."""
    counts = np.random.default_rng(0).poisson(3.0, (100, 6)).astype(float)
    with quiet():
        coder = sknet.Autoencoder((4,), loss="poisson", scale_inputs=True, max_iter=50, random_state=0)
        coder.fit(counts)
    assert (coder.inverse_transform(coder.transform(counts)) > 0).all()


class Blurred(nn.Module):
    def __init__(self):
        self.encoder, self.decoder = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def test_images_are_reconstructed_in_their_units():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(80, 2, 5, 5)) * np.reshape([1, 1e5], (2, 1, 1)) + 1e6
    with quiet():
        coder = sknet.NetTransformer(
            Blurred, scale_inputs=True, optimizer=sknet.optim.Adam(0.02), max_iter=100, random_state=0
        ).fit(images)
    back = coder.inverse_transform(coder.transform(images))
    assert ((back - images).std(axis=(0, 2, 3)) < 0.3 * images.std(axis=(0, 2, 3))).all()
    np.testing.assert_array_equal(coder.freeze().inverse_transform(coder.transform(images)), back)


# -- other forms -----------------------------------------------------------------------------------------


def methods(predictor):
    return predictor.predict_proba if hasattr(predictor, "predict_proba") else predictor.predict


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_copies_files_and_frozen_predictors_compute_the_same(tmp_path, task, dtype):
    X, y = TABLES[task]
    X = X * UNITS + SHIFTS
    model = fitted(X, y, task=task, dtype=dtype)
    sknet.save(model, tmp_path / "model.sknet")
    sknet.save(model.freeze(), tmp_path / "frozen.sknet")
    others = [
        pickle.loads(pickle.dumps(model)),
        pickle.loads(pickle.dumps(model.slim())),
        copy.deepcopy(model),
        sknet.load(tmp_path / "model.sknet"),
        model.freeze(),
        copy.deepcopy(model.freeze()),
        pickle.loads(pickle.dumps(model.freeze())),
        sknet.load(tmp_path / "frozen.sknet"),
    ]
    for n in (1, 1, 1, 20, len(X)):  # a single row has a program from the second call on
        for other in others:
            np.testing.assert_array_equal(methods(other)(X[:n]), methods(model)(X[:n]))


def test_clones_have_no_units():
    assert not hasattr(clone(fitted(RAW, Y)), "input_mean_")


def test_files_whose_units_do_not_fit_are_refused(tmp_path):
    sknet.save(fitted(RAW, Y), tmp_path / "broken.sknet")
    kind, document = read_any(tmp_path / "broken.sknet")
    for mean, scale, said in (
        (np.zeros(3), np.ones(3), "do not fit"),
        (np.zeros(12), np.zeros(12), "above 0"),
        (np.full(12, np.nan), np.ones(12), "finite"),
    ):
        broken = edited(
            document, "Units", lambda state, new=(mean, scale): state.update(mean=new[0], scale=new[1])
        )
        write(tmp_path / "broken.sknet", broken, kind)
        with pytest.raises(sknet.exceptions.LoadError, match=said):
            sknet.load(tmp_path / "broken.sknet")


def test_python_files(tmp_path):
    for name, X, model in (
        ("table", RAW, fitted(RAW, Y)),
        ("single", RAW.astype(np.float32), fitted(RAW.astype(np.float32), Y)),
    ):
        path = tmp_path / f"{name}.py"
        model.freeze().to_python(path)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        np.testing.assert_array_equal(module.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_onnx_models(tmp_path, dtype):
    runtime = pytest.importorskip("onnxruntime")
    X = (1e3 + RAW / UNITS).astype(dtype)
    model = fitted(X, Y)
    sknet.onnx.export(model, tmp_path / "model.onnx", dtype=np.dtype(dtype).name)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    _, found = session.run(None, {"X": X})
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-12 if dtype is np.float64 else 1e-5)


def test_onnx_models_of_several_inputs(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    both = {"ids": rng.integers(0, 10, 40), "x": rng.normal(size=(40, 2)) * 1e6}
    with quiet():
        clf = sknet.NetClassifier(Words, scale_inputs=True, max_iter=3).fit(both, both["x"][:, 0] > 0)
    sknet.onnx.export(clf, tmp_path / "model.onnx", dtype="float64")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    _, found = session.run(None, both)
    np.testing.assert_allclose(found, clf.predict_proba(both), rtol=1e-9)


# -- early stopping and targets that are left to the data ------------------------------------------------


def test_automatic_early_stopping():
    """Above 10,000 rows, and where rows to validate on are given."""
    X = np.random.default_rng(0).normal(size=(10_001, 2))
    y = X[:, 0] > 0
    shared = {"early_stopping": "auto", "max_iter": 1}
    assert fitted(X, y, **shared).best_epoch_ == 1
    assert fitted(X[1:], y[1:], **shared).best_epoch_ is None
    assert fitted(RAW, Y, validation_split=(TRAINING, HELD_OUT), **shared).best_epoch_ == 1
    with quiet():
        clf = estimator_for("binary", **shared)
        assert clf.fit(RAW, Y, X_val=RAW[HELD_OUT], y_val=Y[HELD_OUT]).best_epoch_ == 1
    first_part("binary", estimator_for("binary", **shared), X, y)
    fitted(X, y, optimizer="lbfgs", **shared)


def test_automatic_early_stopping_needs_no_monitor():
    """Where several scorers, or one without a direction, could decide, the loss does."""
    params = {"early_stopping": "auto", "validation_split": (TRAINING, HELD_OUT), "max_iter": 1}
    for scoring in (["accuracy", "f1"], lambda estimator, X, y: 1.0):
        assert fitted(RAW, Y, scoring=scoring, **params).monitor_ == "validation_loss"
        with pytest.raises(ValueError, match="monitor='loss'"):
            fitted(RAW, Y, scoring=scoring, **params | {"early_stopping": True})
    assert fitted(RAW, Y, scoring="f1", **params).monitor_ == "validation_f1"


def test_automatic_targets():
    """Standardized where the loss says how it changes with their unit."""
    X, y = TABLES["regression"]
    auto = fitted(X, 1e5 * y, task="regression", scale_target="auto")
    assert same_bits(auto, fitted(X, 1e5 * y, task="regression", scale_target=True))
    shares = np.exp(TABLES["multioutput"][1])
    shares /= shares.sum(axis=1, keepdims=True)
    fitted(X, shares, task="multioutput", loss="kl_divergence", scale_target="auto")


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits, load_diabetes])
def test_fits_of_defaults_warn_of_nothing(load):
    """Warnings are errors here; some of these fits end at their last epoch."""
    X, y = load(return_X_y=True)
    (sknet.MLPRegressor if load is load_diabetes else sknet.MLPClassifier)(random_state=0).fit(X, y)


def test_ensembles_and_networks_of_defaults_warn_of_nothing():
    X, y = load_iris(return_X_y=True)

    def network(n_features, n_outputs):
        return nn.Sequential(nn.Linear(n_features, 32), nn.ReLU(), nn.Linear(32, n_outputs))

    sknet.MLPClassifier(n_members=2, random_state=0).fit(X, y)
    sknet.NetClassifier(network, random_state=0).fit(X, y)
    sknet.Autoencoder(random_state=0).fit(load_breast_cancer().data)


def test_fits_that_end_while_their_loss_falls_warn():
    X, y = load_iris(return_X_y=True)
    for max_iter in (1, 2, 10, 11, 40):
        with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="Maximum iterations"):
            sknet.MLPClassifier(max_iter=max_iter, random_state=0).fit(X, y)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="Maximum iterations"):  # nearly linear
        sknet.MLPClassifier(lr=1e-4, random_state=0).fit(X, y)


def test_the_warning_of_a_fit_that_ends_says_what_to_do():
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="Raise max_iter or the learning rate"):
        estimator_for("binary").fit(X, Y)


def test_importances_do_not_depend_on_units():
    scaled = fitted(StandardScaler().fit_transform(RAW), Y, scale_inputs=False)
    np.testing.assert_allclose(fitted(RAW, Y).feature_importances_, scaled.feature_importances_, rtol=1e-6)


def test_a_column_that_was_constant_in_another_precision_is_constant() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    X[:, 1] = 0.1  # which single precision rounds
    clf = sknet.MLPClassifier((4,), random_state=0).partial_fit(X, y, classes=[0, 1])
    for _ in range(2):
        clf.partial_fit(X.astype(np.float32), y)
    moved = X.copy()
    moved[:, 1] = 0.2
    difference = clf.decision_function(moved) - clf.decision_function(X)
    assert np.abs(difference).max() < 1  # not 1e8 deviations
