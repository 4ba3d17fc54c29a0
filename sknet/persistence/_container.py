"""One file with a text and named arrays: the safetensors format, with a checksum over all of it.

Eight bytes with the length of the header; the header in JSON, with dtype, shape and offsets of each array,
and texts under ``__metadata__``; then the arrays. Any safetensors reader can read it. The checksum is the
first of the texts, so it has the same offset in every file and covers every byte but its own. In format 2,
the document is compressed; in format 3, zeros follow the arrays, since reading takes at most twice the size
of the file and a text takes many times its own. Whatever needs no more than format 1 says so, for earlier
versions of sknet.
"""

import base64
import binascii
import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from sknet.exceptions import LoadError
from sknet.persistence._atomic import write_atomically

PLAIN, COMPRESSED, FORMAT = 1, 2, 3  # with a document as it is, a compressed one, and zeros
DOCUMENT = {PLAIN: "content", COMPRESSED: "compressed", FORMAT: "content"}
ZEROS = "__zeros__"  # the name of an array that is never read
CHUNK = 1 << 16
LITTLE = 15 << 20  # memory in bytes that reading may take beyond twice the size of the file
ROUNDED = 1 << 10  # bytes, more than what describes an array takes
LITTLE_TEXT = 1 << 19  # the same for a compressed text, most of which is not in the file
PER_VALUE = 100  # the most bytes of memory for a value in a text, and for an escaped character
PER_CHARACTER = 4  # for a text twice, as bytes, and as what is parsed
PER_WIDE = 8  # if one escaped character may widen all others
MARKS = (b",", b":", b"[", b"{", b"\\u")
MOST_AXES = 64  # NumPy's limit
MOST_BYTES = 1 << 62
LONGEST_EMPTY = 1 << 23
DTYPES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BOOL": "bool"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
CODES = {np.dtype(name): code for code, name in DTYPES.items()}
BEGINS = b'{"__metadata__":{"sha256":"'
CHECKSUM = slice(8 + len(BEGINS), 8 + len(BEGINS) + 64)


class Contents(NamedTuple):
    kind: str
    text: str
    arrays: dict[str, np.ndarray[Any, Any]]
    spare: int = 0


class ArrayPlace(NamedTuple):
    """Dtype, shape and offsets of an array, in the bytes after the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


def write_file(path: Path, contents: Contents, *, compress: bool = False, spent: int = 0) -> None:
    arrays = {name: plain(name, array) for name, array in contents.arrays.items()}
    # The format allows no gaps; with the widest elements first, all arrays are aligned.
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    before, after = _header(contents, COMPRESSED if compress else PLAIN, arrays)
    lacking = 0 if compress else needed(after) + spent - LITTLE - 2 * (len(before) + len(after))
    if lacking > 0:
        arrays[ZEROS] = np.zeros(lacking // 2 + ROUNDED, np.uint8)
        before, after = _header(contents, FORMAT, arrays)
    digest = hashlib.sha256(before)
    digest.update(after)
    parts = [array.reshape(-1).view(np.uint8) for array in arrays.values()]
    for part in parts:
        digest.update(part)  # type: ignore[arg-type]
    write_atomically(path, [before, digest.hexdigest().encode(), after, *parts])


def compressible(contents: Contents, spent: int) -> bool:
    """Tell whether reading a text takes at most half a MiB of memory, or as little as arrays justify."""
    n_bytes, taken = sum(array.nbytes for array in contents.arrays.values()), needed(contents.text)
    return taken <= max(LITTLE_TEXT, n_bytes) and taken + spent <= LITTLE


def plain(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as stored in the file: contiguous, little-endian, or raise a TypeError."""
    if array.dtype.newbyteorder("=") not in CODES:
        raise TypeError(f"array {name!r} has dtype {array.dtype}: a file holds {', '.join(DTYPES.values())}")
    if is_long_and_empty(array.shape):
        raise TypeError(
            f"array {name!r} of shape {array.shape} is empty: a file holds up to {LONGEST_EMPTY} such rows"
        )
    return np.require(array, array.dtype.newbyteorder("<"), "C")


def _header(
    contents: Contents, number: int, arrays: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[bytes, bytes]:
    places, start = {}, 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        code = CODES[array.dtype.newbyteorder("=")]
        places[name] = {"dtype": code, "shape": array.shape, "data_offsets": [start, stop]}
        start = stop
    text = compressed(contents.text) if number == COMPRESSED else contents.text
    texts = {"format": f"sknet {number}", "kind": contents.kind, DOCUMENT[number]: text}
    said = json.dumps(texts, separators=(",", ":"))[1:]
    rest = json.dumps(places, separators=(",", ":"))[1:]
    after = f'",{said},{rest}' if places else f'",{said}}}'
    length = len(BEGINS) + 64 + len(after)
    padding = -length % 8
    return (length + padding).to_bytes(8, "little") + BEGINS, after.encode() + b" " * padding


def read_file(path: Path) -> Contents:
    """Read a file, checking every byte."""
    if path.is_dir():
        found = min(path.glob("*.safetensors"), default=None)
        raise LoadError(
            f"{path} is a folder, not a file: pass a file{'' if found is None else f', such as {found}'}, "
            "or, to continue a fit from its checkpoints, fit(..., resume_from=folder)"
        )
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        _check_sum(path, file, size)
        header, start = _read_header(path, file, size)
        kind, text = _check_texts(path, header.pop("__metadata__", None), size)
        places = _check_places(path, header, size - start)
        places.pop(ZEROS, None)
        arrays = {name: _read_array(path, file, name, place, start) for name, place in places.items()}
    # Whoever owns arrays may copy each once.
    most = LITTLE + 2 * (size - sum(array.nbytes for array in arrays.values()))
    return Contents(kind, text, arrays, most - _checked_needs(path, text, most, "text"))


def parse_json(path: Path, text: "str | bytes") -> Any:
    """Parse JSON text strictly: no duplicate keys, NaN or infinity."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not allowed")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its text cannot be read ({error})") from None


def damaged(path: Path, what: str) -> LoadError:
    return LoadError(f"{path} is damaged: {what}")


def _check_sum(path: Path, file: BinaryIO, size: int) -> None:
    """Raise a LoadError unless the file has its checksum."""
    if not size:
        raise LoadError(f"{path} is damaged: it is empty")
    head = file.read(CHECKSUM.stop)
    if head[8 : CHECKSUM.start] != BEGINS:
        raise LoadError(f"{path} was not written by sknet, or its first bytes are damaged")
    digest = hashlib.sha256(head[: CHECKSUM.start])
    while part := file.read(CHUNK):
        digest.update(part)
    if digest.hexdigest().encode() != head[CHECKSUM]:
        raise LoadError(
            f"{path} is damaged: its {size} bytes do not match the checksum that was written with them; "
            "it has been truncated or changed"
        )


def _read_header(path: Path, file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise damaged(path, f"its header claims {length} bytes, but the file has {size}")
    text = file.read(length)
    _checked_needs(path, text, 2 * size + LITTLE, "header")
    header = parse_json(path, text)
    if not isinstance(header, dict):
        raise damaged(path, "its header is not a JSON object")
    return header, 8 + length


def needed(text: "str | bytes") -> int:
    """Return how many bytes JSON text takes at most when it is parsed, which can be many times its own."""
    if not text.isascii():
        raise ValueError("its text is not ASCII")
    text = text if isinstance(text, bytes) else text.encode()
    n_marks = sum(text.count(mark) for mark in MARKS)
    return (PER_WIDE if MARKS[-1] in text else PER_CHARACTER) * len(text) + PER_VALUE * n_marks


def _checked_needs(path: Path, text: "str | bytes", most: int, what: str) -> int:
    """Return how many bytes a parsed text takes; raise a LoadError if they are too many."""
    try:
        found = needed(text)
    except ValueError as error:
        raise damaged(path, f"{error}") from None
    if found > most:
        units = "bytes" if isinstance(text, bytes) else "characters"
        raise damaged(path, f"its {what} of {len(text)} {units} holds too many values")
    return found


def _check_texts(path: Path, found: Any, size: int) -> tuple[str, str]:
    """Return the kind of file, and its document as text."""
    texts: dict[str, Any] = found if isinstance(found, dict) else {}
    written = texts.get("format")
    known = re.fullmatch(r"sknet (\d{1,9})", written) if isinstance(written, str) else None
    number = int(known[1]) if known else 0
    if number > FORMAT:
        raise LoadError(
            f"{path} has the format {written!r}, but this version of sknet reads up to "
            f"'sknet {FORMAT}': it was written by a newer one"
        )
    kind, text = texts.get("kind"), texts.get(DOCUMENT.get(number, ""))
    if not isinstance(kind, str) or not isinstance(text, str):
        raise damaged(path, f"its metadata lack format, kind or document, or have the format {written!r}")
    if number == COMPRESSED:
        most = max(size, LITTLE_TEXT)
        text = uncompressed(path, text, most // 4)
        _checked_needs(path, text, most, "compressed text")
    return kind, text


def _check_places(path: Path, header: dict[str, Any], n_bytes: int) -> dict[str, ArrayPlace]:
    """Return the place of each array, in order, after checking that the arrays fill the file."""
    places = {name: _checked_place(path, name, value) for name, value in header.items()}
    places = dict(sorted(places.items(), key=lambda item: (item[1].start, item[1].stop)))
    end = 0
    for name, place in places.items():
        if place.start != end:
            raise damaged(path, f"array {name!r} begins at byte {place.start}, but should begin at {end}")
        end = place.stop
    if end != n_bytes:
        raise damaged(path, f"its arrays take {end} bytes, but {n_bytes} are there")
    return places


def _checked_place(path: Path, name: str, value: Any) -> ArrayPlace:
    def refuse() -> LoadError:
        return damaged(path, f"array {name!r} is described as {str(value)[:200]}")

    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise refuse()
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES or not are_counts(shape):
        raise refuse()
    if not are_counts(offsets) or len(offsets) != 2:
        raise refuse()
    place = ArrayPlace(np.dtype(DTYPES[dtype]), tuple(shape), *offsets)
    if is_long_and_empty(shape):
        raise refuse()
    if place.stop - place.start != math.prod(shape) * place.dtype.itemsize:
        raise refuse()
    return place


def is_long_and_empty(shape: Sequence[int]) -> bool:
    """Tell whether an array without elements has an axis along which nobody should have to iterate."""
    return 0 in shape and max(shape) > LONGEST_EMPTY


def are_counts(values: Any) -> bool:
    """Tell whether a value is a list of numbers that a shape can consist of."""
    is_short = isinstance(values, list) and len(values) <= MOST_AXES
    return is_short and all(type(n) is int and 0 <= n < MOST_BYTES for n in values)


def _read_array(path: Path, file: BinaryIO, name: str, place: ArrayPlace, start: int) -> np.ndarray[Any, Any]:
    file.seek(start + place.start)
    dtype = np.uint8 if place.dtype == bool else place.dtype
    found = np.fromfile(file, dtype, math.prod(place.shape))
    try:
        found = found.reshape(place.shape)
    except ValueError as error:
        raise damaged(path, f"array {name!r}: {error}") from None
    try:
        return without_other_booleans(found) if place.dtype == bool else found
    except ValueError as error:
        raise damaged(path, f"array {name!r} {error}") from None


def without_other_booleans(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array of bytes as booleans; raise a ValueError for others than 0 and 1."""
    if found.size and found.max() > 1:
        raise ValueError(f"holds {found.max()} as a boolean")
    return found.view(bool)


def compressed(text: str) -> str:
    """Return a text as base64 of what zlib makes of it."""
    code = zlib.compressobj(9, zdict=WORDS)
    return base64.b64encode(code.compress(text.encode()) + code.flush()).decode()


def uncompressed(path: Path, text: str, most: int) -> str:
    code = zlib.decompressobj(zdict=WORDS)
    try:
        found = code.decompress(binascii.a2b_base64(text, strict_mode=True), most + 1).decode("ascii")
    except (ValueError, zlib.error) as error:
        raise LoadError(f"{path} is damaged: its text cannot be uncompressed ({error})") from None
    if len(found) > most:
        raise LoadError(f"{path} is damaged: its compressed text is larger than {most} bytes")
    if not code.eof or code.unused_data:
        raise LoadError(f"{path} is damaged: its compressed text is incomplete, or more bytes follow")
    return found


# A preset dictionary of zlib: the likelier a part, the nearer to the end. Compressed files can be read with
# exactly this text, so it never changes; another text needs another format.
# fmt: off
WORDS = (
    b'["sknet.nn.Tanh","classes_":{"texts":{"$array":["U32",[3,5]]}},"best_epoch_":null,"validation_scores_":null,'
    b'"best_validation_score_":null,["sknet.estimators.extend.RealTargets",{"dict":{"n_outputs":1}}],'
    b'["sknet.losses.SquaredError",{"dict":{"params":{"dict":{}},'
    b'["sknet.estimators.MLPRegressor","loss":"squared_error","out_activation_":"identity",'
    b'"_training":false}}}}],"settings":{"dict":{"_training":false}}}}],'
    b'["sknet.estimators.FrozenRegressor",{"dict":{"_loss":{"object":0},"_label":"4-50-1,'
    b'"_dtype":{"dtype":"<f8"},"_module":{"object":9},'
    b'["sknet.estimators.FrozenClassifier","_temperature":null}}]]}"_init_version":2,'
    b'["sknet.core.Tensor","requires_grad":false}}],'
    b'["sknet.nn.BatchNorm","buffers":{"dict":{"running_mean":{"object":7},"running_var":{"object":8},'
    b'"num_batches":{"object":9}}},"settings":{"dict":{"num_features":3,"momentum":0.1,'
    b'"track_running_stats":true,"affine":true,["sknet.nn.Dropout","settings":{"dict":{"p":0.5,'
    b'["sknet.nn.LayerNorm","settings":{"dict":{"normalized_shape":{"tuple":[3]},'
    b'["sknet.nn.GELU","settings":{"dict":{"approximate":"none","children":{"dict":{"body":{"object":17},'
    b'"head":{"object":20}}},["sknet.estimators.extend.SymmetricCoder","noise":0.0,"tied":false}}],'
    b'["sknet.estimators.extend.Coder","children":{"dict":{"noise":{"object":5},"encoder":{"object":13},'
    b'"decoder":{"object":21}}},"settings":{"dict":{"kept":1.0}}}}],["sknet.estimators.Autoencoder",'
    b'["sknet.nn.ModuleFactory",{"dict":{"factory":{"class":"Net"},"arguments":{"dict":{}}}}],'
    b'["sknet.estimators.extend.Built","_init_version":2}}}}],'
    b'["sknet.estimators.NetClassifier",{"dict":{"params":{"dict":{"alpha":0.0001,"module":{"class":"Net"},'
    b'"_lasting":{"dict":{"module":{"class":"Net"},'
    b'["sknet.preprocessing.TableEncoder",{"dict":{"params":{"dict":{"categorical_features":"from_dtype",'
    b'"max_levels":40,"min_count":5,"n_bins":16,"n_folds":5,"piecewise":"both","random_state":null,'
    b'"smoothing":20.0,"sparse_output":"auto","subsample":20000,"target_type":"auto","value_means":true}},'
    b'["sknet.preprocessing.NumberColumn",{"dict":{"name":"x0","center":0.0,"scale":1.0,'
    b'"edges":{"dict":{"tree":{"$array":["F64",[9]]},"quantile":{"$array":["F64",[9]]}}},"has_flag":false,"is_phase":false,'
    b'"is_known":true}}],["sknet.preprocessing.Numbers",{"dict":{"columns":{"tuple":[{"object":3},'
    b'{"object":6}]}}}],["sknet.preprocessing.CategoryColumn","values":{"$array":["F64",[9]]}}}],'
    b'["sknet.preprocessing.Plan",{"dict":{"numbers":{"object":7},"sparse":null,'
    b'"categories":{"tuple":[{"object":8}]},"value_means":{"tuple":[]}}}],'
    b'["sknet.preprocessing.Feature",{"dict":{"label":"column 0","kind":"number","levels":{"tuple":[]},'
    b'"periods":{"tuple":[]}}}],"kind":"category",'
    b'["sknet.preprocessing.Schema",{"dict":{"features":{"tuple":[{"object":10},"is_sparse":false}}],'
    b'"target_type":"classification","_plan":{"object":9},"_schema":{"object":15},"n_features_out_":135}}}}],'
    b'["sknet.estimators.extend.Encoded",{"dict":{"encoder":{"object":16}}}],"_inputs":{"object":17},'
    b'["sknet.freezing.Features",{"dict":{"count":4,"names":null,"used":null}}],'
    b'["sknet.freezing.Scaling",{"dict":{"operations":{"tuple":[{"tuple":["subtract",{"$array":["F64",[4]]}]},'
    b'{"tuple":["divide",{"$array":["F64",[4]]}]}]},"bounds":null,"rounds":true}}],'
    b'["sknet.freezing.Chain",{"dict":{"steps":{"tuple":[{"object":1}]}}}],"_names":null}}],'
    b'["sknet.freezing.FrozenPipeline",{"dict":{"_features":{"object":0},"_steps":{"object":2},'
    b'"_last":{"object":13},"_labels":{"tuple":["StandardScaler","MLPRegressor"]}}}]]}{"schema":1,'
    b'"versions":{"python":"3.11.7","sknet":"0.1.0","numpy":"2.4.6","scikit-learn":"1.9.1"},'
    b'"include":"predict","value":{"object":17},"objects":[["sknet.estimators.extend.ClassTargets",'
    b'{"dict":{"classes":{"$array":["I64",[3]]},"task":"multiclass","n_outputs":3}}],'
    b'["sknet.estimators.extend.Perceptron",{"dict":{"hidden_layer_sizes":{"tuple":[100]},"activation":"relu",'
    b'"dropout":0.0}}],["sknet.device.MetaArray",[{"tuple":[200,20]},"float32"]],'
    b'["sknet.device.MetaArray",[{"tuple":[200]},"int64"]],'
    b'["sknet.engine.extend.Batch",[{"object":2},{"object":3},null]],'
    b'["sknet.nn.Parameter",{"dict":{"data":{"$array":["F32",[20,100]]},"requires_grad":true,"awaits_data":false}}],'
    b'["sknet.nn.Parameter",{"dict":{"data":{"$array":["F32",[100]]},"requires_grad":true,"awaits_data":false}}],'
    b'["sknet.nn.Linear",{"dict":{"parameters":{"dict":{"weight":{"object":5},"bias":{"object":6}}},'
    b'"buffers":{"dict":{}},"transient":[],"children":{"dict":{}},"settings":{"dict":{"in_features":20,'
    b'"out_features":100,"parametrization":"standard"}}}}],'
    b'["sknet.nn.ReLU",{"dict":{"parameters":{"dict":{}},"buffers":{"dict":{}},"transient":[],'
    b'"children":{"dict":{}},"settings":{"dict":{}}}}],'
    b'["sknet.nn.Parameter",{"dict":{"data":{"$array":["F32",[100,3]]},"requires_grad":true,"awaits_data":false}}],'
    b'["sknet.nn.Parameter",{"dict":{"data":{"$array":["F32",[3]]},"requires_grad":true,"awaits_data":false}}],'
    b'["sknet.nn.Linear",{"dict":{"parameters":{"dict":{"weight":{"object":9},"bias":{"object":10}}},'
    b'"buffers":{"dict":{}},"transient":[],"children":{"dict":{}},"settings":{"dict":{"in_features":100,'
    b'"out_features":3,"parametrization":"standard"}}}}],'
    b'["sknet.nn.Sequential",{"dict":{"parameters":{"dict":{}},"buffers":{"dict":{}},"transient":[],'
    b'"children":{"dict":{"0":{"object":7},"1":{"object":8},"2":{"object":11}}},"settings":{"dict":{}}}}],'
    b'["sknet.losses.LogLoss",{"dict":{"params":{"dict":{"class_weight":null,"ignore_index":null,'
    b'"label_smoothing":0.0,"multilabel":false,"pos_weight":null}},"state":{"dict":{}}}}],'
    b'["sknet.optim.Adam",{"dict":{"params":{"dict":{"beta1":0.9,"beta2":0.999,"eps":1e-08,"lr":0.001}},'
    b'"state":{"dict":{}}}}],["sknet.engine.Model",{"dict":{"module":{"object":12},"loss":{"object":13},'
    b'"optimizer":{"object":14},"alpha":0.0001,"dtype":"float32","device":"cpu","compile":"auto",'
    b'"random_state":0,"has_seen_output":false,"progress":[0,10,1000,0,10,true],"epoch":[0,0],"key":[0,0],'
    b'"slots":{"dict":{}},"resting":{"dict":{}}}}],["sknet.engine.History",{"dict":{}}],'
    b'["sknet.estimators.MLPClassifier",{"dict":{"params":{"dict":{"activation":"relu","alpha":0.0001,'
    b'"batch_size":"auto","bootstrap":false,"calibrate":null,"callbacks":null,"class_weight":null,'
    b'"device":"auto","dropout":0.0,"dtype":"auto","early_stopping":false,"encoder":null,"frozen":null,'
    b'"hidden_layer_sizes":{"tuple":[100]},"loss":"log_loss","max_iter":200,"monitor":null,'
    b'"n_iter_no_change":10,"n_members":1,"optimizer":"adam","random_state":0,"refit_on_all":false,'
    b'"scoring":null,"shuffle":true,"tol":0.0001,"validation_fraction":0.1,"validation_split":null,'
    b'"verbose":false,"warm_start":false}},"state":{"dict":{"n_features_in_":20,"_targets":{"object":0},'
    b'"_architecture":{"object":1},"_lasting":{"dict":{"hidden_layer_sizes":{"tuple":[100]},'
    b'"activation":"relu","dropout":0.0,"dtype":"auto","device":"auto","scale_target":false,"encoder":null,'
    b'"n_members":null}},"_inputs":null,"_frozen":{"tuple":[]},"_batch":{"object":4},'
    b'"classes_":{"$array":["I64",[3]]},"model_":{"object":15},"history_":{"object":16},"callbacks_":[],'
    b'"_stopping":null,"n_iter_":10,"t_":1000,"n_outputs_":3,"out_activation_":"softmax","loss_curve_":[],'
    b'"loss_":0.0,"best_loss_":null,"monitor_":"loss","stopped_early_":false,"refit_history_":null,'
    b'"_compared":null,"best_epoch_":2,"validation_scores_":[],"best_validation_score_":0.0,"n_layers_":3,'
    b'"_is_slim":true}}}}]]}'
)
# fmt: on
