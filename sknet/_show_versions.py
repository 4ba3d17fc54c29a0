"""Versions of what sknet runs on, for reports of defects."""

import platform
import sys
from collections.abc import Iterator

from sknet._config import get_config
from sknet._late import version_of
from sknet._native import core, reason
from sknet._parallel import CORES, libraries
from sknet.device import available, backend
from sknet.exceptions import DeviceError

PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "cupy-cuda12x", "cupy-cuda13x"),
    *("pandas", "polars", "pyarrow", "matplotlib", "dask", "onnx", "onnxruntime", "skops", "torch"),
)


def show_versions() -> None:
    """Print versions of Python, sknet and its dependencies, the BLAS, the device, and the native code in use.

    Notes
    -----
    Native code is a compiled extension of sknet. Where it was not built, since there was no C compiler, all
    steps run on NumPy alone, which is slower, and the last lines say why.

    Examples
    --------
    >>> import sknet
    >>> sknet.show_versions()  # doctest: +ELLIPSIS
    Python: ...
    """
    for name, value in _facts():
        print(f"{name}: {value}")


def _facts() -> Iterator[tuple[str, object]]:
    yield "Python", sys.version.replace("\n", " ")
    yield "platform", f"{platform.platform()}, {CORES} processors"
    yield "sknet", sys.modules["sknet"].__version__
    for package in PACKAGES:
        if (version := version_of(package)) is not None:
            yield package, version
    for library in libraries().info():
        if library["user_api"] == "blas":
            names = library["internal_api"], library["version"], library.get("architecture")
            yield "BLAS", f"{' '.join(filter(None, names))}, threads: {library['num_threads']}"
    yield "GPU", _gpu()
    found = core()
    yield "native code", f"not built: {reason()}" if found is None else f"built, uses {found.isa()}"
    yield "settings", ", ".join(f"{name}={value}" for name, value in get_config().items())


def _gpu() -> str:
    try:
        return backend("cuda").identity(available("cuda")) or "available"
    except DeviceError as error:
        return str(error)
