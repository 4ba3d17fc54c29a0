"""scikit-learn's own checks of estimators with non-default parameters.

Checks of features that a parameter rules out have to end with an error that says so.
"""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import check_class_weight_classifiers, estimator_checks_generator

from sknet import Autoencoder, MLPClassifier, MLPRegressor, NetRegressor, nn
from sknet.losses import Quantile
from sknet.optim import Adam
from tests.estimators.checks import run_check


class Net(nn.Module):
    def __init__(self, n_outputs):
        self.hidden = nn.LazyLinear(8)
        self.last = nn.LazyLinear(n_outputs)

    def forward(self, x):
        return self.last(self.hidden(x).tanh())


SMALL = {"optimizer": Adam(lr=0.02), "max_iter": 60}
STOPPING = {"early_stopping": True, "n_iter_no_change": 5}


def classifier(**params):
    return MLPClassifier(**{"hidden_layer_sizes": (8,)} | SMALL | params)


def regressor(**params):
    return MLPRegressor(**{"hidden_layer_sizes": (8,)} | SMALL | params)


ESTIMATORS = [
    classifier(calibrate="temperature", **STOPPING),
    classifier(class_weight="balanced", refit_on_all=True, scoring=["accuracy"], monitor="loss", **STOPPING),
    regressor(scale_target=True, loss=Quantile([0.1, 0.5, 0.9]), refit_on_all=True, **STOPPING),
    NetRegressor(Net, scale_target=True, loss="absolute_error", frozen="*.bias", shuffle=False, **SMALL),
    Autoencoder((6, 2), tied=True, noise=0.1, alpha=1.0, **SMALL),
]

# Input validation does not depend on parameters, and is checked with the default ones; the first two take
# longer than all others together. Checks of array namespaces need another process.
LEFT_OUT = {
    "check_estimators_dtypes",
    "check_fit_score_takes_y",
    "check_array_api_input",
    "check_array_api_mixed_inputs",
    "check_array_api_same_namespace",
    "check_classifier_data_not_an_array",
    "check_complex_data",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_pipeline_consistency",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_transformer_data_not_an_array",
    "check_transformer_preserve_dtypes",
}
ALL = [pair for each in ESTIMATORS for pair in estimator_checks_generator(each)]
CASES = [(estimator, check) for estimator, check in ALL if check.func.__name__ not in LEFT_OUT]

IN_PARTS = r"partial_fit does not support (early_stopping=True without X_val|refit_on_all)"
TOO_FEW = r"validation set is too small"
NOT_THE_SAME = "fitting with `sample_weight` is not equivalent"
WEIGHTS = {"check_sample_weight_equivalence_on_dense_data": NOT_THE_SAME}
# Checks that cannot pass with a parameter, and the error they end with.
RULED_OUT = {
    # A row that is repeated is held out more often than one with a weight.
    "early_stopping": WEIGHTS
    | {
        "check_n_features_in_after_fitting": IN_PARTS,
        "check_estimators_partial_fit_n_features": IN_PARTS,
        "check_estimators_nan_inf": TOO_FEW,
        "check_fit2d_1feature": TOO_FEW,
        "check_regressors_no_decision_function": TOO_FEW,
    },
    # Each of the rows that repeat another draws for itself.
    "noise": WEIGHTS,
}


def ruled_out(estimator, name):
    """Return the expected error of a check that the parameters rule out."""
    asked = [
        found
        for parameter, found in RULED_OUT.items()
        if getattr(estimator, parameter, None) not in (None, 0, "auto")
    ]
    return next((found[name] for found in asked if name in found), None)


def test_no_check_was_renamed():
    assert {check.func.__name__ for _, check in ALL} >= LEFT_OUT


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "check"), CASES, ids=lambda each: getattr(each, "func", type(each)).__name__
)
def test_check(estimator, check):
    message = ruled_out(estimator, check.func.__name__)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the temperature is left at 1")
        if message is None:
            run_check(estimator, check)
            return
        with pytest.raises((ValueError, AssertionError)) as caught:
            run_check(estimator, check)
    said = f"{caught.value} {caught.value.__cause__}"
    assert re.search(message, said), said


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:the temperature is left")
@pytest.mark.parametrize("refit_on_all", [False, True])
@pytest.mark.parametrize("calibrate", ["temperature", None])
def test_class_weights_decide_where_the_loss_does(calibrate, refit_on_all):
    """A scorer gets no class weights, as in a search: stopping by accuracy contradicts extreme ones.

    The classes of scikit-learn's check overlap, and with its weights the network should always predict one of
    them, which does not maximize the accuracy on held-out rows.
    """
    params = {"scoring": ["accuracy"], "calibrate": calibrate, "refit_on_all": refit_on_all}
    by_loss = classifier(monitor="loss", **params, **STOPPING)
    check_class_weight_classifiers("MLPClassifier", by_loss)
    X, y = make_blobs(centers=3, random_state=0, cluster_std=20)
    by_loss.set_params(class_weight={0: 1000, 1: 1e-4, 2: 1e-4}, random_state=0, validation_fraction=0.4)
    by_accuracy = clone(by_loss).set_params(monitor="accuracy").fit(X, y)
    accuracies = by_loss.fit(X, y).history_["validation_accuracy"]
    assert np.mean(by_loss.predict(X) == 0) > 0.87
    assert by_accuracy.best_validation_score_ > accuracies[by_loss.best_epoch_ - 1]
    n = len(by_accuracy.history_["loss"])
    assert (
        by_accuracy.history_["validation_accuracy"] == accuracies[:n]
    )  # the same training, stopped elsewhere
    assert by_accuracy.best_epoch_ == 1 + np.argmax(accuracies[:n])


class Settled(MLPClassifier):
    def __init__(self):
        super().__init__((3,), max_iter=5, alpha=0.1, optimizer=Adam(), random_state=0)


class Narrow(MLPClassifier):
    def __init__(self, alpha=0.1):
        super().__init__((3,), alpha=alpha, max_iter=5, optimizer=Adam(), random_state=0)


@pytest.mark.parametrize("kind", [Settled, Narrow])
def test_a_subclass_with_hardly_any_parameters(kind):
    X, y = make_blobs(40, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        whole, parts = kind().fit(X, y), kind().partial_fit(X, y, classes=[0, 1, 2])
        for _ in range(4):
            parts.partial_fit(X, y)
    assert whole.n_iter_ == 5
    np.testing.assert_array_equal(whole.coefs_[0], parts.coefs_[0])
