"""Settings that hold for a process, or for a block of code, as scikit-learn's do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from sknet._hints import suggestion

__all__ = ["Native", "config_context", "get_config", "native_setting", "set_config"]

Native = Literal["auto", "always", "never"]

CHOICES = ("auto", "always", "never")
VARIABLE = "SKNET_NATIVE"

_of_context: ContextVar[Native | None] = ContextVar("native", default=None)


def get_config() -> dict[str, str]:
    """Return the settings that are in effect.

    Returns
    -------
    dict of str to str
        ``{"native": ...}``, see `set_config`.

    Raises
    ------
    ValueError
        If the environment variable ``SKNET_NATIVE`` is not a valid setting.

    Examples
    --------
    >>> import sknet
    >>> with sknet.config_context(native="never"):
    ...     sknet.get_config()
    {'native': 'never'}
    """
    return {"native": native_setting()}


def set_config(*, native: Native | None = None) -> None:
    """Change settings for the rest of the process, in all threads and in processes that it starts.

    Parameters
    ----------
    native : {"auto", "always", "never"}, default=None
        When training steps run in native code, which needs Numba (``sknet[fast]``). "auto" starts with NumPy
        and switches once the native code is loaded, if the remaining steps take long enough; "always" waits
        for it before the first step, and compiles it if need be; "never" uses NumPy alone. Results have the
        same bits in each case. None leaves the setting as it is. The setting is in the environment variable
        ``SKNET_NATIVE``; without it, it is "auto".

    Raises
    ------
    ValueError
        If a setting is not one of these.

    Examples
    --------
    >>> import sknet
    >>> before = sknet.get_config()
    >>> sknet.set_config(native="never")
    >>> sknet.get_config()
    {'native': 'never'}
    >>> sknet.set_config(**before)
    """
    if native is not None:
        os.environ[VARIABLE] = _checked(native, "native")


@contextmanager
def config_context(*, native: Native | None = None) -> Iterator[None]:
    """Change settings for a block of code, in this thread and in those that sknet starts from it.

    Parameters
    ----------
    native : {"auto", "always", "never"}, default=None
        As for `set_config`.

    Returns
    -------
    context manager
        The settings are as before when it ends.

    Raises
    ------
    ValueError
        If a setting is not valid.

    Examples
    --------
    >>> import sknet
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with sknet.config_context(native="never"):
    ...     clf = sknet.MLPClassifier((8,), tol=0.1, random_state=0).fit(X, y)
    """
    token = _of_context.set(_of_context.get() if native is None else _checked(native, "native"))
    try:
        yield
    finally:
        _of_context.reset(token)


def native_setting() -> Native:
    """Return when native code is used: the setting of this block, or of the process."""
    return _of_context.get() or _checked(os.environ.get(VARIABLE) or "auto", f"the variable {VARIABLE}")


def _checked(value: str, what: str) -> Native:
    if value not in CHOICES:
        raise ValueError(f"{what} must be one of {CHOICES}, got {value!r}{suggestion(str(value), CHOICES)}")
    return value  # type: ignore[return-value]
