"""What names in code font may mean: public names, parameters and attributes, and names of other libraries."""

import builtins
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from docs import reference

__all__ = ["NOT_LINKED", "is_known", "others", "paths", "short_names", "words_of_page"]

NOT_LINKED = ("joblib.parallel_config", "sklearn.callback")  # of libraries whose sites are not linked
INVENTORIES = Path(__file__).parents[1] / "inventories"


@cache
def short_names() -> dict[str, str]:
    """Map names as prose writes them (``Linear``, ``nn.Linear``) to public ones, unless ambiguous."""
    found: dict[str, list[str]] = {}
    for module, names in reference.entries().items():
        for name in names:
            parts = [*module.split("."), name]
            for start in range(len(parts)):
                short = ".".join(parts[start:])
                found.setdefault(short, []).append(f"{module}.{name}")
    shortest = {short: sorted(paths, key=depth) for short, paths in found.items()}
    return {
        short: first
        for short, (first, *others) in shortest.items()
        if not others or depth(first) < depth(others[0])
    }


def depth(path: str) -> int:
    """Return how many parts a name has."""
    return path.count(".")


def paths(target: str) -> Iterator[str]:
    """Yield the full names that may be meant; of a member that has no place of its own, that of its class."""
    yield target
    known = short_names()
    if target in known:
        yield known[target]
    owner, _, member = target.rpartition(".")
    path = known.get(owner, owner)
    if member in words_of(path):
        yield f"{path}.{member}"
        yield path


SPOKEN_OF = ("sknet.MLPClassifier", "sknet.MLPRegressor", "sknet.callbacks.Callback")  # on all pages
FIELD = re.compile(r"^ *(\*{0,2}\w[\w, *]*?) : ", re.MULTILINE)  # a parameter or an attribute in a docstring


@cache
def words_of(path: str) -> frozenset[str]:
    """Return the words that single backquotes may hold in a docstring: parameters, attributes and members."""
    module, _, name = path.rpartition(".")
    value = reference.entries().get(module, {}).get(name)
    if isinstance(value, type):
        return words_in([value]).union(dir(value), *map(words_of_members, value.__mro__))
    return words_in([value])


@cache
def words_of_members(base: type) -> frozenset[str]:
    """Return the words of what a class itself defines."""
    return words_in(getattr(member, "__func__", member) for member in vars(base).values())


def words_in(members: Iterable[object]) -> frozenset[str]:
    """Return the names of parameters, in signatures and in docstrings."""
    words: set[str] = set()
    for member in members:
        fields = ",".join(FIELD.findall(inspect.getdoc(member) or ""))
        words |= {name.strip(" *") for name in fields.split(",")}
        try:
            words |= set(inspect.signature(member).parameters)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return frozenset(words)


@cache
def words_of_page(page: str) -> frozenset[str]:
    """Return the words that a page of the reference may hold: of its module's names, and of estimators."""
    name = page.removeprefix("api/").removeprefix("names/")
    module = name if name in reference.entries() else name.rpartition(".")[0]
    known = [f"{module}.{name}" for name in reference.entries().get(module, {})]
    return frozenset(reference.entries().get(module, {})).union(*map(words_of, (*known, *SPOKEN_OF)))


@cache
def described() -> frozenset[str]:
    """Return the full names of everything that has a page."""
    names = {f"{module}.{name}" for module, found in reference.entries().items() for name in found}
    return frozenset(names.union(reference.entries()))


@cache
def others() -> frozenset[str]:
    """Return the names of other libraries that are linked."""
    lines = [line for path in INVENTORIES.glob("*.inv") for line in path.read_text().splitlines()]
    return frozenset(line.split()[0] for line in lines if not line.startswith("#"))


def is_known(name: str, page: str) -> bool:
    """Tell whether a page of the reference may hold a name in single backquotes; the build warns of others.

    >>> is_known("nn.Linear", "api/sknet.nn"), is_known("nn.Linaer", "api/sknet.nn")
    (True, False)
    """
    bare = name.removesuffix("=").removesuffix("()")
    module = page.removeprefix("api/names/").rpartition(".")[0]
    meant = {*paths(bare), *paths(f"{module}.{bare}")}
    if bare in words_of_page(page) or not described().isdisjoint(meant):
        return True
    if bare in others() or bare in NOT_LINKED or hasattr(builtins, bare):
        return True
    return bare[:1].isupper() and sum(other.endswith(f".{bare}") for other in others()) == 1
