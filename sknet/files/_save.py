"""`save` writes an object to a file, `load` reads it; no code in a file is executed."""

import copy
import platform
import sys
from collections.abc import Iterable
from os import PathLike
from typing import Any

from sknet._constraints import shown
from sknet._late import version_of
from sknet._params import named_errors
from sknet.callbacks._checkpoint import checked_fit
from sknet.engine import Model
from sknet.engine._model_copies import slim_model
from sknet.exceptions import LoadError
from sknet.files._coding import SCHEMA, Decoder, Encoder, names_in
from sknet.files._registry import (
    NotKnownError,
    Registry,
    all_known,
    full_name,
    inner_names,
    is_ours,
    splitters,
)
from sknet.persistence import read_within, write

KIND = "object"
PACKAGES = ("sknet", "numpy", "scikit-learn")
INCLUDE = ("all", "predict")


@named_errors
def save(estimator: Any, path: "str | PathLike[str]", include: str = "all") -> None:
    """Write an estimator, a model or a network to a file that executes no code when it is loaded.

    The file has the safetensors format, so that other readers of this format find the arrays. Everything else
    is JSON text in its header, with the versions of the libraries that wrote it, and a checksum covers every
    byte. The file is written under another name, flushed to disk and renamed, so it is never incomplete. With
    ``include="predict"``, the text is compressed.

    Parameters
    ----------
    estimator : estimator, Model, Module, frozen predictor, StateDict or Pipeline
        The object, fitted or not; also a loss, optimizer, schedule or callback. A scikit-learn `Pipeline`,
        or any other estimator that contains sknet's, needs skops.
    path : str or PathLike
        The file; replaced if it exists.
    include : {"all", "predict"}, default="all"
        "all" keeps everything, so that training continues with the same bits. "predict" stores the result of
        `slim`: parameters without training state.

    Raises
    ------
    TypeError
        If a part cannot be stored, such as a function without a name; the message names it.
    ValueError
        If `include` is neither, or a parameter of a loss or an optimizer is invalid.
    ImportError
        If skops is needed but not installed.

    See Also
    --------
    load : Read the file.

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
        raise ValueError(f"include must be one of {list(INCLUDE)}. Got {shown(include)} instead.")
    document: dict[str, Any] = {"versions": _versions(), "include": include}
    encoder = Encoder()
    if _is_foreign(estimator):
        from sknet.files._pipelines import packed  # needs scikit-learn

        frame, inside, encoder.spent = packed(estimator)
        document |= {"frame": frame, "value": [encoder.value(_slim(x, include), "") for x in inside]}
    else:
        document["value"] = encoder.value(_slim(estimator, include))
    document = {"schema": encoder.schema, **document, "objects": encoder.objects}
    write(path, document, KIND, compress=include == "predict", spent=encoder.spent)


def _is_foreign(x: Any) -> bool:
    """Tell whether an object is an estimator of another library."""
    sklearn: Any = sys.modules.get("sklearn.base")  # whoever has such an estimator has loaded it
    return sklearn is not None and isinstance(x, sklearn.BaseEstimator) and not is_ours(x)


def _slim(x: Any, include: str) -> Any:
    if include == "all":
        return x
    if isinstance(x, Model):
        return slim_model(x)
    if hasattr(x, "best_estimator_") and is_ours(x):  # a search
        other = copy.copy(x)
        other.best_estimator_ = _slim(x.best_estimator_, include)
        return other
    if _is_foreign(x):  # a pipeline, as the best estimator of a search
        other = copy.copy(x)
        vars(other).update({name: _slim_parts(part, include) for name, part in vars(x).items()})
        return other
    is_fitted = hasattr(x, "model_") or hasattr(x, "members_")
    return x.slim() if is_fitted and hasattr(x, "slim") else x


def _slim_parts(x: Any, include: str) -> Any:
    if type(x) in (list, tuple):
        return type(x)([_slim_parts(part, include) for part in x])
    if type(x) is dict:
        return {name: _slim_parts(part, include) for name, part in x.items()}
    return _slim(x, include) if _is_foreign(x) or is_ours(x) else x


def _versions() -> dict[str, str]:
    found = {name: version_of(name) or "unknown" for name in PACKAGES}
    return {"python": platform.python_version()} | found


@named_errors
def load(path: "str | PathLike[str]", trusted: Iterable[Any] = ()) -> Any:
    """Read a file that `save` has written; no code in it is executed.

    Parameters
    ----------
    path : str or PathLike
        The file.
    trusted : iterable of type or callable, default=()
        The user's own classes and functions that the file may name, such as ``[MyNet]``; names are looked
        up among them and sknet's own, never imported.

    Returns
    -------
    object
        The saved object. For other files of sknet, their document: for one by `sknet.callbacks.Checkpoint`,
        the state of the fit, as a dict (to resume, pass the file to `fit` as `resume_from`).

    Raises
    ------
    LoadError
        If the file is damaged (every byte is checked), was not written by `save`, was written by a newer
        sknet, or names a class that is neither sknet's nor trusted; the message says which.
    ImportError
        If the file holds a Pipeline and skops is not installed.
    OSError
        If the file cannot be opened.

    Notes
    -----
    The checksum detects damage, not malice: anyone who can change a file can change its checksum.
    Therefore, the contents are checked as well: names are looked up in a list, objects are created only
    from values that their classes accept, and memory is allocated only for bytes that exist. Still, an
    untrusted file may make any predictions, and its callbacks may write files when the estimator is
    fitted again: inspect `callbacks`.

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
    kind, document, spare = read_within(path)
    if kind == "checkpoint":
        return checked_fit(path, document)
    if kind != KIND:
        return document
    try:
        _check_schema(document)
        decoder = Decoder(registry, spare)
        found = decoder.document(document["objects"], document["value"])
        if "frame" not in document:
            return found
        from sknet.files._pipelines import unpacked  # needs scikit-learn

        return unpacked(document.pop("frame"), found, trusted, decoder.spare)
    except NotKnownError as error:
        _, again, _ = read_within(path)  # since the decoder has used up what it has read
        needs = registry.needs(names_in(again["objects"], again["value"])) or error
        raise LoadError(f"{path} cannot be loaded: {needs}") from None
    except ImportError:
        raise
    except Exception as error:
        raise LoadError(f"{path} cannot be loaded: {_told(error)}") from error


def _told(error: Exception) -> str:
    return f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _check_schema(document: Any) -> None:
    schema, versions = document["schema"], document["versions"]
    if type(schema) is not int or schema < 1:
        raise ValueError(f"{schema!r} is not a version of a document")
    if schema > SCHEMA:
        raise ValueError(
            f"its document has version {schema}, but this version of sknet reads up to {SCHEMA}: it was "
            f"written by sknet {versions['sknet']}, which is newer"
        )


def trusted_types() -> list[str]:
    """Return the names of sknet's classes and functions, for the argument `trusted` of ``skops.io.load``.

    Returns
    -------
    list of str
        The types that skops must trust to read sknet's estimators; custom modules are not included.

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


OTHER_TYPES = (  # inside sknet's objects
    *("builtins.frozenset", "functools.partial", "numpy.dtype"),
    *("sklearn.metrics._scorer._PassthroughScorer", "sklearn.metrics._scorer._Scorer"),  # of searches
)
