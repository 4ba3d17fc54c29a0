"""Objects in files: `save` writes one, `load` reads it; nothing in a file is executed."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any

from sknet.engine import Model
from sknet.engine.extend import slim_model
from sknet.exceptions import LoadError
from sknet.files._pipelines import is_foreign, packed, unpacked
from sknet.files._registry import NotKnownError, Registry, all_known, full_name, inner_names, splitters
from sknet.files._values import Decoder, Encoder
from sknet.persistence import read_any, write

__all__ = ["load", "save", "trusted_types"]

KIND = "object"
SCHEMA = 1  # of the document; a newer one is refused
PACKAGES = ("sknet", "numpy", "scikit-learn")
LITTLE = 1 << 26  # bytes that lists of numbers may need, however small the file is
INCLUDE = ("all", "predict")


def save(estimator: Any, path: "str | PathLike[str]", include: str = "all") -> None:
    """Write an estimator, a model or a network to a file that executes nothing when it is read.

    The file has the layout of safetensors: any reader of those finds its arrays. Everything else is a text in
    JSON in its header, with the versions of what wrote it, and a checksum covers every byte. It is written
    under another name, flushed to the disk and renamed, so it is never half-written.

    Parameters
    ----------
    estimator : estimator, Model, Module, frozen predictor, StateDict or Pipeline
        Fitted or not; also losses, optimizers, schedules and callbacks by themselves. A `Pipeline` of
        scikit-learn's, or anything else of other libraries that holds sknet's estimators, needs skops.
    path : str or PathLike
        The file; replaced if it is there.
    include : {"all", "predict"}, default="all"
        "all" goes on training to the same bits. "predict" is what `slim` returns: parameters, and no state of
        the optimizer.

    Raises
    ------
    TypeError
        If something in it cannot be stored, such as a function without a name; says where it is.
    ValueError
        If `include` is neither, or a parameter of a loss or an optimizer is wrong.
    ImportError
        If skops is needed, and not installed.

    See Also
    --------
    load : Read it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> import sknet
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = sknet.MLPClassifier(tol=0.1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "iris.safetensors")
    ...     sknet.save(clf, path)
    ...     same = sknet.load(path)
    >>> bool((same.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    if include not in INCLUDE:
        raise ValueError(f"include must be one of {list(INCLUDE)}. Got {include!r} instead.")
    document: dict[str, Any] = {"schema": SCHEMA, "versions": _versions(), "include": include}
    encoder = Encoder()
    if is_foreign(estimator):
        frame, inside = packed(estimator)
        document |= {"frame": frame, "value": [encoder.value(_slim(x, include), "") for x in inside]}
    else:
        document["value"] = encoder.value(_slim(estimator, include))
    write(path, {**document, "objects": encoder.objects}, KIND)


def _slim(x: Any, include: str) -> Any:
    if include == "all":
        return x
    if isinstance(x, Model):
        return slim_model(x)
    return x.slim() if hasattr(x, "slim") and hasattr(x, "model_") else x


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a folder that is not installed
            found[name] = "unknown"
    return found


def load(path: "str | PathLike[str]", trusted: Iterable[Any] = ()) -> Any:
    """Read what `save` has written; no code in the file is executed, and nothing unknown imported.

    Parameters
    ----------
    path : str or PathLike
        The file.
    trusted : iterable of type or callable, default=()
        The user's own classes and functions that the file may name, such as ``[MyNet]``; they are found by
        their names, never imported. sknet's are known.

    Returns
    -------
    object
        What was saved. Of another file of sknet's the document in it: of one of `sknet.callbacks.Checkpoint`
        the state of the fit, as a dict; `fit` takes the file itself, as `resume_from`.

    Raises
    ------
    LoadError
        If the file is damaged (every byte is checked), was not written by `save`, was written by a newer
        sknet, or names a class that is neither sknet's nor trusted; says which.
    ImportError
        If it holds a Pipeline, and skops is not installed.
    OSError
        If it cannot be opened.

    Notes
    -----
    A checksum tells damage, not intent: whoever can change a file can change its checksum. What the file
    says is checked again: names are looked up in a list, objects are made of values that their classes
    accept, and memory is allocated for bytes that are there. Still, weights of somebody else predict
    what they want, and callbacks may write files when the estimator is fitted again: look at `callbacks`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import sknet
    >>> class Net(sknet.nn.Module):
    ...     def __init__(self, width):
    ...         self.linear = sknet.nn.Linear(width, 1)
    ...
    ...     def forward(self, x):
    ...         return self.linear(x)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "net.safetensors")
    ...     sknet.save(Net(3), path)
    ...     sknet.load(path, trusted=[Net])
    Net(
      (linear): Linear(3, 1)
    )
    """
    registry = Registry(trusted)
    kind, document = read_any(path)
    if kind != KIND:
        return document
    try:
        _check_schema(document)
        decoder = Decoder(registry, max(Path(path).stat().st_size, LITTLE))
        for described in _taken(document["objects"]):
            decoder.add(described)
        found = decoder.value(document["value"])
        return unpacked(document["frame"], found, trusted) if "frame" in document else found
    except NotKnownError as error:
        raise LoadError(f"{path} cannot be loaded: {error.args[0]}") from None
    except ImportError:
        raise
    except Exception as error:
        raise LoadError(f"{path} cannot be loaded: {_told(error)}") from error


def _told(error: Exception) -> str:
    return f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _taken(described: list[Any]) -> Iterable[Any]:
    """Yield the descriptions of objects, each of which is forgotten when the next one is made."""
    described.reverse()
    while described:
        yield described.pop()


def _check_schema(document: Any) -> None:
    schema, versions = document["schema"], document["versions"]
    if type(schema) is not int or schema < 1:
        raise ValueError(f"{schema!r} is no version of a document")
    if schema > SCHEMA:
        raise ValueError(
            f"its document has version {schema}, and this version of sknet reads up to {SCHEMA}: it was "
            f"written by sknet {versions['sknet']}, which is newer"
        )


def trusted_types() -> list[str]:
    """Return the names of sknet's classes and functions, as ``skops.io.load`` takes them.

    Returns
    -------
    list of str
        What skops is to trust, so that it reads estimators of sknet. A module of your own is not among them.

    Examples
    --------
    >>> import skops.io
    >>> import sknet
    >>> written = skops.io.dumps(sknet.MLPClassifier())
    >>> skops.io.loads(written, trusted=sknet.trusted_types())
    MLPClassifier()
    """
    return sorted(
        {full_name(thing) for thing in (*all_known(), *splitters())} | inner_names() | set(OTHER_TYPES)
    )


OTHER_TYPES = ("functools.partial", "numpy.dtype")  # what is in sknet's objects besides
