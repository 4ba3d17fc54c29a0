"""The tests of operators and models that the library onnx has: sknet agrees, or refuses by name."""

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx as library
import pytest
from onnx.backend.test import loader

from sknet import onnx
from sknet.exceptions import LoadError

PARTS = 8  # of the tests of operators
OLDEST = 7  # opset that sknet reads
WORDS = (
    "domain",
    "opset",
    "operators",
    "type",
    "weights",
    "computed from",
)  # of models that are refused as a whole


@pytest.fixture(scope="module")
def of_operators():
    """Return the tests of operators, with the library's own warnings off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loader.load_model_tests(kind="node")


def arrays_of(values):
    return [library.numpy_helper.to_array(x) if isinstance(x, library.TensorProto) else x for x in values]


def with_constants(model, arrays, n_given):
    """Return a model in which all inputs but the first are arrays of the file."""
    found = library.ModelProto()
    found.CopyFrom(model)
    names = [value.name for value in model.graph.input]
    del found.graph.input[n_given:]
    for name, array in list(zip(names, arrays, strict=False))[n_given:]:
        found.graph.initializer.append(library.numpy_helper.from_array(array, name))
    return found


def outcome(model, arrays, wanted, case, path):
    """Return "agrees" or "refused"; anything else fails."""
    path.write_bytes(model.SerializeToString())
    try:
        network = onnx.load(path).eval()
        with np.errstate(all="ignore"):  # logarithms of 0, remainders by 0
            found = network(*arrays)
    except LoadError as error:
        return _named(str(error), model, case)
    found = list(found.values()) if isinstance(found, dict) else [found]
    for mine, theirs in zip([x.numpy() for x in found], wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), case.name
        np.testing.assert_allclose(mine, theirs, rtol=case.rtol, atol=case.atol, err_msg=case.name)
    return "agrees"


def _named(message, model, case):
    words = {node.op_type for node in model.graph.node} | {*WORDS}
    assert any(word in message for word in words), f"{case.name}: {message}"
    return "refused"


def is_numeric(values):
    return all(isinstance(x, np.ndarray) and x.dtype.kind in "biuf" for x in values)


@pytest.mark.parametrize("part", range(PARTS))
def test_operators(part, of_operators, tmp_path):
    counts = Counter()
    for case in of_operators[part::PARTS]:
        for given, wanted in case.data_sets:
            arrays, wanted = arrays_of(given), arrays_of(wanted)
            models = [(case.model, arrays)]
            if is_numeric(arrays) and len(arrays) == len(case.model.graph.input):
                # Shapes, axes and the like must be known; all may be.
                models += [(with_constants(case.model, arrays, n), arrays[:n]) for n in (1, 0)]
            found = [outcome(*model, wanted, case, tmp_path / "model.onnx") for model in models]
            counts["agrees" if "agrees" in found else "refused"] += 1
    assert counts["agrees"] > 0.4 * counts.total(), counts


@pytest.mark.parametrize(
    ("kind", "at_least"), [("simple", 2), ("pytorch-converted", 60), ("pytorch-operator", 30)]
)
def test_models(kind, at_least, tmp_path):
    counts = Counter()
    for case in loader.load_model_tests(kind=kind):
        folder = Path(case.model_dir)
        model = _of_readable_opset(library.load(folder / "model.onnx"))
        if case.name.endswith("_multiparam"):  # the slopes of PRelu stay those of opset 6
            continue
        for data in sorted(folder.glob("test_data_set_*")):
            given, wanted = (
                [_read(p) for p in sorted(data.glob(f"{which}_*.pb"))] for which in ("input", "output")
            )
            counts[outcome(model, given, wanted, case, tmp_path / "model.onnx")] += 1
    assert counts["agrees"] >= at_least, counts


def _of_readable_opset(model):
    """Return a model as the library converts it; most of PyTorch's have opset 6."""
    if model.opset_import[0].version >= OLDEST:
        return model
    found = library.version_converter.convert_version(model, 13)
    found.ir_version = 8  # its new arrays are no inputs
    return found


def _read(path):
    tensor = library.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return library.numpy_helper.to_array(tensor)
