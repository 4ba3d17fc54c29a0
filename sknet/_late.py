"""Names, functions and attributes that are made when first used, or available under a condition."""

import functools
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MethodType
from typing import Any, TypeVar, overload

_loaders: dict[str, Callable[[], object]] = {}
_offers: dict[str, Callable[[], Any]] = {}


def imported(module: str) -> Any:
    """Import a module, and what it needs, without garbage collections meanwhile."""
    if module in sys.modules or not gc.isenabled():
        return import_module(module)
    gc.disable()
    try:
        return import_module(module)
    finally:
        if hasattr(gc, "freeze") and not gc.get_freeze_count():  # what the user has frozen stays so
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.enable()


class Names(Mapping[str, Any]):
    """Names of a package and what they stand for, whose modules are imported when they are first used."""

    def __init__(self, homes: Mapping[str, Sequence[str] | Mapping[str, str]]) -> None:
        self._homes: dict[str, tuple[str, str]] = {}
        for home, names in homes.items():
            there = names if isinstance(names, Mapping) else dict(zip(names, names, strict=True))
            self._homes.update({name: (home, known) for name, known in there.items()})
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            home, known = self._homes[name]
            self._loaded[name] = getattr(imported(home), known)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def into(
        self, package: dict[str, Any], missing: Callable[[str], Any] | None = None
    ) -> Callable[[str], Any]:
        def load(name: str) -> Any:
            if name not in self._homes:
                if missing is not None:
                    return missing(name)
                raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
            value = package[name] = self[name]
            return value

        return load


def completed_by(package: str, load: Callable[[], object]) -> None:
    """Have `load` called at the end of the first import of a package."""
    _loaders[package] = load


def complete(package: str) -> None:
    """Load what completes a package; called in its last statement."""
    _loaders[package]()


def offered(name: str, load: Callable[[], Any]) -> None:
    """Make a function available to lower packages."""
    _offers[name] = load


def above(name: str) -> Any:
    """Return a function of an upper package, for a method that calls it."""
    return _offers[name]()


# -- parts of SciPy ---------------------------------------------------------------------------------------

SPECIAL_FUNCTIONS = ("erf", "erfc", "expit", "logit", "xlogy")


def special(name: str) -> Any:
    # Private, but the ufuncs themselves: with SCIPY_ARRAY_API=1 the public names are functions around them.
    return getattr(import_module("scipy.special._ufuncs"), name)


class SpecialFunction:
    """A ufunc of `scipy.special` that is loaded by the first call."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return special(self.__name__)(*args, **kwargs)

    def resolve_dtypes(self, dtypes: Any) -> Any:
        """Return the dtypes of operands and results, as `numpy.ufunc.resolve_dtypes` does."""
        return special(self.__name__).resolve_dtypes(dtypes)


@cache
def scipy_sparse() -> Any:
    return import_module("scipy.sparse")


@cache
def sparsetools() -> Any:
    """Return the loops behind sparse matrices, which write into given arrays; private, too."""
    return import_module("scipy.sparse._sparsetools")


def issparse(x: Any) -> bool:
    """Tell whether x is a sparse matrix or array of SciPy: none is unless SciPy has been loaded."""
    loaded: Any = sys.modules.get("scipy.sparse")
    return loaded is not None and isinstance(x, (loaded.sparray, loaded.spmatrix))


# -- installed packages -----------------------------------------------------------------------------------

DISTRIBUTION = "scikit-neural"  # the name that pip knows; "sknet" belongs to another project there


@cache  # reading what is installed takes milliseconds
def version_of(package: str) -> str | None:
    """Return the version of an installed package; None if there is none, as when run from source."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION if package == "sknet" else package)
    except PackageNotFoundError:
        return None


def installing(extra: str) -> str:
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def optional(module: str, who: str, extra: str) -> Any:
    """Import a module of an optional package; raise an ImportError that says how to install it."""
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{who} needs {package}, which is not installed: {installing(extra)}") from error


class _Available:
    """A method that `hasattr` finds only if a check succeeds."""

    def __init__(self, function: Callable[..., Any], check: Callable[[Any], Any]) -> None:
        self.function, self.check = function, check
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    def __get__(self, owner: Any, cls: type) -> Any:
        if owner is None:
            return self.function
        message = f"This {cls.__name__!r} has no attribute {self.function.__name__!r}"  # as in scikit-learn
        try:
            is_there = self.check(owner)
        except AttributeError as error:
            raise AttributeError(f"{message}: {error}") from error
        if not is_there:
            raise AttributeError(message)
        return MethodType(self.function, owner)


def available_if(check: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator of methods that exist only if a check succeeds."""
    return lambda function: _Available(function, check)


T_co = TypeVar("T_co", covariant=True)


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - named as what it replaces
    """A `functools.cached_property` that takes no lock, which a forked process would find held."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "cached_property[T_co]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T_co: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self.attrname, self.func(instance))


class FieldsAlone:
    """Base of dataclasses whose state, in pickles and files, has no cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}  # type: ignore[attr-defined]
