"""A killed fit is resumed to the same end; changed data and parameters raise errors that name them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

import sknet
from sknet import NetClassifier, NetRegressor, neural_network, nn, optim
from sknet.callbacks import Checkpoint, EarlyStopping, PrintLog
from sknet.exceptions import StateError
from sknet.losses import Huber, Ordinal, Quantile
from sknet.optim.schedules import Adaptive, Cosine
from tests.callbacks.helpers import Dies
from tests.estimators.data import TABLES, WEIGHTS, estimator_for, quiet, unchanged

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
X, BINARY = TABLES["binary"]
MANY = TABLES["multiclass"]
REAL = TABLES["multioutput"]


def lazy(n_outputs):
    return nn.Sequential(
        nn.LazyLinear(8), nn.LazyBatchNorm(), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, n_outputs)
    )


def begun_with_data(n_outputs):
    scheme = nn.init.FromData(n_rows=40)
    return nn.Sequential(nn.LazyLinear(8, init=scheme), nn.ReLU(), nn.Linear(8, n_outputs, init=scheme))


def ready(n_outputs):
    network = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, n_outputs))
    network[0].requires_grad_(False)
    return network


def images(n_outputs):
    return nn.Sequential(nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(24, n_outputs))


class Two(nn.Module):
    """Takes two arrays."""

    def __init__(self, n_outputs):
        super().__init__()
        self.left, self.right = nn.Linear(5, n_outputs), nn.Linear(7, n_outputs)

    def forward(self, left, right):
        return self.left(left) + self.right(right)


OFTEN = {"max_iter": 8, "batch_size": 50, "random_state": 0}
CASES = {
    "binary": (sknet.MLPClassifier((8,), dropout=0.2, early_stopping=True, **OFTEN), TABLES["binary"]),
    "multiclass": (sknet.MLPClassifier((8,), class_weight={0: 1.0, 1: 2.0, 2: 0.5}, **OFTEN), MANY),
    "multilabel": (sknet.MLPClassifier((8,), **OFTEN), TABLES["multilabel"]),
    "labels of text": (sknet.MLPClassifier((8,), **OFTEN), (X, np.array(["no", "yes"])[BINARY])),
    "frame": (sknet.MLPClassifier((8,), **OFTEN), (pd.DataFrame(X).add_prefix("x"), pd.Series(BINARY))),
    "sparse": (sknet.MLPClassifier((8,), **OFTEN), (scipy.sparse.csr_matrix(np.where(X > 0, X, 0)), BINARY)),
    "regression": (sknet.MLPRegressor((8,), loss=Huber(), early_stopping=True, **OFTEN), REAL),
    "patience": (sknet.MLPClassifier((8,), tol=0.5, n_iter_no_change=3, **OFTEN), MANY),
    "schedule": (sknet.MLPRegressor((8,), optimizer=optim.Adam(Cosine(0.01)), **OFTEN), REAL),
    "plateau": (
        sknet.MLPRegressor((8,), optimizer=optim.SGD(Adaptive(0.1)), tol=0.1, n_iter_no_change=1, **OFTEN),
        REAL,
    ),
    "average": (
        sknet.MLPClassifier((8,), optimizer=optim.EMA(optim.Adam()), early_stopping=True, **OFTEN),
        MANY,
    ),
    "in order": (sknet.MLPClassifier((8,), shuffle=False, **OFTEN), MANY),
    "drop-in": (neural_network.MLPClassifier((8,), early_stopping=True, **OFTEN), MANY),
    "drop-in sgd": (
        neural_network.MLPRegressor(
            hidden_layer_sizes=(8,), solver="sgd", learning_rate="adaptive", tol=0.1, **OFTEN
        ),
        REAL,
    ),
    "columns": (
        sknet.MLPClassifier((8,), calibrate="temperature", early_stopping=True, **OFTEN),
        TABLES["columns"],
    ),
    "ordinal": (sknet.MLPClassifier((8,), loss=Ordinal([1, 2, 0]), **OFTEN), MANY),
    "quantiles": (sknet.MLPRegressor((8,), loss=Quantile([0.1, 0.5, 0.9]), scale_target=True, **OFTEN), REAL),
    "lazy network": (NetClassifier(lazy, early_stopping=True, **OFTEN), MANY),
    "begun with data": (NetClassifier(begun_with_data, early_stopping=True, **OFTEN), MANY),
    "ready network": (NetRegressor(ready(3), **OFTEN), REAL),
    "scorers": (
        sknet.MLPClassifier(
            (8,), scoring=["roc_auc", "accuracy", "loss"], monitor="roc_auc", early_stopping=True, **OFTEN
        ),
        TABLES["binary"],
    ),
    "splitter": (
        sknet.MLPClassifier(
            (8,), validation_split=ShuffleSplit(1, random_state=0), early_stopping=True, **OFTEN
        ),
        MANY,
    ),
    "scaled": (sknet.MLPRegressor((8,), scale_target=True, early_stopping=True, **OFTEN), REAL),
    "calibrated": (sknet.MLPClassifier((8,), calibrate="temperature", early_stopping=True, **OFTEN), MANY),
    "refit": (
        sknet.MLPClassifier(
            (8,), early_stopping=True, refit_on_all=True, n_iter_no_change=2, tol=0.05, **OFTEN
        ),
        MANY,
    ),
    "images": (NetClassifier(images, **OFTEN), (X.reshape(-1, 1, 3, 4).astype(np.float32), MANY[1])),
    "several inputs": (NetClassifier(Two, **OFTEN), ({"left": X[:, :5], "right": X[:, 5:]}, MANY[1])),
    "own stopping": (
        sknet.MLPClassifier((8,), callbacks=[EarlyStopping("score", patience=1, tol=0.1)], **OFTEN),
        MANY,
    ),
}


def left(estimator):
    """Return all results of a fit, except times."""
    model = estimator.model_
    arrays = {**model.parameters, **model.memory.untrained, **model.state.optimizer.slots}
    numbers = {name: column for name, column in estimator.history_.items() if name != "time"}
    random_state = model.random_state.get_state(legacy=False)["state"]
    scores = [estimator.best_loss_, estimator.best_validation_score_, estimator.n_iter_, estimator.t_]
    arrays["random state"] = np.array([*random_state["key"], random_state["pos"]])
    return (
        {name: np.array(a).tobytes() for name, a in arrays.items()},
        repr(numbers),
        repr(scores),
        model.memory.key,
    )


def died(estimator, X, y, weight=None, *, epoch, **how):
    with pytest.raises(RuntimeError, match="died"):
        clone(estimator).fit(
            X, y, *([] if weight is None else [weight]), callbacks=[how["checkpoint"], Dies(epoch)]
        )


@pytest.mark.parametrize("name", CASES)
def test_resumed_is_as_if_not_interrupted(name, tmp_path):
    estimator, (X, y) = CASES[name]
    weights = [] if name.startswith(("drop-in", "in order")) else [WEIGHTS]
    whole = clone(estimator).fit(X, y, *weights)
    epoch = max(1, whole.n_iter_ // 2)
    died(estimator, X, y, *weights, epoch=epoch, checkpoint=Checkpoint(tmp_path))
    resumed = clone(estimator).fit(X, y, *weights, resume_from=tmp_path)
    assert left(resumed) == left(whole)
    assert str(getattr(resumed, "temperature_", None)) == str(getattr(whole, "temperature_", None))
    again = clone(estimator).fit(X, y, *weights, resume_from=tmp_path)  # the file is only read
    assert left(again) == left(whole)
    for part in (whole, resumed):  # and what is fitted next is the same, too
        part.partial_fit(X, y) if not getattr(part, "early_stopping", False) else None
    assert left(resumed) == left(whole)


def test_without_a_seed(tmp_path):
    """Held-out rows, weights and orders are those of the killed fit, whatever was drawn since."""
    unseeded = clone(CASES["binary"][0]).set_params(random_state=None, n_iter_no_change=20)
    everybodys = check_random_state(None)
    kept = everybodys.get_state()
    try:
        everybodys.seed(5)
        whole = clone(unseeded).fit(X, BINARY)
        end = left(whole)
        everybodys.seed(5)
        died(unseeded, X, BINARY, epoch=4, checkpoint=Checkpoint(tmp_path))
        everybodys.seed(6)
        before = everybodys.get_state()[1].copy()
        resumed = clone(unseeded).fit(X, BINARY, resume_from=tmp_path)
        np.testing.assert_array_equal(
            everybodys.get_state()[1], before
        )  # other random streams are not affected
    finally:
        everybodys.set_state(kept)
    # Without a seed native code takes over when it is there, so the last bits may differ.
    assert resumed.validation_scores_ == pytest.approx(whole.validation_scores_, abs=0.05)
    assert left(resumed)[3] == end[3]
    assert left(resumed)[0]["random state"] == end[0]["random state"]


def test_a_generator_continues_as_well(tmp_path):
    estimator = CASES["binary"][0]
    ends = []
    for resume in (False, True):
        random_state = np.random.RandomState(3)
        seeded = clone(estimator).set_params(random_state=random_state)
        seeded.random_state = random_state  # a clone has a copy of it
        if resume:
            other = sknet.MLPClassifier(
                **{**seeded.get_params(deep=False), "random_state": np.random.RandomState(3)}
            )
            with pytest.raises(RuntimeError, match="died"):
                other.fit(X, BINARY, callbacks=[Checkpoint(tmp_path), Dies(3)])
            random_state.seed(99)
        ends.append(
            (
                left(seeded.fit(X, BINARY, resume_from=tmp_path if resume else None)),
                random_state.randint(10**9),
            )
        )
    assert ends[0] == ends[1]


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize(
    ("kind", "data"), [(sknet.MLPClassifier, MANY), (sknet.MLPRegressor, REAL)], ids=["classes", "targets"]
)
def test_a_warm_start_is_resumed_by_an_estimator_that_has_not_seen_the_first_fit(kind, data, refit, tmp_path):
    """Inputs and targets stay in the units of the rows that the first fit was trained on."""
    estimator = kind((8,), warm_start=True, early_stopping=True, refit_on_all=refit, **OFTEN)
    first = clone(estimator).fit(*data)
    whole = clone(estimator).fit(*data).fit(*data)
    with pytest.raises(RuntimeError, match="died"), unchanged(first, data[0]):
        first.fit(*data, callbacks=[Checkpoint(tmp_path), Dies(2)])
    resumed = clone(estimator).fit(*data, resume_from=tmp_path)
    assert left(resumed) == left(whole)
    np.testing.assert_array_equal(resumed.predict(data[0]), whole.predict(data[0]))
    assert left(first.fit(*data, resume_from=tmp_path)) == left(whole)


def test_each_run_of_a_script_continues_the_previous_one(tmp_path):
    whole = sknet.MLPClassifier((8,), lr=0.01, **OFTEN).fit(*MANY)
    script = sknet.MLPClassifier((8,), lr=0.01, callbacks=[Checkpoint(tmp_path, resume=True)], **OFTEN)
    for epoch in (2, 3, 6):
        with pytest.raises(RuntimeError, match="died"):
            clone(script).fit(*MANY, callbacks=[Dies(epoch)])
    done = clone(script).fit(*MANY)
    assert left(done) == left(whole)
    assert left(clone(script).fit(*MANY)) == left(whole)  # it is done: nothing is trained any more
    longer = clone(script).set_params(max_iter=12).fit(*MANY)
    assert left(longer) == left(clone(script).set_params(max_iter=12, callbacks=None).fit(*MANY))


def test_inside_of_a_pipeline(tmp_path):
    clf = sknet.MLPClassifier((8,), **OFTEN)
    whole = make_pipeline(StandardScaler(), clone(clf)).fit(*MANY)
    given = {"mlpclassifier__callbacks": [Checkpoint(tmp_path), Dies(4)]}
    with pytest.raises(RuntimeError, match="died"):
        make_pipeline(StandardScaler(), clone(clf)).fit(*MANY, **given)
    resumed = make_pipeline(StandardScaler(), clone(clf)).fit(*MANY, mlpclassifier__resume_from=tmp_path)
    assert left(resumed[-1]) == left(whole[-1])


FREE = {
    "verbose": {"verbose": True},
    "max_iter": {"max_iter": 20},
    "warm_start": {"warm_start": True},
    "callbacks": {"callbacks": [PrintLog()]},
}


@pytest.mark.parametrize("name", FREE)
def test_what_may_change(name, tmp_path, capsys):
    estimator = sknet.MLPClassifier((8,), **OFTEN)
    clone(estimator).fit(*MANY, callbacks=[Checkpoint(tmp_path)])
    assert clone(estimator).set_params(**FREE[name]).fit(*MANY, resume_from=tmp_path).n_iter_ >= 8


CHANGED = {
    "a number": ({"alpha": 0.5}, r"alpha was 'auto' and is 0.5"),
    "a nested number": ({"optimizer__beta1": 0.5}, "optimizer__beta1 was 0.9 and is 0.5"),
    "an object": ({"optimizer": optim.SGD()}, "optimizer was Adam and is SGD"),
    "a schedule": ({"optimizer__lr": Cosine(0.001)}, "optimizer__lr was 0.001 and is Cosine"),
    "layers": ({"hidden_layer_sizes": (8, 8)}, r"hidden_layer_sizes was \(8\) and is \(8, 8\)"),
    "activation": ({"activation": "tanh"}, "activation was 'relu' and is 'tanh'"),
    "a module": ({"activation": nn.LeakyReLU()}, "activation was ReLU and is LeakyReLU"),
    "seed": ({"random_state": 1}, "random_state was 0 and is 1"),
    "loss": ({"loss": "hinge"}, "loss was 'log_loss' and is 'hinge'"),
    "two": ({"alpha": 0.5, "shuffle": False}, "shuffle was True and is False"),
    "stopping": ({"early_stopping": True}, "early_stopping was 'auto' and is True"),
    "batch size": ({"batch_size": 25}, "batch_size was 50 and is 25"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_parameter_is_rejected_by_name(name, tmp_path):
    estimator = sknet.MLPClassifier((8,), optimizer=optim.Adam(), **OFTEN)
    fitted = clone(estimator).fit(*MANY, callbacks=[Checkpoint(tmp_path)])
    params, message = CHANGED[name]
    changed = fitted.set_params(**params)
    with (
        unchanged(changed, X),
        pytest.raises(StateError, match=f"is of a fit with other parameters: .*{message}"),
    ):
        changed.fit(*MANY, resume_from=tmp_path)


NAMES = {
    "optimizer": ("adam", optim.Adam(), optim.Adam(lr=0.5), "optimizer__lr was 0.001 and is 0.5"),
    "loss": ("huber", Huber(), Huber(delta=3.0), "loss__delta was 1.0 and is 3.0"),
    "activation": ("elu", nn.ELU(), nn.ELU(alpha=0.5), "activation__alpha was 1.0 and is 0.5"),
}


@pytest.mark.parametrize("parameter", NAMES)
def test_a_name_is_compared_as_the_object_that_it_stands_for(parameter, tmp_path):
    name, same, other, message = NAMES[parameter]
    named = sknet.MLPRegressor((8,), **OFTEN | {"max_iter": 2}).set_params(**{parameter: name})
    clone(named).fit(*REAL, callbacks=[Checkpoint(tmp_path)])
    assert clone(named).set_params(**{parameter: same}).fit(*REAL, resume_from=tmp_path).n_iter_ == 2
    with pytest.raises(StateError, match=f"is of a fit with other parameters: {message}"):
        clone(named).set_params(**{parameter: other}).fit(*REAL, resume_from=tmp_path)


def test_another_estimator_is_rejected_by_name(tmp_path):
    estimator_for("binary", callbacks=[Checkpoint(tmp_path)]).fit(X, BINARY)
    with pytest.raises(StateError, match="estimator was MLPClassifier and is MLPRegressor"):
        estimator_for("regression").fit(X, BINARY.astype(float), resume_from=tmp_path)


def one_more(array):
    changed = array.copy()
    changed.reshape(-1)[7] += 1
    return changed


DATA = {
    "a value": ({"X": one_more(MANY[0])}, "data: X has other values"),
    "fewer rows": (
        {"X": X[:-1], "y": MANY[1][:-1], "sample_weight": WEIGHTS[:-1]},
        r"the shape of X was \(230, 12\) and is \(229, 12\)",
    ),
    "a column less": ({"X": X[:, 1:]}, r"the shape of X was \(230, 12\) and is \(230, 11\)"),
    "dtype": ({"X": X.astype(np.float32)}, "the dtype of X was 'float64' and is 'float32'"),
    "sparse": ({"X": scipy.sparse.csr_matrix(X)}, "the format of X was None and is 'csr'"),
    "a label": ({"y": one_more(MANY[1]) % 3}, "data: y has other values"),
    "names of labels": ({"y": MANY[1] + 5}, "parameters: classes_ has other values"),
    "a weight": ({"sample_weight": one_more(WEIGHTS)}, "data: sample_weight has other values"),
    "no weights": (
        {"sample_weight": None},
        r"sample_weight was an array of shape \(230,\) and is None",
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_changed_data_are_rejected_by_name(name, tmp_path):
    clf = sknet.MLPClassifier((8,), **OFTEN)
    given = {"X": MANY[0], "y": MANY[1], "sample_weight": WEIGHTS}
    clone(clf).fit(**given, callbacks=[Checkpoint(tmp_path)])
    changed, message = DATA[name]
    with pytest.raises(
        StateError, match=f"is of a fit with other {message}|is of a fit with other .*{message}"
    ):
        clone(clf).fit(**{**given, **changed}, resume_from=tmp_path)


def test_the_same_data_in_another_container_are_the_same(tmp_path):
    clf = sknet.MLPClassifier((8,), **OFTEN)
    whole = clone(clf).fit(*MANY, callbacks=[Checkpoint(tmp_path)])
    for same in (np.asfortranarray(X), pd.DataFrame(X), np.repeat(X, 2, axis=0)[::2]):
        resumed = clone(clf).fit(same, MANY[1].tolist(), resume_from=tmp_path)
        assert left(resumed) == left(whole)


GIVEN = {"X_val": X[:30], "y_val": MANY[1][:30], "sample_weight_val": WEIGHTS[:30]}


def test_given_validation_rows(tmp_path):
    clf = sknet.MLPClassifier((8,), early_stopping=True, **OFTEN)
    whole = clone(clf).fit(*MANY, **GIVEN)
    with pytest.raises(RuntimeError, match="died"):
        clone(clf).fit(*MANY, **GIVEN, callbacks=[Checkpoint(tmp_path), Dies(3)])
    assert left(clone(clf).fit(*MANY, **GIVEN, resume_from=tmp_path)) == left(whole)
    for name, array in GIVEN.items():
        changed = {**GIVEN, name: one_more(array) % 3}
        what = {"X_val": "X", "y_val": "y", "sample_weight_val": "sample_weight"}[name]
        with pytest.raises(StateError, match=f"data: validation {what} has other values"):
            clone(clf).fit(*MANY, **changed, resume_from=tmp_path)


class Moody:
    """Splits differently each time."""

    def split(self, X, y=None, groups=None):
        rows = np.random.default_rng().permutation(len(X))
        yield rows[:150], rows[150:]

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1


def test_a_splitter_that_draws_other_rows_is_rejected(tmp_path):
    clf = sknet.MLPClassifier((8,), validation_split=ShuffleSplit(1), early_stopping=True, **OFTEN)
    whole = clone(clf).fit(*MANY, callbacks=[Checkpoint(tmp_path)])
    assert left(clone(clf).fit(*MANY, resume_from=tmp_path)) == left(whole)
    clf.set_params(validation_split=Moody()).fit(*MANY, callbacks=[Checkpoint(tmp_path)])
    with pytest.raises(StateError, match=r"choice of rows has other values.*give a splitter a random_state"):
        clone(clf).fit(*MANY, resume_from=tmp_path)


def test_a_network_of_other_layers_is_rejected_by_layer(tmp_path):
    """The factory has the same name; only its network differs."""
    widths = [8]

    def network(n_features, n_outputs):
        return nn.Sequential(nn.Linear(n_features, widths[0]), nn.Tanh(), nn.Linear(widths[0], n_outputs))

    net = NetClassifier(network, **OFTEN)
    net.fit(*MANY, callbacks=[Checkpoint(tmp_path)])
    widths[0] = 9
    message = r"another network: parameter '0.weight' had shape \(12, 8\), but has shape \(12, 9\) here"
    with pytest.raises(StateError, match=message), quiet():
        net.fit(*MANY, resume_from=tmp_path)


@pytest.mark.parametrize("resume", [False, True, "fall_back"])
@pytest.mark.parametrize("given", [True, False])
def test_a_fit_in_parts_takes_no_checkpoint(resume, given, tmp_path):
    saves = Checkpoint(tmp_path / "fit", resume=resume)
    clf = estimator_for("binary").fit(X, BINARY, callbacks=[saves])
    written = (tmp_path / "fit" / "last.safetensors").read_bytes()
    clf.set_params(callbacks=[saves])
    before = clf.predict_proba(X)
    with pytest.raises(
        ValueError, match=r"partial_fit takes no Checkpoint, .* sknet\.save\(estimator, path\)"
    ):
        (clf if given else clone(clf)).partial_fit(X, BINARY, **({} if given else {"classes": [0, 1]}))
    assert np.array_equal(clf.predict_proba(X), before)
    assert (tmp_path / "fit" / "last.safetensors").read_bytes() == written


def test_a_fit_in_parts_continues_from_a_saved_estimator(tmp_path):
    parts = [slice(0, 90), slice(90, 160), slice(40, 230)]
    whole = estimator_for("binary", dropout=0.3)
    clf = estimator_for("binary", dropout=0.3)
    for part in parts:
        whole.partial_fit(X[part], BINARY[part], classes=[0, 1])
        clf.partial_fit(X[part], BINARY[part], classes=[0, 1])
        sknet.save(clf, tmp_path / "clf.sknet")
        clf = sknet.load(tmp_path / "clf.sknet")
    for one, other in zip(whole.coefs_, clf.coefs_, strict=True):
        assert np.array_equal(one, other)
    assert whole.loss_curve_ == clf.loss_curve_
