"""Sizes, trusted names and versions in files; invalid files, and their messages."""

import copy
import json
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
from sklearn.datasets import load_digits

import sknet
from sknet import nn, ops
from sknet.callbacks import Checkpoint
from sknet.exceptions import LoadError
from sknet.optim import EMA, Adam
from sknet.optim.schedules import Exponential
from tests.estimators.data import TABLES, quiet
from tests.fuzz.layout import apart, together
from tests.project import ROOT

X, Y = load_digits(return_X_y=True)


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.head = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.head(x)


class Wide(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.body, self.head = nn.Linear(n_features, 200), nn.Linear(200, n_outputs)

    def forward(self, x):
        return self.head(ops.relu(self.body(x)))


def halved(progress):
    return 0.1 / (1 + progress.epoch)


@pytest.fixture(scope="module")
def fitted():
    with quiet():
        raw = {"scale_inputs": False, "random_state": 0}  # coefs_ are those that are stored
        return sknet.MLPClassifier((300,), optimizer=EMA(Adam()), max_iter=3, **raw).fit(X, Y)


# -- sizes ----------------------------------------------------------------------------------------------


def n_bytes(estimator):
    """Return the size of the numbers that are learned, with means and deviations of the inputs."""
    scaling = (estimator.input_mean_, estimator.input_scale_) if estimator.scale_inputs else ()
    return sum(array.nbytes for array in (*estimator.model_.parameters.values(), *scaling))


def test_predict_files_are_as_large_as_the_parameters(fitted, tmp_path):
    sknet.save(fitted, tmp_path / "it", include="predict")
    assert (tmp_path / "it").stat().st_size < 1.05 * n_bytes(fitted)
    assert len(pickle.dumps(fitted.slim())) < 1.2 * n_bytes(fitted)
    assert len(pickle.dumps(fitted)) > 3 * n_bytes(fitted)


@pytest.mark.parametrize("kind", [sknet.MLPClassifier, sknet.MLPRegressor, sknet.NetClassifier])
@pytest.mark.parametrize("freezes", [False, True])
def test_predict_files_are_a_twentieth_larger_than_twenty_kilobytes_of_parameters(kind, freezes, tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 20)).astype("float32")
    sizes = {"hidden_layer_sizes": (200,)} if kind is not sknet.NetClassifier else {"module": Wide}
    with quiet():
        small = kind(**sizes, max_iter=2, lr=1e-3, random_state=0).fit(rows, np.arange(60) % 3)
    assert 16_000 < n_bytes(small) < 20_000
    sknet.save(small.freeze() if freezes else small, tmp_path / "it", include="predict")
    assert (tmp_path / "it").stat().st_size < 1.05 * n_bytes(small)
    again = sknet.load(tmp_path / "it", trusted=[Wide])
    np.testing.assert_array_equal(again.predict(rows), small.predict(rows))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", [sknet.MLPClassifier, sknet.MLPRegressor])
def test_slim_pickles_are_a_fifth_larger_than_ten_kilobytes_of_parameters(kind, protocol):
    rows = np.random.default_rng(0).normal(size=(60, 20)).astype("float32")
    with quiet():
        small = kind((100,), max_iter=2, lr=1e-3, random_state=0).fit(rows, np.arange(60) % 3)
    slim = small.slim()
    assert n_bytes(small) > 8_000
    if protocol >= 4:  # older protocols write bytes as text
        assert len(pickle.dumps(slim, protocol)) < 1.2 * n_bytes(small)
    again = pickle.loads(pickle.dumps(slim, protocol))
    np.testing.assert_array_equal(again.predict(rows), small.predict(rows))
    with quiet():
        np.testing.assert_array_equal(
            again.partial_fit(rows, np.arange(60) % 3).predict(rows),
            slim.partial_fit(rows, np.arange(60) % 3).predict(rows),
        )


class Noted(list):
    """A parameter that other objects share."""


def test_slim_estimators_are_copied_as_others_are():
    with quiet():
        small = sknet.MLPClassifier((3,), max_iter=3, random_state=0).fit(X, Y)
    for estimator in (small, small.slim()):
        estimator.note = Noted([Noted()])
        shallow, deep = copy.copy(estimator), copy.deepcopy([estimator, estimator.note])
        assert shallow.note is estimator.note
        assert shallow.model_ is estimator.model_
        assert deep[0].note is deep[1] is not estimator.note
        assert deep[0].model_ is not estimator.model_
        np.testing.assert_array_equal(deep[0].predict_proba(X), small.predict_proba(X))


def test_what_only_another_pickler_can_write_is_left_to_it():
    cloudpickle = pytest.importorskip("cloudpickle", reason="which new versions of joblib need")

    with quiet():
        slim = sknet.MLPClassifier((3,), max_iter=3, random_state=0).fit(X, Y).slim()
    slim.note = lambda: 3
    assert pickle.loads(cloudpickle.dumps(slim)).note() == 3
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(slim)


def test_slim_pickles_of_small_networks(tmp_path):
    with quiet():
        small = sknet.MLPClassifier((3,), dropout=0.5, max_iter=3, lr=1e-3, random_state=0).fit(X, Y)
        slim = small.slim()
        other = slim.slim()
        for estimator in (slim, other):
            assert len(pickle.dumps(estimator)) < n_bytes(estimator) + 2000
        copied = pickle.loads(pickle.dumps(slim))
        for estimator in (slim, copied):  # draw the same numbers
            estimator.partial_fit(X, Y)
        np.testing.assert_array_equal(copied.predict_proba(X), slim.predict_proba(X))
        later = pickle.loads(pickle.dumps(copied))  # has drawn numbers, which its pickle continues
        for estimator in (later, slim):
            estimator.partial_fit(X, Y)
        np.testing.assert_array_equal(later.predict_proba(X), slim.predict_proba(X))


def test_a_long_history_takes_little_space(tmp_path):
    with quiet():
        estimator = sknet.MLPClassifier((3,), max_iter=500, tol=0, n_iter_no_change=500, random_state=0)
        estimator.fit(X[:20], Y[:20])
    sknet.save(estimator, tmp_path / "it")
    per_epoch = 8 * (len(estimator.history_) + 1)  # and loss_curve_
    assert (tmp_path / "it").stat().st_size < 500 * per_epoch + 50_000


def test_include_must_be_one_of_two(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"include must be one of \['all', 'predict'\]. Got 'some' instead."):
        sknet.save(fitted, tmp_path / "it", include="some")


# -- what is in a file ----------------------------------------------------------------------------------


def test_any_safetensors_reader_finds_the_arrays(fitted, tmp_path):
    sknet.save(fitted, tmp_path / "it", include="predict")
    found = safetensors.numpy.load_file(tmp_path / "it")
    for array in fitted.coefs_:
        assert any(np.array_equal(array, other) for other in found.values())


def test_files_record_the_versions_that_wrote_them(fitted, tmp_path):
    sknet.save(fitted, tmp_path / "it")
    header, document, _ = apart((tmp_path / "it").read_bytes())
    assert header["__metadata__"]["format"] == "sknet 1"
    assert document["schema"] == 1
    assert document["versions"]["numpy"] == np.__version__
    assert document["versions"]["sknet"] == sknet.__version__
    assert set(document["versions"]) == {"sknet", "numpy", "scikit-learn", "python"}


def test_a_newer_document_is_rejected(fitted, tmp_path):
    sknet.save(fitted, tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    document["schema"] = 3
    document["versions"]["sknet"] = "9.1"
    (tmp_path / "it").write_bytes(together(header, document, arrays))
    message = "document has version 3, but this version of sknet reads up to 2: it was written by sknet 9.1"
    with pytest.raises(LoadError, match=message):
        sknet.load(tmp_path / "it")


def test_a_newer_layout_is_rejected(fitted, tmp_path):
    sknet.save(fitted, tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    header["__metadata__"]["format"] = "sknet 4"
    (tmp_path / "it").write_bytes(together(header, document, arrays))
    with pytest.raises(LoadError, match=r"has the format 'sknet 4', .* it was written by a newer one"):
        sknet.load(tmp_path / "it")


# -- names that are trusted -----------------------------------------------------------------------------


def test_a_custom_class_must_be_trusted(tmp_path):
    sknet.save(nn.Sequential(Net(3, 2)), tmp_path / "it")
    needs = (
        f"needs {Net.__module__}.Net, which is not part of sknet: load(path, trusted=[Net]) if it is yours"
    )
    with pytest.raises(LoadError, match=re.escape(needs)):
        sknet.load(tmp_path / "it")
    assert isinstance(sknet.load(tmp_path / "it", trusted=[Net])[0], Net)


def test_a_custom_function_must_be_trusted(tmp_path):
    sknet.save(Adam(halved), tmp_path / "it")
    with pytest.raises(LoadError, match=r"trusted=\[halved\]"):
        sknet.load(tmp_path / "it")
    assert sknet.load(tmp_path / "it", trusted=[halved]).lr is halved


def test_all_names_to_trust_are_told_at_once(tmp_path):
    kept = {"class": "Odd", "function": ["os.system"]}  # texts, and no names
    sknet.save([nn.Sequential(Net(3, 2)), Adam(halved), {"of": Rooms}, kept], tmp_path / "it")
    names = [f"{Net.__module__}.{name}" for name in ("Net", "halved", "Rooms")]
    needs = f"needs {', '.join(names)}, which are not part of sknet: load(path, trusted=[Net, halved, Rooms])"
    with pytest.raises(LoadError, match=re.escape(needs) + " if they are yours$"):
        sknet.load(tmp_path / "it")
    with pytest.raises(LoadError, match=r"Rooms, which is not part of sknet: .*trusted=\[Rooms\]"):
        sknet.load(tmp_path / "it", trusted=[Net, halved])
    assert sknet.load(tmp_path / "it", trusted=[Net, halved, Rooms])[3] == kept


def test_few_names_to_trust_are_told_of_a_file_with_many(tmp_path):
    kinds = [type(f"Net{i}", (Net,), {"__module__": __name__}) for i in range(300)]
    sknet.save(nn.Sequential(*[kind(2, 2) for kind in kinds]), tmp_path / "it")
    with pytest.raises(LoadError, match=r"Net0, .*Net19, which are not part of sknet") as caught:
        sknet.load(tmp_path / "it")
    assert "Net20" not in str(caught.value)
    assert len(sknet.load(tmp_path / "it", trusted=kinds)) == 300


def test_a_class_may_have_moved(tmp_path):
    """An object saved in a notebook, as ``__main__.Net``, is loaded with a module's class."""
    sknet.save(Net(3, 2), tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    text = json.dumps(document).replace(f'"{Net.__module__}.Net"', '"__main__.Net"')
    (tmp_path / "it").write_bytes(together(header, json.loads(text), arrays))
    assert isinstance(sknet.load(tmp_path / "it", trusted=[Net]), Net)


def test_trusted_holds_classes_and_functions(tmp_path):
    sknet.save(Net(3, 2), tmp_path / "it")
    with pytest.raises(TypeError, match=r"trusted must hold classes and functions, .* got 'Net'"):
        sknet.load(tmp_path / "it", trusted=["Net"])


def test_names_are_looked_up_and_not_imported(tmp_path):
    """A module that has not been imported is not imported, even if it exists."""
    sknet.save(nn.Tanh(), tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    for name in ("antigravity.fly", "sknet.display.Plot", "sknet._params.validate_parameters", "os.system"):
        text = json.dumps(document).replace("sknet.nn.Tanh", name)
        (tmp_path / "it").write_bytes(together(header, json.loads(text), arrays))
        with pytest.raises(LoadError, match=f"needs {re.escape(name)}, which is not part of sknet"):
            sknet.load(tmp_path / "it")
    assert "antigravity" not in sys.modules


# -- what cannot be saved -------------------------------------------------------------------------------


class Rooms(nn.Module):
    def __init__(self):
        self.held = open

    def forward(self, x):
        return x


def itself():
    parts = []
    parts.append(parts)
    network = nn.Tanh()
    network.parts = network2 = nn.Identity()
    network2.__dict__["back"] = network
    return network


REFUSED = {
    "lambda": (
        lambda: Adam(lambda progress: 0.1),
        r"cannot save it: Adam.params.lr is <function .*, which has no name",
    ),
    "generator": (lambda: {"a": [iter([])]}, "list_iterator"),
    "itself": (itself, "refers to itself"),
    "records": (lambda: {"a": np.zeros(2, "f4,i4")}, "a is an array of dtype .*, which a file cannot hold"),
    "long numbers": (
        lambda: np.longdouble(1),
        "the object is an array of dtype .*, which a file cannot hold",
    ),
    "method": (
        lambda: {"a": nn.Linear(2, 2).forward},
        "a is the method Linear.forward, which a file cannot hold",
    ),
    "invalid": (lambda: Adam(Exponential(-1.0)), "The 'lr' parameter of Exponential must be"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_objects_are_named(name, tmp_path):
    make, message = REFUSED[name]
    (tmp_path / "it").write_text("before")
    with pytest.raises((TypeError, ValueError), match=message):
        sknet.save(make(), tmp_path / "it")
    assert (tmp_path / "it").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


VALUES = {
    "texts": np.array(["a", "böse", ""]),
    "no texts": np.zeros((0, 2), "U3"),
    "one text": np.array("abc"),
    "empty texts": np.array(["", ""]),
    "objects": np.array(["a", None, 3, 2.5], object),
    "times": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "spans": np.array([[1, 2]], "m8[ns]"),
    "complex": np.array([1 + 2j, np.nan]),
    "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "swapped": np.arange(3, dtype=">i4"),
    "scalars": [np.float32(0.1), np.int64(3), np.bool_(True), np.str_("a"), np.datetime64("2020-01-01")],
    "numbers": [[0.1 * n for n in range(20)], list(range(20)), [1.0, np.nan] * 5, [2**70] * 9, [True] * 9],
    "small": (1, -(2**80), "a\\ud800", None, float("inf"), (), [], {}, set(), frozenset({"a"})),
    "keys": {1: "a", (2, "b"): 0.5, None: 1, "$array": 2},
    "slices": [slice(1, None, 2), range(5), np.dtype("f4"), np.dtype("<U3"), sknet.nn.Linear, sknet.ops.tanh],
    "state": np.random.default_rng(3),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_restored(name, tmp_path):
    value = VALUES[name]
    sknet.save({"it": value}, tmp_path / "it")
    found = sknet.load(tmp_path / "it")["it"]
    assert pickle.dumps(plain(found)) == pickle.dumps(plain(value))


def plain(value):
    """Return values in a form in which equal values have equal pickles."""
    if isinstance(value, np.ndarray):
        native = value.astype(value.dtype.newbyteorder("="))
        data = value.tolist() if value.dtype.hasobject else native.tobytes()
        width = max(native.dtype.itemsize, 4) if native.dtype.kind == "U" else native.dtype.itemsize
        turned = value.ndim > 1 and value.flags.f_contiguous
        return "array", value.shape, native.dtype.kind, width, data, turned
    if isinstance(value, np.generic):
        return type(value).__name__, value.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    return type(value).__name__, repr(value) if not isinstance(value, np.random.Generator) else value.random()


# -- other files ----------------------------------------------------------------------------------------


def test_a_checkpoint_is_a_document(tmp_path):
    with quiet():
        estimator = sknet.MLPClassifier((3,), max_iter=2, random_state=0, callbacks=[Checkpoint(tmp_path)])
        estimator.fit(X, Y)
    parameters = sknet.load(tmp_path / "last.safetensors")["model"]["parameters"]
    np.testing.assert_array_equal(parameters["0.weight"], estimator.model_.parameters["0.weight"])


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        sknet.load(tmp_path / "nothing")


def test_errors_of_constructors_are_reported(tmp_path):
    sknet.save(Adam(0.25), tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    text = json.dumps(document).replace("0.25", "-0.25")
    (tmp_path / "it").write_bytes(together(header, json.loads(text), arrays))
    message = r"has, as objects.0., an invalid sknet.optim.Adam: .*The 'lr' parameter of Adam must be"
    with pytest.raises(LoadError, match=message):
        sknet.load(tmp_path / "it")


def bomb(kind, times):
    text = {"lists": "[],", "numbers": "12345,", "texts": '"ab",', "dicts": '{"a":{}},'}[kind] * times
    return f"[{text[:-1]}]"


@pytest.mark.parametrize("kind", ["lists", "numbers", "texts", "dicts"])
def test_a_text_that_would_fill_the_memory_is_rejected(kind, tmp_path):
    sknet.save({"it": "MARK"}, tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    document["value"] = json.loads(bomb(kind, 1_000_000))
    (tmp_path / "it").write_bytes(together(header, document, arrays))
    with pytest.raises(LoadError, match=r"is damaged: its header of .* bytes holds too many values"):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize("bounds", [(0, 2**70, 1), (0, -(2**21), -1)])
def test_long_ranges_are_rejected(bounds, tmp_path):
    with pytest.raises(TypeError, match=r"\.it is range\(.*\): a file holds ranges of up to 1048576 numbers"):
        sknet.save({"it": range(*bounds)}, tmp_path / "it")
    sknet.save({"it": range(5)}, tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    text = json.dumps(document).replace("[0, 5, 1]", str(list(bounds)))
    (tmp_path / "it").write_bytes(together(header, json.loads(text), arrays))
    with pytest.raises(LoadError, match=r"range\(.*\) has more than 1048576 numbers"):
        sknet.load(tmp_path / "it")


MEMORY = """
import sys, tracemalloc
import sknet
sknet.load(sys.argv[2])
tracemalloc.start()
sknet.load(sys.argv[1])
print(tracemalloc.get_traced_memory()[1])
"""


def test_memory_is_at_most_twice_the_file(tmp_path):
    model = sknet.Model(nn.Sequential(nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 1)), random_state=0)
    sknet.save(model, tmp_path / "small")
    model.step(np.ones((2, 1000), "float32"), np.ones((2, 1)))
    sknet.save(model, tmp_path / "it")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "it", tmp_path / "small"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    texts = 100_000  # bytes of the header, in Python
    assert int(done.stdout) < 2 * (tmp_path / "it").stat().st_size + texts


# -- without optional packages --------------------------------------------------------------------------

WITHOUT = """
import sys
from importlib.machinery import PathFinder


class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = name.split(".")[0] in ("torch", "cupy", "pandas", "safetensors", "skops", "onnx")
        return None if missing else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Without
import numpy as np
import sknet
X, y, expected = (np.load(sys.argv[2])[name] for name in ("X", "y", "expected"))
estimator = sknet.load(sys.argv[1])
assert np.array_equal(estimator.predict_proba(X), expected)
"""


@pytest.mark.slow
def test_without_optional_packages(fitted, tmp_path):
    sknet.save(fitted, tmp_path / "it")
    np.savez(tmp_path / "data.npz", X=X, y=Y, expected=fitted.predict_proba(X))
    subprocess.run(
        [sys.executable, "-c", WITHOUT, tmp_path / "it", tmp_path / "data.npz"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )


def test_a_device_that_does_not_exist_here(tmp_path):
    X, y = TABLES["binary"]
    with quiet():
        estimator = sknet.MLPClassifier((3,), max_iter=2, random_state=0).fit(X, y)
    sknet.save(estimator, tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    text = json.dumps(document).replace('"device": "cpu"', '"device": "cuda:0"')
    (tmp_path / "it").write_bytes(together(header, json.loads(text), arrays))
    with pytest.warns(sknet.exceptions.DeviceWarning, match="computes on the CPU instead"):
        other = sknet.load(tmp_path / "it")
    np.testing.assert_array_equal(other.predict_proba(X), estimator.predict_proba(X))


def test_mistakes_with_paths_and_trusted_classes_are_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot be written: there is no folder .*missing"):
        sknet.save(fitted, tmp_path / "missing" / "it")
    sknet.save(fitted, tmp_path / "it")
    for wrong in (nn.Linear, "Linear", 3):
        with pytest.raises(TypeError, match=r"trusted must be a list of classes and functions, as "):
            sknet.load(tmp_path / "it", trusted=wrong)


WITHOUT_EXTRAS = """
import sys
class Blocked:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import numpy as np, sknet
X = np.random.default_rng(0).normal(size=(30, 3))
clf = sknet.MLPClassifier((3,), max_iter=2, tol=9.0, random_state=0).fit(X, np.arange(30) % 2)
for include in ("all", "predict"):
    sknet.save(clf, {path!r}, include)
    assert (sknet.load({path!r}).predict(X) == clf.predict(X)).all()
print(len(sknet.trusted_types()) > 300)
"""


@pytest.mark.slow
def test_nothing_but_pipelines_needs_an_extra(tmp_path):
    extras = [
        "dask",
        "distributed",
        "skops",
        "safetensors",
        "pandas",
        "polars",
        "matplotlib",
        "tqdm",
        "optuna",
    ]
    code = WITHOUT_EXTRAS.format(blocked=[*extras, "onnx", "skl2onnx"], path=str(tmp_path / "it"))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
