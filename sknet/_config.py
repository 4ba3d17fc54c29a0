"""Settings that hold for a process, or for a block of code, as scikit-learn's do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from sknet._constraints import shown
from sknet._hints import suggestion
from sknet._native import Core, core, needed

Native = Literal["auto", "always", "never"]
Lease = Literal["workers", "never"]


class Setting:
    """One setting: of a block of code, else of the process, which is in its environment."""

    def __init__(self, name: str, *choices: str) -> None:
        self.name, self.choices, self.variable = name, choices, f"SKNET_{name.upper()}"
        self.of_context: ContextVar[str | None] = ContextVar(name, default=None)

    def value(self) -> str:
        """Return what is in effect."""
        return self.of_context.get() or self.checked(
            os.environ.get(self.variable) or self.choices[0], f"the variable {self.variable}"
        )

    def checked(self, value: str, what: str) -> str:
        if value not in self.choices:
            hint = suggestion(str(value), self.choices)
            raise ValueError(f"{what} must be one of {self.choices}, got {shown(value)}{hint}")
        return value


SETTINGS = {
    each.name: each
    for each in (Setting("native", "auto", "always", "never"), Setting("lease", "workers", "never"))
}


def get_config() -> dict[str, str]:
    """Return the settings that are in effect.

    Returns
    -------
    dict of str to str
        ``{"native": ..., "lease": ...}``, see `set_config`.

    Raises
    ------
    ValueError
        If the environment variable ``SKNET_NATIVE`` or ``SKNET_LEASE`` is not a valid setting.

    Examples
    --------
    >>> import sknet
    >>> with sknet.config_context(native="never"):
    ...     sknet.get_config()
    {'native': 'never', 'lease': 'workers'}
    """
    return {name: setting.value() for name, setting in SETTINGS.items()}


def set_config(*, native: Native | None = None, lease: Lease | None = None) -> None:
    """Change settings for the rest of the process, in all threads and in processes that it starts.

    Parameters
    ----------
    native : {"auto", "always", "never"}, default=None
        Whether training steps, and predictions of few rows, run in native code, the compiled extension of
        this package. "auto" uses it if it was built, and NumPy otherwise; "always" raises an error if it was
        not built; "never" uses NumPy alone. None leaves the setting as it is. The initial setting is the
        environment variable ``SKNET_NATIVE``, or "auto" if there is none.
    lease : {"workers", "never"}, default=None
        Whether a fit has a GPU to itself. With "workers", the worker processes of one parent, such as those
        of ``n_jobs``, train on a GPU one at a time; with "never" they train there side by side, which may be
        faster for small networks if the memory holds all of them. None leaves the setting as it is. The
        initial setting is the environment variable ``SKNET_LEASE``, or "workers" if there is none.

    Raises
    ------
    ValueError
        If a setting is not one of these.
    RuntimeError
        For ``native="always"``, if there is no native code, see `show_versions`.

    Examples
    --------
    >>> import sknet
    >>> before = sknet.get_config()
    >>> sknet.set_config(native="never")
    >>> sknet.get_config()["native"]
    'never'
    >>> sknet.set_config(**before)
    """
    for setting, value in _given(native=native, lease=lease):
        os.environ[setting.variable] = value


@contextmanager
def config_context(*, native: Native | None = None, lease: Lease | None = None) -> Iterator[None]:
    """Change settings for a block of code, in this thread and in threads that sknet starts from it.

    Parameters
    ----------
    native : {"auto", "always", "never"}, default=None
        As for `set_config`.
    lease : {"workers", "never"}, default=None
        As for `set_config`.

    Returns
    -------
    context manager
        Restores the previous settings at its end.

    Raises
    ------
    ValueError
        If a setting is not valid.
    RuntimeError
        For ``native="always"``, if there is no native code, see `show_versions`.

    Examples
    --------
    >>> import sknet
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with sknet.config_context(native="never"):
    ...     clf = sknet.MLPClassifier((8,), tol=0.1, random_state=0).fit(X, y)
    """
    tokens = [
        (setting, setting.of_context.set(value)) for setting, value in _given(native=native, lease=lease)
    ]
    try:
        yield
    finally:
        for setting, token in tokens:
            setting.of_context.reset(token)


def _given(**values: str | None) -> list[tuple[Setting, str]]:
    given = [(SETTINGS[name], value) for name, value in values.items() if value is not None]
    checked = [(setting, setting.checked(value, setting.name)) for setting, value in given]
    if values.get("native") == "always":
        needed()
    return checked


def native_setting() -> Native:
    """Return when native code is used: the setting of this block, or of the process."""
    return SETTINGS["native"].value()  # type: ignore[return-value]


def native_core() -> Core | None:
    """Return native code where it is used, see `set_config`; None elsewhere."""
    setting = native_setting()
    if setting == "never":
        return None
    return needed() if setting == "always" else core()


def lease_setting() -> Lease:
    """Return which fits have a device to themselves: the setting of this block, or of the process."""
    return SETTINGS["lease"].value()  # type: ignore[return-value]
