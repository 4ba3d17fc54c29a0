"""Every class that a file may name declares its fields, and files with others are refused."""

import copy
import inspect
import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import nn
from sknet._fields import fields_of
from sknet.exceptions import LoadError
from sknet.files._kinds import KINDS, OTHERS, PARAMETRIZED, RECORDS, kind_of
from sknet.files._registry import all_known
from sknet.persistence import read_any, write

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
CLASSES = {
    f"{value.__module__}.{value.__qualname__}": value for value in all_known() if isinstance(value, type)
}


EMPTY = {"_Unseen", "NoScore"}  # which have no attributes
FREE = {"Rows"}  # those of a fit, in whatever they are


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_declares_its_fields(name):
    cls = CLASSES[name]
    kind = kind_of(cls)
    if kind not in (OTHERS, RECORDS) and not issubclass(cls, nn.Module):
        assert kind in (*KINDS, PARAMETRIZED)  # a description has the fields of its kind, and parameters
        return
    is_module = issubclass(cls, nn.Module)
    fields = fields_of(cls, parameters=is_module)
    takes = inspect.signature(cls.__init__).parameters.keys() - {"self"}
    inherited = fields_of(nn.Module).checks if is_module else {}
    assert (
        cls.__name__ in EMPTY | {"GraphModule"}
        or not takes
        or fields.rest
        or fields.checks.keys() - inherited
    )
    free = [name for name, check in fields.checks.items() if str(check) == "any value"]
    assert not free or cls.__name__ in FREE


# -- files that were edited ----------------------------------------------------------------------------------


def edited(document, name, change):
    """Return a document in which `change` was applied to the description of the last object of a class."""
    document = copy.deepcopy(document)
    [*_, state] = (state for found, state in document["objects"] if found.endswith(f".{name}"))
    change(state["dict"])
    return document


def put(path, value):
    """Return a change that replaces what is at a path; ``...`` removes it."""

    def change(state):
        *inner, last = path
        for key in inner:
            state = state[key]["dict"]
        if value is ...:
            del state[last]
        else:
            state[last] = value

    return change


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "it"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = sknet.MLPClassifier((3,), max_iter=1, random_state=np.random.RandomState(0)).fit(X, Y)
        pipeline = make_pipeline(StandardScaler(), sknet.MLPClassifier((3,), max_iter=1)).fit(X, Y)
    found = {"classifier": clf, "frozen": sknet.freeze(pipeline), "splitter": KFold(3)}
    documents = {}
    for name, x in found.items():
        sknet.save(x, path)
        documents[name] = read_any(path)[1]
    return documents


CODE = {"tuple": [{"tuple": ["exec", np.ones(3)]}]}
CLF, FROZEN = ("classifier", "MLPClassifier"), "frozen"
OWNER = {
    "dict": {"output": {"dict": {}}, "requests": {"dict": {"owner": {"dict": {"a": True}}}}, "callbacks": []}
}
OTHER = {"dict": {"output": {"dict": {"transform": "x"}}, "requests": {"dict": {}}, "callbacks": []}}
EDITS = {
    "a missing field": (*CLF, put(["state", "history_"], ...), "lacks its field 'history_'"),
    "an unknown field": (*CLF, put(["state", "other"], 1), "has no field 'other', only"),
    "a type": (*CLF, put(["state", "n_iter_"], "7"), "'n_iter_' .* must be an int from 0"),
    "a range": (*CLF, put(["state", "n_outputs_"], 0), "'n_outputs_' .* must be an int from 1"),
    "a parameter": (*CLF, put(["params", "alpha"], -1.0), "'alpha' parameter of .* must be"),
    "a request": (*CLF, put(["choices"], OWNER), "has no method 'owner' that takes"),
    "an output": (*CLF, put(["choices"], OTHER), "'output' of choices must be"),
    "labels": (CLF[0], "ClassTargets", put(["classes"], np.array([1, 0])), "are not sorted"),
    "outputs": (CLF[0], "ClassTargets", put(["n_outputs"], 2), "a binary task have 2 outputs"),
    "a weight": (CLF[0], "Linear", put(["settings", "in_features"], 7), "has in_features = 3, but"),
    "a setting": (CLF[0], "Linear", put(["settings", "parametrization"], "x"), "must be a str among"),
    "steps": (CLF[0], "Model", put(["progress"], {"tuple": []}), "'progress' of Model must be a list"),
    "an operation": (FROZEN, "Scaling", put(["operations"], CODE), "'operations' of Scaling must be"),
    "a count": (FROZEN, "Features", put(["count"], 2**60), "'count' of Features must be an int from 0"),
    "a label": (FROZEN, "FrozenPipeline", put(["_labels"], {"tuple": [1]}), "'_labels' of FrozenPipe"),
    "splits": ("splitter", "KFold", put(["n_splits"], "3"), "folds must be of Integral type"),
    "no splits": ("splitter", "KFold", put(["n_splits"], ...), "KFold has other attributes"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edited_files_are_refused(name, documents, tmp_path):
    which, cls, change, message = EDITS[name]
    write(tmp_path / "it", edited(documents[which], cls, change), "object")
    with pytest.raises(LoadError, match=rf"objects\[\d+\], an invalid .*{cls}: .*({message})"):
        sknet.load(tmp_path / "it")


def test_an_error_says_where(documents, tmp_path):
    """The path from the root leads to each object, in the words of the classes."""
    found = []
    for number, (name, _) in enumerate(documents["classifier"]["objects"]):
        changed = copy.deepcopy(documents["classifier"])
        changed["objects"][number] = [name, {"dict": {"bad": 1}}]
        write(tmp_path / "it", changed, "object")
        with pytest.raises(LoadError, match=rf"objects\[{number}\], an invalid {name}: ") as caught:
            sknet.load(tmp_path / "it")
        found.append(str(caught.value).partition("it has, ")[2].partition(f"as objects[{number}]")[0])
    assert found[-1] == ""  # the root
    expected = ["_batch", "_batch[0]", "_targets", "history_", "model_", "model_.loss", "model_.module"]
    expected += [f"model_.module.children['{i}']{part}" for i in "02" for part in ("", ".bias", ".weight")]
    assert {f"at MLPClassifier.{path}, and " for path in expected} <= {*found}
    assert len({*found}) == len(found)


def test_an_error_where_nothing_leads_to(documents, tmp_path):
    changed = copy.deepcopy(documents["classifier"])
    changed["objects"].append([changed["objects"][0][0], {"dict": {}}])
    write(tmp_path / "it", changed, "object")
    with pytest.raises(LoadError, match=rf"it has, as objects\[{len(changed['objects']) - 1}\], an invalid"):
        sknet.load(tmp_path / "it")


# -- random states -----------------------------------------------------------------------------------------


def generators():
    kinds = (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
    found = {f"Generator {kind.__name__}": np.random.Generator(kind(0)) for kind in kinds}
    return {"RandomState": np.random.RandomState(0), **found}


WRONG = {
    "RandomState": [
        *((["state", "pos"], value) for value in (-1, 700, 625, 2**28, 2.0, "0", None, True)),
        *((["state", "key"], value) for value in (np.zeros(623, np.uint32), np.zeros(624, np.int64), [])),
        (["has_gauss"], 2), (["gauss"], "1"), (["bit_generator"], "PCG64"), (["bit_generator"], "Mersenne"),
        (["other"], 1), (["state"], ...),
    ],
    "Generator MT19937": [(["state", "pos"], value) for value in (-1, 700, 2**28)],
    "Generator PCG64": [
        (["state", "inc"], -1), (["state", "state"], 2**128), (["has_uint32"], 7), (["uinteger"], -1),
    ],
    "Generator PCG64DXSM": [(["state", "inc"], 1.5), (["uinteger"], 2**32)],
    "Generator Philox": [
        *((["buffer_pos"], value) for value in (-1, 5, 2**31, None)),
        (["buffer"], np.zeros(3, np.uint64)), (["state", "counter"], np.zeros(4)), (["state", "key"], ...),
    ],
    "Generator SFC64": [(["state", "state"], np.zeros(5, np.uint64)), (["bit_generator"], ["SFC64"])],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_states_of_bit_generators(name, tmp_path):
    x = generators()[name]
    sknet.save(x, tmp_path / "it")
    document = read_any(tmp_path / "it")[1]
    same = sknet.load(tmp_path / "it")
    assert same.normal() == x.normal()
    for path, value in WRONG[name]:
        changed = copy.deepcopy(document)
        put(path, value)(changed["objects"][-1][1]["dict"])
        write(tmp_path / "other", changed, "object")
        with pytest.raises(LoadError, match=r"must be|lacks|has no field|no bit generator|represent"):
            sknet.load(tmp_path / "other")


def test_texts_without_characters_take_memory_of_the_file(documents, tmp_path):
    zeros = np.zeros((2**23, 0), np.uint32)
    write(
        tmp_path / "it",
        edited(documents["classifier"], "ClassTargets", put(["classes"], {"texts": zeros})),
        "object",
    )
    with pytest.raises(LoadError, match="more memory than the file justifies"):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize("shape", [[2**31, 0], [0, 2**62]])
def test_empty_arrays_of_objects_that_are_long_are_refused(shape, documents, tmp_path):
    change = put(["classes"], {"cells": [shape, []]})
    write(tmp_path / "it", edited(documents["classifier"], "ClassTargets", change), "object")
    with pytest.raises(LoadError, match="there is nothing in an array of shape"):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize(
    ("layer", "field"), [(nn.EnsembleView(4), "n_members"), (nn.Dropout(0.5), "p"), (nn.Softmax(1), "axis")]
)
def test_settings_beyond_all_integers_are_refused(layer, field, tmp_path):
    sknet.save(layer, tmp_path / "it")
    kind, document = read_any(tmp_path / "it")
    ((_, state),) = document["objects"]
    state["dict"]["settings"]["dict"][field] = 2**200
    write(tmp_path / "it", document, kind)
    with pytest.raises(LoadError, match=f"{field!r}"):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize(
    "estimator",
    [
        sknet.MLPClassifier((2,), encoder="table", max_iter=1, random_state=0),
        sknet.TabularClassifier(budget=0.01, members=1, n_folds=1, random_state=0),
    ],
    ids=["network", "ensemble"],
)
def test_fitted_objects_have_fitted_encoders(estimator, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sknet.save(estimator.fit(X, Y), tmp_path / "it")
    kind, document = read_any(tmp_path / "it")
    write(tmp_path / "it", edited(document, "TableEncoder", put(["state", "_plan"], ...)), kind)
    with pytest.raises(LoadError, match=r"must be .*a fitted instance of 'TableEncoder'"):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize("keywords", [{"a": 1}, {"shape": [1, 2]}, {}])
def test_draws_of_parameters_take_what_is_bound_to_them(keywords, tmp_path):
    sknet.save(nn.Linear(2, 1), tmp_path / "it")
    kind, document = read_any(tmp_path / "it")
    (of_weight, *_) = [state["dict"] for name, state in document["objects"] if name.endswith("Parameter")]
    of_weight["draw"]["partial"][2] = {"dict": keywords}
    write(tmp_path / "it", document, kind)
    with pytest.raises(
        LoadError, match="field 'draw' of Parameter must be a callable that takes a random state"
    ):
        sknet.load(tmp_path / "it")
