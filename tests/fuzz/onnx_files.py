"""Damaged ONNX files: they are refused by a `LoadError`, or computed; errors in a pass name the operator.

Bytes are cut off, flipped, replaced, repeated and removed, or fields get other values. Run many by
``python -m tests.fuzz.onnx_files --cases 20000 --seed 0``.
"""

import functools
import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import onnx

from sknet import nn, ops
from sknet.exceptions import DtypeError, LoadError, ShapeError
from sknet.onnx import export, load
from tests.fuzz.command import run_kinds

MOST = 16 * 2**20  # bytes that loading a file of a few kB may take


class Indexed(nn.Module):
    def __init__(self):
        self.table = nn.Embedding(5, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        taken = self.table(ops.astype(ops.clip(x, 0, 4), "int64"))
        return ops.concat([self.norm(taken)[:, ::2], taken[:, :1] * 2], axis=1).sum(axis=-1)


MODULES = {
    "images": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm(2), nn.MaxPool2d(2),
                                     nn.Flatten(), nn.Linear(8, 3), nn.Softmax()), (1, 4, 4)),
    "sequences": (lambda: nn.Sequential(nn.GRU(2, 3, returns="last"), nn.Linear(3, 2)), (3, 2)),
    "indices": (Indexed, (4,)),
}  # fmt: skip


@functools.cache
def original(name: str) -> bytes:
    make, shape = MODULES[name]
    module = make().initialize(0).eval()
    return export(module, example=np.zeros((2, *shape), "float32")).SerializeToString()


def damaged(seed: int) -> tuple[str, bytes]:
    """Return the name of a module, and its file after a few changes."""
    rng = np.random.default_rng(seed)
    name = sorted(MODULES)[seed % len(MODULES)]
    change = _with_other_fields if rng.random() < 0.6 else _with_other_bytes
    return name, change(original(name), rng)


def _with_other_fields(content: bytes, rng: np.random.Generator) -> bytes:
    model = onnx.load_model_from_string(content)
    for _ in range(rng.integers(1, 3)):
        message = model
        for _ in range(rng.integers(2, 8)):  # down to some field
            field, value = _one(rng, message.ListFields())
            if field.type == field.TYPE_MESSAGE:
                message = _one(rng, value) if field.is_repeated else value
                continue
            _change(message, field, value, rng)
            break
    return model.SerializeToString()


def _one(rng: np.random.Generator, options):
    return options[int(rng.integers(len(options)))]


def _change(message, field, value, rng) -> None:
    names = ["", "x", "keys", "y" * 300, "\n'", "Relu", "Softmax", "MatMul", "ai.onnx.ml", "../x", "output"]
    numbers = [-(2**31), -2, -1, 0, 1, 2, 3, 5, 7, 10, 16, 20, 2**31 - 1]
    options = {field.CPPTYPE_STRING: names, field.CPPTYPE_FLOAT: [np.nan, np.inf, -1.0, 0.0, 1e30]}
    other = _one(rng, options.get(field.cpp_type, numbers))
    if field.type == field.TYPE_BYTES:
        other = _one(rng, [b"", b"\xff", b"floor", value[:-1], rng.bytes(len(value))] if value else [b"x"])
    try:
        if not field.is_repeated:
            setattr(message, field.name, other)
        elif len(value):
            value[int(rng.integers(len(value)))] = other
    except (TypeError, ValueError):  # not an enumerated number, or bytes in a list
        message.ClearField(field.name)


def _with_other_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    found = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at, n = int(rng.integers(len(found) or 1)), int(rng.integers(1, 9))
        how = rng.integers(6)
        if how == 0:
            del found[at:]
        elif how == 1:
            del found[at : at + n]
        elif how == 2:
            found[at:at] = rng.bytes(n)
        elif how == 3:
            found[at : at + n] = rng.bytes(n)
        elif how == 4:
            found[at:at] = found[at : at + 8 * n]
        elif found:
            found[at] ^= 1 << int(rng.integers(8))
    return bytes(found)


def checked(seed: int) -> list[tuple[str, str]]:
    name, content = damaged(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(content)
        tracemalloc.start()
        found = _loaded(path)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if most > MOST:
        return [("large", f"{most} bytes")]
    return [found] if isinstance(found, tuple) else _passed(found, MODULES[name][1])


def _loaded(path):
    try:
        return load(path).eval()
    except LoadError:
        return ("refused", "")
    except Exception as error:  # every other one is a defect
        return ("raised", f"{type(error).__name__}: {error}")


def _passed(network, shape) -> list[tuple[str, str]]:
    arrays = [np.ones((2, *shape), "float32") for _ in network.inputs]
    try:
        with np.errstate(all="ignore"):
            network(*arrays)
    except (LoadError, ShapeError, DtypeError, IndexError) as error:
        is_named = any(node.op in str(error) for node in network.nodes)
        return [("refused" if is_named else "unnamed", str(error))]
    except Exception as error:
        return [("raised in a pass", f"{type(error).__name__}: {error}")]
    return [("agrees", "")]


def shown(seed: int) -> str:
    name, content = damaged(seed)
    return f"seed {seed}: {name}, {len(content)} bytes, onnx {onnx.__version__}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(run_kinds(checked, shown, __doc__, {}))
