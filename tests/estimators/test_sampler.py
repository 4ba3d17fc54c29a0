"""Epochs that draw rows by class, by weight, or as a function says."""

import pickle

import numpy as np
import pytest

import sknet
from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, nn
from sknet.callbacks import Callback, Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 3))
Y = np.where(np.arange(N) < 20, "rare", np.where(np.arange(N) < 120, "some", "most"))
Z = X @ [1.0, 2.0, -1.0]
WEIGHT = RNG.uniform(0.0, 2.0, N) * (np.arange(N) % 4 > 0)
SMALL = {"hidden_layer_sizes": (8,), "max_iter": 4, "random_state": 0}


class Seen(Callback):
    """Counts the steps of a fit."""

    steps = 0

    def on_fit_end(self, fit):
        self.steps = fit.step


class Noting(nn.Linear):
    """Notes the first column of the rows that it is trained on."""

    seen: list = []

    def forward(self, x):
        if self.training and len(x) == N:
            Noting.seen.append(x.numpy()[:, 0].copy())  # which no compiled step can do
        return super().forward(x)


def drawn(shares, epochs):
    """Return how often each row is drawn in epochs of one batch."""
    Noting.seen = []
    net = NetRegressor(
        Noting(4, 1), sampler="weight", scale_inputs=False, optimizer=sknet.optim.SGD(1e-9),
        batch_size=N, max_iter=epochs, tol=0, n_iter_no_change=epochs + 1, random_state=0,
    )  # fmt: skip
    net.fit(np.c_[np.arange(N), X], Z, sample_weight=shares)
    return np.bincount(np.concatenate(Noting.seen[-epochs:]).astype(int), minlength=N)


@pytest.mark.filterwarnings("ignore:the training step is not compiled")
def test_rows_are_drawn_in_proportion():
    epochs = 500
    counts, expected = drawn(WEIGHT, epochs), WEIGHT / WEIGHT.sum() * N * epochs
    assert (counts[expected == 0] == 0).all()
    deviations = (counts - expected)[expected > 0] / np.sqrt(expected[expected > 0])
    assert np.abs(deviations).max() < 4.5
    assert np.square(deviations).mean() == pytest.approx(1.0, abs=0.3)


def test_balanced_sampler_is_a_function_of_classes_and_of_weights():
    def inverse(y, sample_weight):
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        return 7.0 / counts[codes]

    by_name = MLPClassifier(**SMALL, sampler="balanced").fit(X, Y)
    by_function = MLPClassifier(**SMALL, sampler=inverse).fit(X, Y)
    np.testing.assert_array_equal(by_name.predict_proba(X), by_function.predict_proba(X))
    options = SMALL | {"scale_inputs": False}  # units of inputs depend on weights
    by_name = MLPClassifier(**options, sampler="balanced").fit(X, Y)
    by_weight = MLPClassifier(**options, sampler="weight", class_weight="balanced").fit(X, Y)
    np.testing.assert_array_equal(by_name.predict_proba(X), by_weight.predict_proba(X))


def test_drawing_by_weight_learns_what_weights_in_the_loss_do():
    options = SMALL | {
        "hidden_layer_sizes": (),
        "max_iter": 300,
        "lr": 0.01,
        "alpha": 0.0,
        "n_iter_no_change": 300,
    }
    by_loss = MLPClassifier(**options).fit(X, Y, sample_weight=WEIGHT)
    by_draw = MLPClassifier(**options, sampler="weight").fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_allclose(by_draw.predict_proba(X), by_loss.predict_proba(X), atol=0.06)
    balanced = MLPClassifier(**options, sampler="balanced").fit(X, Y)
    np.testing.assert_allclose(balanced.predict_proba(X).mean(axis=0), 1 / 3, atol=0.06)


def test_rows_with_missing_targets_are_drawn_by_weight():
    targets = np.c_[Z, -Z]
    targets[::3, 0] = np.nan
    targets[0] = np.nan
    options = SMALL | {"hidden_layer_sizes": (), "max_iter": 300, "lr": 0.01, "n_iter_no_change": 300}
    options |= {"alpha": 1e-4}
    rows, each = WEIGHT, np.c_[WEIGHT, 2.0 - WEIGHT]
    for weight in (rows, each):
        draw = MLPRegressor(**options, sampler="weight").fit(X, targets, sample_weight=weight)
        loss = MLPRegressor(**options).fit(X, targets, sample_weight=weight)
        np.testing.assert_allclose(draw.predict(X), loss.predict(X), atol=0.05)
        assert draw.history_["score"][-1] == pytest.approx(draw.score(X, targets, weight), abs=0.01)


def test_steps_seed_and_early_stopping():
    plain, balanced = (
        MLPClassifier(**SMALL, sampler=s, callbacks=[Seen()]).fit(X, Y) for s in (None, "balanced")
    )
    assert balanced.callbacks_[0].steps == plain.callbacks_[0].steps == 8
    again = MLPClassifier(**SMALL, sampler="balanced").fit(X, Y)
    np.testing.assert_array_equal(balanced.predict_proba(X), again.predict_proba(X))
    assert not np.array_equal(balanced.predict_proba(X), plain.predict_proba(X))
    val = {"X_val": X[::2], "y_val": Y[::2]}
    stopping = MLPClassifier(**SMALL, sampler="balanced", early_stopping=True).fit(X[1::2], Y[1::2], **val)
    assert stopping.score(X[::2], Y[::2]) == pytest.approx(stopping.best_validation_score_)
    refit = MLPClassifier(**SMALL, sampler="balanced", early_stopping=True, refit_on_all=True).fit(X, Y)
    assert refit.refit_history_ is not None


def test_resumed_continued_and_saved(tmp_path):
    options = SMALL | {"sampler": "balanced"}
    whole = MLPClassifier(**options).fit(X, Y)
    MLPClassifier(**options | {"max_iter": 2}, callbacks=[Checkpoint(tmp_path / "fit")]).fit(X, Y)
    resumed = MLPClassifier(**options).fit(X, Y, resume_from=tmp_path / "fit")
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    assert resumed.loss_curve_ == whole.loss_curve_
    warm = MLPClassifier(**options | {"max_iter": 2}, warm_start=True).fit(X, Y).fit(X, Y)
    warm.partial_fit(X[:200], Y[:200])
    sknet.save(warm, tmp_path / "net.safetensors")
    for other in (sknet.load(tmp_path / "net.safetensors"), pickle.loads(pickle.dumps(warm)), warm.freeze()):
        np.testing.assert_array_equal(other.predict_proba(X), warm.predict_proba(X))


def test_members_networks_and_regression():
    several = MLPClassifier(**SMALL, sampler="balanced", n_members=2, bootstrap=True).fit(X, Y)
    assert np.isfinite(several.predict_proba(X)).all()
    net = NetClassifier(nn.Sequential(nn.LazyLinear(3)), sampler="balanced", max_iter=2).fit(X, Y)
    assert net.predict(X).shape == Y.shape
    options = SMALL | {"max_iter": 60, "lr": 0.01}
    regressor = MLPRegressor(**options, sampler="weight").fit(X, Z, sample_weight=WEIGHT)
    assert regressor.history_["score"][-1] == pytest.approx(regressor.score(X, Z, WEIGHT), abs=0.05)
    assert regressor.score(X, Z) > 0.9


@pytest.mark.parametrize("options", [{"sampler": "weight"}, {"sampler": "balanced"}, {"sampler": None}])
def test_scorers_of_training_rows_count_what_is_drawn(options):
    options = SMALL | {"batch_size": N} | options  # one batch, so that a row has one output an epoch
    fits = [MLPClassifier(**options, scoring=scoring) for scoring in (None, ["accuracy"])]
    by_default, by_scorer = (fit.fit(X, Y, sample_weight=WEIGHT).history_ for fit in fits)
    assert by_scorer["accuracy"] == pytest.approx(by_default["score"])


@pytest.mark.parametrize(
    ("params", "fit", "message"),
    [
        ({"sampler": "weight"}, {}, "sampler='weight' draws rows by weights"),
        ({"sampler": "balanced", "shuffle": False}, {}, "shuffle=False keeps their order"),
        ({"sampler": "balanced", "optimizer": "lbfgs"}, {}, "sampler='balanced' needs an optimizer"),
        ({"sampler": lambda y, w: -np.ones(len(y))}, {}, "number of 0 or more.*got -1 at index 0"),
        ({"sampler": lambda y, w: np.zeros(len(y))}, {}, "some above 0; got zeros only"),
        ({"sampler": lambda y, w: [1.0]}, {}, r"for each of 400 rows.*got shape \(1,\)"),
        ({"sampler": lambda y, w: y}, {}, "for each of 400 rows.*got array"),
        ({"sampler": "balance"}, {}, "The 'sampler' parameter"),
    ],
    ids=["weights", "order", "lbfgs", "negative", "zeros", "shape", "labels", "name"],
)
def test_errors(params, fit, message):
    with pytest.raises(ValueError, match=message):
        MLPClassifier(**SMALL | params).fit(X, Y, **fit)


def test_balanced_sampler_needs_one_label():
    with pytest.raises(ValueError, match="needs one label a row"):
        MLPRegressor(**SMALL, sampler="balanced").fit(X, Z)
    with pytest.raises(ValueError, match="needs one label a row"):
        MLPClassifier(**SMALL, sampler="balanced").fit(X, np.c_[Z > 0, X[:, 0] > 0].astype(int))
