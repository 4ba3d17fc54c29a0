"""Fits in other processes of this machine, and what decides where fits run."""

from functools import partial

import joblib
import numpy as np
import pytest

import sknet
from sknet import Model, nn
from sknet.engine import fit_many
from sknet.engine._many import are_sent, in_common, run_together
from sknet.engine._scheduler import grouped
from tests.engine.test_many import LABELS, X, network, trace

PLACES = [
    ({}, False),
    ({"n_jobs": 2}, False),
    ({"backend": "threading", "n_jobs": 2}, False),
    ({"backend": "sequential"}, False),
    ({"prefer": "processes"}, False),
    ({"backend": "loky"}, True),
    ({"backend": "multiprocessing"}, True),
    ({"backend": "loky", "n_jobs": 1}, True),
]


@pytest.mark.parametrize(("config", "expected"), PLACES)
def test_a_backend_of_processes_is_chosen_by_its_name(config, expected):
    with joblib.parallel_config(**config):
        assert are_sent() is expected
        with grouped(2):
            assert not are_sent()


@pytest.mark.parametrize("config", [{"n_jobs": 2}, {"n_jobs": 1}], ids=["two processes", "this one"])
def test_fits_in_processes_are_those_of_this_one(config):
    """Rows are large enough to be memory-mapped, which makes them read-only."""
    rows = np.random.default_rng(0).normal(size=(50_000, 6)).astype("f4")
    labels = np.arange(len(rows)) % 3

    def models():
        return [Model(network(nn.ReLU()), "log_loss", random_state=i) for i in range(3)]

    here, there = models(), models()
    options = {"epochs": 1, "batch_size": 500}
    wanted = trace(here, fit_many(here, rows, labels, **options))
    with joblib.parallel_config("loky", **config), sknet.config_context(native="never"):
        found = trace(there, fit_many(there, rows, labels, **options))
    assert found == wanted


def settings(number):
    return sknet.get_config()["native"], are_sent()


def test_settings_of_the_caller_hold_in_processes():
    with joblib.parallel_config("loky", n_jobs=2), sknet.config_context(native="never"):
        assert run_together([partial(settings, i) for i in range(3)]) == [("never", False)] * 3
        assert run_together([]) == []


def test_what_fits_have_in_common_is_what_several_take():
    shared, own = np.arange(3), [np.arange(4), np.arange(5)]
    fits = [partial(print, {"a": shared}, own[i], end=shared, sep="x") for i in range(2)]
    assert [id(each) for each in in_common([*fits, lambda: None])] == [id(shared)]
    assert [len(each) for each in in_common(fits[:1])] == [3, 4]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_here_says_which_fit_it_is_of(n_jobs):
    models = [Model(network(nn.ReLU()), "log_loss", random_state=i) for i in range(3)]
    bad = [X, X * np.nan, X]
    fits = [partial(model.fit, rows, LABELS) for model, rows in zip(models, bad, strict=True)]
    with pytest.raises(ValueError, match=r"not finite|nan|NaN") as error:
        run_together(fits, n_jobs)
    assert error.value.__notes__ == ["in fit 1 of 3, counted from 0"]
    with pytest.raises(ValueError, match=r"not finite|nan|NaN") as error:
        run_together(fits[1:2], n_jobs)
    assert not hasattr(error.value, "__notes__")
