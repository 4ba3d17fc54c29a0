"""scikit-learn's own checks of estimators whose parameters are not the default ones.

What a parameter rules out is refused with an error that says so: these checks have to end with it.
"""

import re
import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from sknet import Autoencoder, MLPClassifier, MLPRegressor, NetRegressor, nn
from sknet.losses import Quantile
from sknet.optim import Adam


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

# What these parameters can change: what is learned, from which rows, and what a fit leaves behind. How data
# may be given is decided before any of them is looked at, and checked with the default ones.
CHECKS = {
    "check_class_weight_classifiers",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_classifiers_train",
    "check_decision_proba_consistency",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_n_features_in_after_fitting",
    "check_non_transformer_estimators_n_iter",
    "check_regressors_int",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_transformer_general",
}
CASES = [
    (estimator, check)
    for each in ESTIMATORS
    for estimator, check in estimator_checks_generator(each)
    if check.func.__name__ in CHECKS
]

IN_PARTS = r"partial_fit does not support (early_stopping=True without X_val|refit_on_all)"
TOO_FEW = r"validation set is too small"
NOT_THE_SAME = "fitting with `sample_weight` is not equivalent"
WEIGHTS = {"check_sample_weight_equivalence_on_dense_data": NOT_THE_SAME}
# Which checks cannot pass where a parameter is set, and what they end with.
RULED_OUT = {
    # A row that is repeated is held out more often than one with a weight.
    "early_stopping": WEIGHTS
    | {
        "check_n_features_in_after_fitting": IN_PARTS,
        "check_estimators_partial_fit_n_features": IN_PARTS,
        "check_fit2d_1feature": TOO_FEW,
    },
    # Each of the rows that repeat another draws for itself.
    "noise": WEIGHTS,
    # The data can be separated: where a probability in float32 is 1, its logarithm is not yet 0.
    "calibrate": {"check_classifiers_train": "Not equal to tolerance rtol=8, atol=1e-09"},
}


def ruled_out(estimator, name):
    """Return what the check says where the parameters rule out what it checks."""
    asked = [found for parameter, found in RULED_OUT.items() if getattr(estimator, parameter, None)]
    return next((found[name] for found in asked if name in found), None)


def test_no_check_was_renamed():
    assert {check.func.__name__ for _, check in CASES} == CHECKS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "check"), CASES, ids=lambda each: getattr(each, "func", type(each)).__name__
)
def test_check(estimator, check):
    message = ruled_out(estimator, check.func.__name__)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the temperature is left at 1")
        if message is None:
            check(estimator)
            return
        with pytest.raises((ValueError, AssertionError)) as caught:
            check(estimator)
    said = f"{caught.value} {caught.value.__cause__}"
    assert re.search(message, said), said
