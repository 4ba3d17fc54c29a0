"""Losses of survival analysis, against SciPy's distributions and the definition of the partial likelihood."""

import pickle

import numpy as np
import pytest
from scipy import optimize, stats

import sknet
from sknet import MLPRegressor, MultiHeadNet, NetRegressor, nn
from sknet.exceptions import ShapeError
from sknet.losses import AFT, Cox

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
RATE = np.exp(X @ [1.0, -0.5])
TIME = RNG.exponential(1 / RATE)
CENSORED = RNG.exponential(2.0, size=300)
Y = np.c_[np.minimum(TIME, CENSORED), TIME <= CENSORED]
DISTRIBUTIONS = {
    "weibull": lambda mu, sigma: stats.weibull_min(1 / sigma, scale=np.exp(mu)),
    "log_logistic": lambda mu, sigma: stats.fisk(1 / sigma, scale=np.exp(mu)),
    "log_normal": lambda mu, sigma: stats.lognorm(sigma, scale=np.exp(mu)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_failure_times_have_the_distributions_of_scipy(name):
    z = RNG.normal(size=(9, 2))
    y = np.c_[RNG.exponential(size=9), np.arange(9) % 2]
    of_scipy = DISTRIBUTIONS[name](z[:, 0], np.exp(z[:, 1]))
    expected = -np.where(y[:, 1] == 1, of_scipy.logpdf(y[:, 0]), of_scipy.logsf(y[:, 0]))
    np.testing.assert_allclose(AFT(name).values(z, y).numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(AFT(name).predict(z).numpy()[:, 0], of_scipy.median(), rtol=1e-10)
    np.testing.assert_allclose(
        AFT(name).predict_interval(z, 0.9).numpy()[:, :, 0], np.stack(of_scipy.interval(0.9), 1), rtol=1e-10
    )


@pytest.mark.parametrize(
    ("z", "rtol"), [(3.0, 1e-12), (10.1, 1e-12), (29.9, 1e-12), (30.1, 1e-12), (200.0, 1e-12)]
)
def test_a_censored_row_far_in_the_tail(z, rtol):
    found = AFT("log_normal").values([[0.0, 0.0]], [[np.exp(z), 0.0]]).numpy()
    np.testing.assert_allclose(found, -stats.norm.logsf(z), rtol=rtol)


@pytest.mark.parametrize("event", [0.0, 1.0])
def test_a_time_far_beyond_the_location_is_infinitely_unlikely(event):
    with np.errstate(over="ignore"):
        assert AFT().values([[-800.0, 0.0]], [[1.0, event]]).numpy() == [np.inf]


def partial_likelihood(z, y):
    """Return the mean over rows, written out."""
    return np.mean([e * (np.log(np.exp(z[y[:, 0] >= t]).sum()) - z[i]) for i, (t, e) in enumerate(y)])


def test_hazards_are_those_of_the_partial_likelihood():
    options = {"optimizer": "lbfgs", "alpha": 0.0, "scale_inputs": False, "tol": 1e-6, "dtype": "float64"}
    net = NetRegressor(nn.Linear(2, 1), loss="cox", random_state=0, **options).fit(X, Y)
    best = optimize.minimize(lambda w: partial_likelihood(X @ w, Y), np.zeros(2), tol=1e-10)
    np.testing.assert_allclose(net.model_.module.weight.numpy().ravel(), best.x, rtol=1e-4)
    np.testing.assert_allclose(net.score(X, Y), concordance(X @ -best.x, Y), rtol=1e-3)


def concordance(later, y):
    """Return the share of comparable pairs in the right order, written out."""
    right = pairs = 0.0
    times, events = y.T
    for i in np.flatnonzero(events):
        pair = (times > times[i]) | ((times == times[i]) & (events == 0))
        pairs += pair.sum()
        right += ((later > later[i]) + 0.5 * (later == later[i]))[pair].sum()
    return right / pairs


@pytest.mark.parametrize("n", [60, 3000])  # of many rows, some are compared at a time
def test_scores_are_concordances(n):
    rng = np.random.default_rng(1)
    rate, given = rng.exponential(size=n), rng.integers(2, size=n)
    y = np.c_[np.round(rng.exponential(1 / rate), 1) + 0.1, given]  # with ties
    risk = np.round(rate, 1)
    np.testing.assert_allclose(Cox().score(y, risk), concordance(-risk, y), rtol=1e-12)
    np.testing.assert_allclose(AFT().score(y, risk[:, np.newaxis]), concordance(risk, y), rtol=1e-12)
    weight = rng.integers(0, 3, size=n)
    repeated = np.repeat(np.arange(n), weight)  # pairs of equal rows are not comparable
    np.testing.assert_allclose(
        Cox().score(y, risk, weight), concordance(-risk[repeated], y[repeated]), rtol=1e-12
    )


CENSORED_ROWS, AT_ONCE = np.c_[TIME, np.zeros(len(X))], np.ones((len(X), 2))


@pytest.mark.parametrize(("y", "weight"), [(CENSORED_ROWS, 1.0), (AT_ONCE, 1.0), (Y, 0.0)])
def test_without_comparable_rows_there_is_no_score(y, weight):
    """As in lifelines and scikit-survival, which raise errors, too."""
    said = f"no two of 300 rows are comparable, .*: {y[:, 1].sum():.0f} of them have an event"
    for loss in (Cox(), AFT()):
        with pytest.raises(ValueError, match=said):
            loss.score(y, np.arange(300), np.full(300, weight))


def test_estimators_say_that_there_is_no_score():
    reg = MLPRegressor((4,), loss="cox", max_iter=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="no two of 300 rows are comparable"):
        reg.score(X, CENSORED_ROWS)
    net = MultiHeadNet(nn.Linear(2, 1), loss={"when": Cox()}, max_iter=2, random_state=0).fit(X, {"when": Y})
    with pytest.raises(ValueError, match="head 'when': no two of 300 rows are comparable"):
        net.score(X, {"when": CENSORED_ROWS})


def test_members_are_scored_as_one_network():
    reg = MLPRegressor((4,), loss="cox", n_members=2, max_iter=20, random_state=0).fit(X, Y)
    np.testing.assert_allclose(reg.score(X, Y), concordance(-reg.predict(X), Y), rtol=1e-12)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**50])
def test_the_unit_of_times_makes_no_difference(unit, tmp_path):
    options = {"loss": "aft", "max_iter": 5, "random_state": 0, "early_stopping": True}
    one = MLPRegressor((4,), **options).fit(X, Y)
    other = MLPRegressor((4,), **options).fit(X, Y * [unit, 1])
    np.testing.assert_allclose(other.predict(X), unit * one.predict(X), rtol=1e-6)
    np.testing.assert_allclose(
        other.predict_interval(X, coverage=0.8), unit * one.predict_interval(X, coverage=0.8), rtol=1e-6
    )
    # The density is that of times in their unit: its logarithm falls by that of the unit, for events alone.
    shift = np.subtract(other.history_["loss"], one.history_["loss"]) / np.log(unit)
    np.testing.assert_allclose(shift, shift[0], rtol=1e-5)
    assert abs(shift[0] - Y[:, 1].mean()) < 0.03
    sknet.save(other, tmp_path / "aft.safetensors")
    loaded = sknet.load(tmp_path / "aft.safetensors")
    for predictor in (loaded, loaded.freeze(), pickle.loads(pickle.dumps(other))):
        np.testing.assert_array_equal(predictor.predict(X), other.predict(X))
    assert loaded.fit(X, Y).score(X, Y) == one.score(X, Y)


def test_times_in_days_are_learned_as_fast_as_others():
    days = 400 * RNG.weibull(1.5, 300) * np.exp(0.5 * X[:, 0])
    until = RNG.uniform(100, 2000, 300)
    y = np.c_[np.minimum(days, until), days <= until]
    reg = MLPRegressor((8,), loss="aft", lr=0.01, max_iter=60, batch_size=60, random_state=0).fit(X, y)
    expected = 400 * np.log(2) ** (1 / 1.5) * np.exp(0.5 * X[:, 0])
    assert np.abs(np.log(reg.predict(X) / expected)).mean() < 0.2
    np.testing.assert_allclose(reg._targets.scale, [np.sqrt(np.mean(y[:, 0] ** 2)), 1], rtol=1e-12)


def test_heads_and_streams_learn_the_unit_of_times():
    unit, losses = 2.0**20, {"time": "aft", "kind": "log_loss"}
    found = []
    for y in (Y, Y * [unit, 1]):
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
        heads = MultiHeadNet(net, losses, max_iter=3, random_state=0).fit(X, {"time": y, "kind": X[:, 0] > 0})
        stream = MLPRegressor((8,), loss="aft", random_state=0).partial_fit(X, y).partial_fit(X[:99], y[:99])
        found.append((heads.predict(X)["time"], stream.predict(X)))
    np.testing.assert_allclose(found[1], unit * np.array(found[0]), rtol=1e-6)
    with pytest.raises(ValueError, match="in these units nothing is learned"):
        stream.partial_fit(X, Y * [1e12, 1])


def test_median_times_are_learned():
    reg = MLPRegressor((8,), loss="aft", lr=0.01, max_iter=60, random_state=0).fit(X, Y)
    found, median = reg.predict(X), np.log(2) / RATE
    assert np.corrcoef(np.log(found), np.log(median))[0, 1] > 0.95
    assert abs(np.mean(np.log(found / median))) < 0.2
    low, high = np.moveaxis(reg.predict_interval(X, coverage=0.8), 1, 0)
    assert 0.7 < np.mean((low < TIME) & (high > TIME)) < 0.9


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (Y[:, 0], ShapeError, "times and whether an event was seen"),
        (np.c_[-Y[:, 0], Y[:, 1]], ValueError, "a time above 0"),
        (np.c_[Y[:, 0], 2 * Y[:, 1]], ValueError, "must be 0 or 1"),
    ],
)
@pytest.mark.parametrize("loss", [Cox(), AFT()])
def test_other_targets(loss, y, error, message):
    with pytest.raises(error, match=message):
        MLPRegressor((4,), loss=loss).fit(X, y)
