"""Every loss by its name: fits improve, predictions beat chance, and match the loss's link."""

import ast
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone

import sknet
from sknet import MLPClassifier, MLPRegressor, Model, TabularClassifier, TabularRegressor, nn, ops
from sknet.losses import LOSSES, Focal, GaussianNLL, Hinge, LogLoss, Loss
from tests.estimators.data import CLASSIFICATIONS, OTHER_CLASSIFICATIONS, TABLES, estimator_for, quiet

LOSSES_OF_PROBABILITIES = ("nll", "binary_cross_entropy")
SETTINGS = {"max_iter": 60, "optimizer": sknet.optim.Adam(lr=0.01), "tol": 0.0}


def _shares(X, y):
    weights = np.exp(y)
    return X, weights / weights.sum(axis=1, keepdims=True)


def _times(X, y):
    return X, np.c_[np.exp(y[:, 0]), y[:, 1] > -0.5]


TASKS = {
    "gamma": ("counts", "many counts"),
    "tweedie": ("counts", "many counts"),
    "poisson": ("counts", "many counts"),
    "kl_divergence": ("shares",),
    "multi_margin": ("multiclass", "columns"),
    "ordinal": ("ordinal",),
    "cox": ("times",),
    "aft": ("times",),
}
DATA = {**TABLES, "shares": _shares(*TABLES["multioutput"]), "times": _times(*TABLES["multioutput"])}
ROWS = [
    (name, task)
    for name, loss in LOSSES.items()
    if name not in LOSSES_OF_PROBABILITIES and loss.tasks
    for task in TASKS.get(
        name, (*CLASSIFICATIONS, "columns") if "binary" in loss.tasks else ("regression", "multioutput")
    )
]


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize(("name", "task"), ROWS)
def test_fit(name, task, optimizer):
    X, y = DATA[task]
    more = {"optimizer": optimizer} if optimizer == "lbfgs" else SETTINGS
    with quiet():
        estimator = estimator_for(task, loss=name, **{**more, "max_iter": 60}).fit(X, y)
        short = estimator_for(task, loss=name, **{**more, "max_iter": 1}).fit(X, y)
    assert estimator.loss_ < short.loss_
    chance = short.score(X, y) if task == "times" else 0.0  # of times the score is a loss
    if task in CLASSIFICATIONS + OTHER_CLASSIFICATIONS:
        chance = 0.3 if task in ("multilabel", "columns") else np.bincount(y).max() / len(y) + 0.1
    assert estimator.score(X, y) > chance
    assert estimator.predict(X).shape == (y[:, 0] if task == "times" else y).shape


@pytest.mark.parametrize("name", LOSSES_OF_PROBABILITIES)
@pytest.mark.parametrize("kind", [sknet.MLPClassifier, sknet.MLPRegressor])
def test_perceptrons_return_no_probabilities(kind, name):
    with pytest.raises(ValueError, match=rf"expects probabilities, but {kind.__name__} outputs logits"):
        kind(loss=name).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(("name", "end", "task"), [
    ("nll", nn.Softmax, "multiclass"), ("binary_cross_entropy", nn.Sigmoid, "binary"),
    ("binary_cross_entropy", nn.Sigmoid, "multilabel"),
])  # fmt: skip
def test_losses_of_probabilities_train_as_the_log_loss_does(name, end, task):
    X, y = TABLES[task]
    n_outputs = {"binary": 1, "multiclass": 3, "multilabel": y.shape[-1]}[task]
    log_loss = LogLoss().for_task(task)

    def trained(loss, *ends):
        layers = [nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, n_outputs), *[end() for end in ends]]
        model = Model(nn.Sequential(*layers), loss=loss, dtype="float64", random_state=0)
        return model, [model.step(X, y).loss for _ in range(20)]

    (model, losses), (_, expected) = trained(name, end), trained(log_loss)
    np.testing.assert_allclose(losses, expected, rtol=1e-9)
    assert losses[-1] < losses[0]
    assert model.loss_function.threshold == 0.5


class TestHinge:
    @pytest.mark.parametrize("task", CLASSIFICATIONS)
    @pytest.mark.parametrize("loss", ["hinge", Hinge(squared=True)])
    def test_has_decisions_and_no_probabilities(self, task, loss):
        X, y = TABLES[task]
        unfitted = estimator_for(task, loss=loss)
        with quiet():
            fitted = clone(unfitted).fit(X, y)
        for estimator in (unfitted, fitted, fitted.freeze(), pickle.loads(pickle.dumps(fitted))):
            for method in ("predict_proba", "predict_log_proba"):
                assert not hasattr(estimator, method)
                with pytest.raises(AttributeError, match=method) as error:
                    getattr(estimator, method)(X)
                assert "has no probabilities with Hinge" in str(error.value.__cause__)
        decisions = fitted.decision_function(X)
        expected = {
            "binary": lambda: (decisions > 0).astype(int),
            "multiclass": lambda: decisions.argmax(axis=1),
            "multilabel": lambda: (decisions > 0).astype(int),
        }[task]()
        np.testing.assert_array_equal(fitted.predict(X), expected)

    def test_other_losses_have_probabilities_before_the_fit_too(self):
        for loss in ("log_loss", "focal", LogLoss(), Focal(), "no such loss", None):
            assert hasattr(sknet.MLPClassifier(loss=loss), "predict_proba")


def test_focal_probabilities_are_the_logistic_functions_of_decisions():
    X, y = TABLES["binary"]
    with quiet():
        classifier = estimator_for("binary", loss="focal").fit(X, y)
    np.testing.assert_allclose(
        classifier.predict_proba(X)[:, 1], 1 / (1 + np.exp(-classifier.decision_function(X))), rtol=1e-6
    )
    np.testing.assert_allclose(
        classifier.predict_log_proba(X), np.log(classifier.predict_proba(X)), rtol=1e-5
    )
    assert classifier.out_activation_ == "logistic"


class TestGaussian:
    def data(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, size=(2000, 1))
        scale = np.exp(X[:, 0])
        return X, 2 * X[:, 0] + scale * rng.standard_normal(2000), scale

    def test_learns_mean_and_deviation(self):
        X, y, scale = self.data()
        with quiet():
            regressor = sknet.MLPRegressor((16,), loss="gaussian_nll", random_state=0, optimizer="lbfgs").fit(
                X, y
            )
        assert np.abs(regressor.predict(X) - 2 * X[:, 0]).mean() < 0.15
        assert np.abs(np.log(regressor.predict_std(X) / scale)).mean() < 0.15
        assert regressor.n_outputs_ == 2
        frozen = regressor.freeze()
        np.testing.assert_allclose(frozen.predict(X[:5]), regressor.predict(X[:5]))
        np.testing.assert_allclose(frozen.predict_std(X[:5]), regressor.predict_std(X[:5]))

    def test_of_several_targets(self):
        X, y = TABLES["multioutput"]
        with quiet():
            regressor = estimator_for("multioutput", loss=GaussianNLL()).fit(X, y)
        assert regressor.predict(X).shape == regressor.predict_std(X).shape == y.shape
        assert regressor.n_outputs_ == 2 * y.shape[1]

    def test_other_losses_have_no_deviation(self):
        X, y = TABLES["regression"]
        with quiet():
            fitted = estimator_for("regression").fit(X, y)
        for estimator in (sknet.MLPRegressor(), fitted, fitted.freeze()):
            with pytest.raises(AttributeError, match="predict_std") as error:
                estimator.predict_std(X)
            assert "use loss='gaussian_nll'" in str(error.value.__cause__)
        assert hasattr(sknet.MLPRegressor(loss="gaussian_nll"), "predict_std")


class Misses(Loss):
    """A custom loss of probabilities."""

    tasks = ("binary",)
    of_probabilities = True

    def values(self, output, target):
        p, y = self.pair(output, target)
        return self.total(ops.square(p - y))


def test_a_loss_of_probabilities_written_by_a_user():
    with pytest.raises(ValueError, match=r"Misses\(\) expects probabilities"):
        sknet.MLPClassifier(loss=Misses()).fit([[0.0], [1.0]], [0, 1])


def test_label_smoothing_makes_probabilities_less_sure():
    X, y = TABLES["multiclass"]
    with quiet():
        plain, smooth = (
            estimator_for("multiclass", loss=LogLoss(label_smoothing=share), **SETTINGS).fit(X, y)
            for share in (0.0, 0.2)
        )
    assert smooth.predict_proba(X).max(axis=1).mean() < plain.predict_proba(X).max(axis=1).mean() - 0.05


MODELS_ALONE = ("ctc", "margin_ranking", "cosine_embedding", "triplet_margin")


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor, TabularClassifier, TabularRegressor])
def test_losses_of_models_alone_are_said_to_be_so(kind):
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match="must be a str among") as raised:
        kind(loss="none of them").fit(X, y)
    listed, apart = re.search(
        r"among (\[.*?\]) \(Model alone also takes (\[.*?\])\)", str(raised.value)
    ).groups()
    assert sorted(MODELS_ALONE) == ast.literal_eval(apart)
    assert not set(MODELS_ALONE) & set(ast.literal_eval(listed))
    assert set(MODELS_ALONE) | set(ast.literal_eval(listed)) == set(LOSSES)
    for name in MODELS_ALONE:
        with pytest.raises(ValueError, match="is a loss for Model alone: it supports no task of estimators"):
            kind(loss=name).fit(X, y)


def test_a_model_lists_every_loss():
    with pytest.raises(ValueError, match="must be a str among") as raised:
        Model(nn.Linear(2, 1), loss="none of them")
    assert "alone" not in str(raised.value)
    assert "'ctc'" in str(raised.value)
