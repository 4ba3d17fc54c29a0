"""Scores of all rows at once, from outputs that come in parts and in any order."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sknet.engine import Accuracy
from sknet.engine._scores import Gathered

RNG = np.random.default_rng(0)
N = 40
OUTPUTS = RNG.normal(size=(N, 1))
LABELS = RNG.integers(2, size=N)


def area(outputs, rows):
    return {"area": roc_auc_score(LABELS if rows is None else LABELS[rows], outputs[:, 0])}


def filled(order, sizes, left_out=()):
    """Return a score to which the rows were added in this order, in parts of these sizes."""
    score, start = Gathered(N, area, ["area"]), 0
    for number, size in enumerate(sizes):
        rows = order[start : start + size]
        start += size
        if number not in left_out:
            score.add(OUTPUTS[rows], None, None, rows)
    return score


@pytest.mark.parametrize("seed", range(5))
def test_neither_order_nor_parts_matter(seed):
    rng = np.random.default_rng(seed)
    sizes = np.diff([0, *np.sort(rng.choice(np.arange(1, N), 4, replace=False)), N])
    score = filled(rng.permutation(N), sizes)
    assert score.results() == {"area": roc_auc_score(LABELS, OUTPUTS[:, 0])}
    assert score.result() == score.results()["area"]


def test_rows_in_a_slice():
    score = Gathered(N, area, ["area"])
    for start in (0, 20):
        score.add(OUTPUTS[start : start + 20], None, None, slice(start, start + 20))
    assert score.results() == area(OUTPUTS, None)


def test_rows_that_never_come_do_not_count():
    order = RNG.permutation(N)
    score = filled(order, [10, 10, 20], left_out=[1])
    came = np.sort(np.r_[order[:10], order[20:]])
    assert score.results() == area(OUTPUTS[came], came)
    assert np.isnan(Gathered(N, area, ["area"]).result())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_has_no_score(bad):
    score = Gathered(2, area, ["area", "more"])
    score.add(np.array([[0.0], [bad]]), None, None, slice(0, 2))
    assert np.isnan([score.results()[name] for name in ("area", "more")]).all()


def test_rows_must_be_named():
    with pytest.raises(ValueError, match="Gathered needs the indices of the rows"):
        Gathered(N, area, ["area"]).add(OUTPUTS, None, None)


def test_other_scores_have_one_name():
    score = Accuracy()
    score.add(OUTPUTS, LABELS.reshape(-1, 1), None, slice(0, N))
    assert score.results() == {"score": score.result()}
