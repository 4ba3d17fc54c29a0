"""Loading a file takes at most twice its size and 16 MiB in memory, for every kind of content."""

import io
import json
import os
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import nn
from sknet.persistence import read_any, write
from tests.fuzz.layout import apart, together, with_header, with_text

WIDTH = 5000  # of a layer of 12 MB
SPARE = 3 << 20  # of the process

# Prints for each pair of a small and a large file by how much loading the large one raises a process's peak.
# The process is a new copy each time of one that has loaded only small files, and so has imported everything.
SCRIPT = """
import ctypes, json, os, sys, sknet, sknet.exceptions
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
def measure(small, large):
    sknet.load(small)
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = peak()
    try:
        kept = sknet.load(large)
    except sknet.exceptions.LoadError:
        pass
    print(peak() - before, flush=True)
pairs = json.loads(sys.stdin.read())
for small, large in pairs:
    sknet.load(small)
for pair in pairs:
    if not os.fork():
        measure(*pair)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"{pair} cannot be measured")
"""


resets_the_peak = pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux resets the peak there"
)


def fitted(width):
    X = np.random.default_rng(0).normal(size=(30, 600)).astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = sknet.MLPClassifier((width,), max_iter=1, random_state=0).fit(X, np.arange(30) % 3)
        pipeline = make_pipeline(StandardScaler(), clf).fit(X, np.arange(30) % 3)
    return clf, pipeline, X


def contents(width):
    clf, pipeline, X = fitted(width)
    return {
        "estimator": (clf, "all"),
        "estimator for predictions": (clf, "predict"),
        "model": (clf.model_, "all"),
        "module": (clf.model_.module, "all"),
        "state": (clf.model_.module.state_dict(), "all"),
        "graph": (clf.model_.module.export(X), "all"),
        "frozen": (clf.freeze(), "all"),
        "frozen pipeline": (sknet.freeze(pipeline), "all"),
        "unfitted network": (sknet.NetClassifier(nn.Linear(600, width).initialize(0)), "all"),
    }


def raised_by(pairs):
    """Return by how much loading the second of each pair of files, after the first, raises the peak."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(pairs), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def parts(n):
    """Return objects whose largest part has about n values: levels, units, residuals, sequences, results."""
    rng = np.random.default_rng(0)
    settings = {"hidden_layer_sizes": (3,), "max_iter": 1, "random_state": 0}
    each = np.repeat(np.arange(max(2, n // 20)), 5)  # a level has to occur five times
    levels = np.array([[f"{i} of {'many' * 40}"] for i in each.tolist()], dtype=object)
    wide, held = rng.normal(size=(4, n)), rng.normal(size=(n, 1))
    steps, codes = rng.normal(size=(20, 5, 4)), np.arange(20) % 2
    estimators = {
        "levels": sknet.TableEncoder(columns={0: "category"}).fit(levels),
        "numbers as levels": sknet.TableEncoder(columns={0: "category"}).fit(each[:, np.newaxis]),
        "units": sknet.MLPRegressor(**settings).fit(wide, np.arange(4.0)),
        "members": sknet.MLPRegressor(n_members=2, **settings).fit(wide, np.arange(4.0)),
        "part of a stream": sknet.MLPRegressor(**settings).partial_fit(wide, np.arange(4.0)),
        "residuals": sknet.MLPRegressor(calibrate="conformal", **settings).fit(
            held[:20], codes, X_val=held, y_val=held[:, 0]
        ),
        "recurrent": sknet.NetClassifier("lstm", max_iter=1, random_state=0)
        .set_params(module__hidden_size=max(4, n // 3000))
        .fit(steps, codes),
        "candidates": sknet.model_selection.GridSearchCV(
            sknet.MLPClassifier(**settings), {"alpha": list(rng.random(2))}, cv=2
        ).fit(rng.normal(size=(20, n)), codes),
        "ensemble": sknet.TabularClassifier(n_folds=2, budget=0.02, random_state=0).fit(
            rng.normal(size=(20, 5)), codes
        ),
    }
    frozen = ("units", "members", "residuals", "recurrent", "ensemble")
    return estimators | {f"frozen {name}": estimators[name].freeze() for name in frozen}


@resets_the_peak
def test_loading_parts_of_estimators_takes_no_more(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small, large = parts(30), parts(500_000)
    pairs = []
    for i, name in enumerate(large):
        pairs.append([str(tmp_path / f"{size}{i}") for size in ("small", "large")])
        sknet.save(small[name], pairs[-1][0])
        sknet.save(large[name], pairs[-1][1])
    for name, pair, raised in zip(large, pairs, raised_by(pairs), strict=True):
        size = os.path.getsize(pair[1])
        assert raised < 2 * size + (16 << 20), f"{name}: {raised / size:.2f} times the file"


@resets_the_peak
def test_loading_takes_twice_the_size(tmp_path):
    small, large = contents(3), contents(WIDTH)
    pairs = []
    for i, (name, (x, include)) in enumerate(large.items()):
        pairs.append([str(tmp_path / f"{size}{i}.safetensors") for size in ("small", "large")])
        sknet.save(small[name][0], pairs[-1][0], include)
        sknet.save(x, pairs[-1][1], include)
    for name, pair, raised in zip(large, pairs, raised_by(pairs), strict=True):
        size = os.path.getsize(pair[1])
        assert size > 11e6
        assert raised < 2 * size + SPARE, f"{name}: {raised / size:.2f} times the file"


# -- files that say anything ---------------------------------------------------------------------------------

# Parts of documents, each of which is repeated as often as the text of a file may have it.
PARTS = [
    *("0", "1.5", '"a"', "[]", "[0]", '{"tuple":[]}', '{"set":[]}', '{"frozenset":[]}', '{"slice":[0]}'),
    *('{"dtype":"<U5"}', '{"dict":{"a":0}}', '{"pairs":[[0,0]]}', '{"cells":[[0],[]]}', '{"object":0}'),
    *('{"device":"cpu"}', '{"datetime":"2024-01-01"}', '{"range":[99]}', '{"set":[0]}', "9" * 4000),
    *(
        '{"scorer":"r2"}',
        '{"distribution":["norm",[],{"dict":{}}]}',
        '"\\u0416"',
        f'"{"x" * 60}\\ud83d\\ude00"',
    ),
]
OBJECTS = [
    '["sknet.nn.ReLU",{"dict":{"parameters":{"dict":{}},"buffers":{"dict":{}},"transient":[],"children":'
    '{"dict":{}},"settings":{"dict":{}}}}]',
    '["sknet.engine.History",{"dict":{}}]',
    '["sknet.optim.SGD",{"dict":{}}]',
]


def n_fitting(part):
    """Return how often a part may be in a text, by what the format says of it."""
    text = json.dumps(part + ",")[1:-1]
    wide = 8 if "\\u" in text else 4
    return (15 << 20) // (wide * len(text) + 100 * sum(map(text.count, (",", ":", "[", "{", "\\u"))))


def text_of(document, name, part):
    text = json.dumps({**document, name: "HERE"}, separators=(",", ":"))
    return text.replace('"HERE"', f"[{','.join([part] * n_fitting(part))}]")


def node(loader, number, **content):
    return {"__class__": "list", "__module__": "builtins", "__loader__": loader, "__id__": number} | content


def archive(frame, nodes, members=(), compression=zipfile.ZIP_STORED):
    """Return an archive of skops whose estimator has more nodes, with more members."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(frame)) as before, zipfile.ZipFile(written, "w", compression) as after:
        schema = json.loads(before.read("schema.json"))
        schema["content"]["content"]["steps"]["content"] += nodes
        for name, data in [*members, *((n, before.read(n)) for n in before.namelist() if n != "schema.json")]:
            after.writestr(name, data)
        after.writestr("schema.json", json.dumps(schema, separators=(",", ":")))
    return written.getvalue()


def npy(shape, data=b"", length=None):
    header = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode() + b"\n"
    header += b" " * ((length or 0) - len(header))
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + data


def archives(frame):
    array = {"__class__": "ndarray", "__module__": "numpy", "type": "numpy", "file": "a"}
    large = npy((1 << 20,), bytes(8 << 20))
    three = npy((3 << 17,), bytes(3 << 20))
    lying = bytearray(archive(frame, [node("NdArrayNode", 1, **array)], [("a", bytes(64 << 20))], 8))
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):  # the size that it unpacks to
        start = lying.index(mark)
        lying[start + at : start + at + 4] = (100).to_bytes(4, "little")
    stored = zipfile.ZIP_STORED
    return {
        "lists": archive(frame, [node("ListNode", i + 1, content=[]) for i in range(12_000)]),
        "objects": archive(
            frame,
            [
                node("ObjectNode", i + 1, content=None)
                | {"__class__": "StandardScaler", "__module__": "sklearn.preprocessing._data"}
                for i in range(12_000)
            ],
        ),
        "one array, many times": archive(
            frame, [node("NdArrayNode", i + 1, **array) for i in range(50)], [("a", three)], stored
        ),
        "an array of no bytes": archive(frame, [node("NdArrayNode", 1, **array)], [("a", npy((2**28,)))]),
        "a long header": archive(frame, [node("NdArrayNode", 1, **array)], [("a", npy((), length=7 << 20))]),
        "a bomb": archive(frame, [node("NdArrayNode", 1, **array)], [("a", bytes(64 << 20))], 8),
        "a bomb that says it is none": bytes(lying),
        "another method": archive(
            frame,
            [node("NdArrayNode", 1, **array)],
            [("a", large)],
            zipfile.ZIP_LZMA,
        ),
        "members": archive(frame, [], [(f"{i}", b"") for i in range(30_000)]),
    }


def copies(frozen, path):
    """Return a file with many predictors of one network, each of which has parameters of its own."""
    sknet.save(frozen, path)
    kind, document = read_any(path)
    last = document["objects"][-1]
    write(path, {**document, "objects": [*document["objects"], *[last] * 40]}, kind)
    return path.read_bytes()


def hostile(small):
    """Return files that say what takes more memory than they do."""
    header, document, arrays = apart(small)
    files = {f"{part[:24]}": with_text(header, text_of(document, "value", part), arrays) for part in PARTS}
    files |= {each[:24]: with_text(header, text_of(document, "objects", each), arrays) for each in OBJECTS}
    long = {**document, "value": "x" * (7 << 20) + "\U0001f600"}
    files["a wide character"] = together(header, long, arrays)
    wide = json.dumps({**header, "__metadata__": {**header["__metadata__"], "content": long["value"]}})
    files["a wide header"] = with_header(wide, arrays)
    files["commas in escapes"] = with_header(
        json.dumps({**header, "__metadata__": {**header["__metadata__"], "content": "@"}}).replace(
            '"@"', f'"[{chr(92)}u005b{chr(92)}u005d' + f"{chr(92)}u002c[]" * 160_000 + ']"'
        ),
        arrays,
    )
    return files


@resets_the_peak
def test_loading_takes_no_more_whatever_a_file_says(tmp_path):
    clf, pipeline, _ = fitted(3)
    sknet.save(clf, tmp_path / "small")
    sknet.save(pipeline, tmp_path / "pipeline")
    files = hostile((tmp_path / "small").read_bytes())
    files["predictors of one network"] = copies(fitted(400)[0].freeze(), tmp_path / "it")
    kind, document = read_any(tmp_path / "pipeline")
    for name, frame in archives(document["frame"].tobytes()).items():
        write(tmp_path / "it", {**document, "frame": np.frombuffer(frame, np.uint8)}, kind)
        files[f"archive: {name}"] = (tmp_path / "it").read_bytes()
    pairs = []
    for number, content in enumerate(files.values()):
        pairs.append([str(tmp_path / "pipeline"), str(tmp_path / f"{number}")])
        (tmp_path / f"{number}").write_bytes(content)
    for name, pair, raised in zip(files, pairs, raised_by(pairs), strict=True):
        most = 2 * os.path.getsize(pair[1]) + (16 << 20)
        assert raised <= most, f"{name}: {raised / 2**20:.1f} of {most / 2**20:.1f} MiB"
