"""Compiled functions cached by a key of their structure, so that they need not be captured again."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from sknet._parallel import Lock
from sknet._tree import named_leaves
from sknet.compile._compile import Prepared, compile, forget_plans, prepared
from sknet.compile._compiled import Compiled, Takes
from sknet.compile._key import key_of
from sknet.device import device_of, is_array, product_precision
from sknet.ops import SparseSlot

__all__ = ["forget_programs", "recalled"]

Tree = Any
KEPT = 256  # functions; most share a program


class Known(NamedTuple):
    """A function that was captured before."""

    made: Prepared
    places: tuple[int, ...]
    takes: Takes | None


# Functions by key; None for one whose key also includes its random stream.
_known: OrderedDict[Hashable, Known | None] = OrderedDict()
_lock = Lock()


def recalled(
    structure: Hashable | None,
    function: Callable[..., Any],
    args: tuple[Tree, ...],
    *,
    stream: tuple[int, int] | None = None,
    donate: Iterable[int] = (),
    exact: bool = False,
    slots: Tree = None,
) -> Compiled:
    """Compile a function, or reuse the program of one that does the same operations."""
    if structure is None:
        return compile(function, args, donate=donate, exact=exact, slots=slots)
    named, donate = named_leaves(args), tuple(donate)
    sparse = [leaf for _, leaf in named if isinstance(leaf, SparseSlot)]
    forms = tuple([(path, _form(leaf)) for path, leaf in named])
    key: Hashable = structure, donate, exact, product_precision(), forms
    found = _find(key, stream)
    if found is not None:
        matrices = [sparse[place] for place in found.places]
        return found.made.bound(args if found.takes is None else found.takes, slots, matrices)
    made, takes = prepared(function, args, donate, exact), None if sparse else Takes(args)
    if all(matrix in sparse for matrix in made.matrices):
        places = tuple([sparse.index(matrix) for matrix in made.matrices])
        _keep(key, stream, Known(made._replace(matrices=()), places, takes))
    return made.bound(args if takes is None else takes, slots, made.matrices)


def _find(key: Hashable, stream: Hashable) -> Known | None:
    with _lock:
        for each in (key, (key, stream)):
            if each in _known:
                _known.move_to_end(each)
                if (found := _known[each]) is not None:
                    return found
    return None


def _keep(key: Hashable, stream: Hashable, known: Known) -> None:
    with _lock:
        if known.made.draws:
            _known[key], key = None, (key, stream)
        _known[key] = known
        while len(_known) > KEPT:
            _known.popitem(last=False)


def _form(leaf: Any) -> Hashable:
    """Return everything about an argument that a program depends on."""
    if isinstance(leaf, SparseSlot):
        return leaf.key
    if is_array(leaf):
        return leaf.shape, leaf.dtype, device_of(leaf)
    return key_of(leaf)


def forget_programs() -> None:
    """Clear all cached programs, so that functions are captured and planned again."""
    with _lock:
        _known.clear()
    forget_plans()
