"""Products that a device's library finishes: bias, ReLU, the sums of a factor, and a further term.

Each part is a record that says which equation it stands for. What a product can take is the longest chain of
parts that its equations match and the library has.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._plan import Finish, Views
from sknet.device import HALVES, Form, form_of

# -- values that a graph checks ---------------------------------------------------------------
# If one of them is not finite, a comparison with infinity is false.


# A result of these is not finite if any element of an operand is not: 0 times infinity or NaN is NaN.
SPREADING = (
    "abs", "add", "assemble", "axpy", "matmul", "multiply", "permute_dims", "reshape", "square", "subtract",
    "sum", "sum_squares",
)  # fmt: skip


def guarded_variables(graph: Graph, members: int | None = None) -> set[Variable]:
    """Return the values of a graph of which it sees whether they are finite."""
    shapes = ((), (members,))
    absolute = {e.output for e in graph.equations if e.primitive.name == "abs" and e.output.shape in shapes}
    seen: set[Variable] = set()
    for equation in reversed(graph.equations):
        if _is_check(equation, absolute) or (equation.output in seen and _spreads(equation)):
            seen.update(equation.variables)
    for equation in graph.equations:
        if equation.primitive.view is not None and equation.operands[0] in seen:
            seen.add(equation.output)
    return seen


def _spreads(equation: Equation) -> bool:
    return equation.primitive.name in SPREADING or equation.params.get("of_all") is True


def _is_check(equation: Equation, absolute: set[Variable]) -> bool:
    """Tell whether an absolute value is compared with infinity."""
    x, most = (*equation.operands, None, None)[:2]
    return equation.primitive.name == "less" and x in absolute and most == math.inf


# -- chains of parts --------------------------------------------------------------------------


NO_HALVES: Mapping[Variable, Variable] = MappingProxyType({})
# The longest come first. Others of the library are passes of their own, slower than kernels.
CHAINS: tuple[tuple[str, ...], ...] = ("bias", "relu"), ("relu",), ("bias",), ("sums of y",), ()
WITH_TERM = (), ("sums of y",)
ALIGNMENT = 16  # bytes, of vectors from member to member


class _Chain(NamedTuple):
    """Parts of a product's launch that are known, one by one."""

    finish: Finish
    equations: tuple[Equation, ...]

    @property
    def result(self) -> Variable:
        return self.finish.output

    def plus(self, equation: Equation, **changed: Any) -> "_Chain":
        return _Chain(self.finish._replace(**changed), (*self.equations, equation))

    def of_parts(self, parts: tuple[str, ...]) -> "_Chain":
        return _Chain(self.finish._replace(parts=parts), self.equations)


def epilogues(
    graph: Graph,
    takes: Callable[[Form, Sequence[str]], bool],
    halves: Mapping[Variable, Variable] = NO_HALVES,
) -> dict[Equation, _Chain]:
    """Return what launches of products compute besides the product."""
    return _Products(graph, takes, halves).all()


class _Products:
    """The products of a graph, in order."""

    def __init__(
        self, graph: Graph, takes: Callable[[Form, Sequence[str]], bool], halves: Mapping[Variable, Variable]
    ) -> None:
        self._graph, self._takes, self._halves = graph, takes, halves
        self._views = Views(graph.equations, halves)
        self._guarded: dict[int | None, set[Variable]] = {}  # by the number of members
        self._taken: set[Equation] = set()
        self._users: dict[Variable, list[Equation]] = {}
        self._time: dict[Variable, int] = {}  # when it is known; of an input, never asked
        for time, equation in enumerate(graph.equations):
            self._time[equation.output] = time
            for x in dict.fromkeys(equation.variables):
                self._users.setdefault(x, []).append(equation)

    def all(self) -> dict[Equation, _Chain]:
        """Return all that have more than the product."""
        found = {}
        for equation in self._graph.equations:
            chain = self._chain(equation) if equation.primitive.name == "matmul" else None
            if chain is not None and len(chain.equations) > 1:
                found[equation] = chain
                self._taken.update(chain.equations)
                self._time.update((e.output, self._time[equation.output]) for e in chain.equations)
        return found

    def _chain(self, product: Equation) -> _Chain | None:
        x, y, out = [*product.variables, product.output]
        is_plain = x.ndim == y.ndim in (2, 3) and not self._views.is_view(product)
        form = self._form(x, y, out) if is_plain else None
        if form is None or form.number != math.prod(out.shape[:-2]):  # several can be one of more rows
            return None
        alone = _Chain(Finish(product, out), (product,))
        with_term = _with_term(alone, self)
        for parts in CHAINS:
            chain: _Chain | None = with_term if parts in WITH_TERM else alone
            for part in parts:
                chain = chain and PARTS[part](chain, self)
            ended = None if chain is None else self._form(x, y, chain.result)
            if chain is not None and ended is not None and self._takes(ended, parts):
                return chain.of_parts(parts)
        return None

    def _form(self, x: Variable, y: Variable, out: Variable) -> Form | None:
        form = form_of(*map(self._views.ghost, (x, y, out)))
        is_half = form is not None and self._views.dtype(x) != x.dtype
        return form.in_precision(HALVES) if form is not None and is_half else form

    # -- what parts ask -----------------------------------------------------------------------

    def only_user(self, x: Variable, name: str) -> Equation | None:
        """Return the only equation that uses a value, if it has a name."""
        users = self._users.get(x, [])
        is_only = len(users) == 1 and x not in self._graph.outputs
        return users[0] if is_only and users[0].primitive.name == name else None

    def users(self, x: Variable, name: str) -> list[Equation]:
        """Return the equations of a name that use a value, and that no launch computes yet."""
        return [e for e in self._users.get(x, []) if e.primitive.name == name and e not in self._taken]

    def is_known(self, x: Variable, product: Equation) -> bool:
        """Tell whether a value is there when a product begins; a view is, as soon as its array is."""
        return self._time.get(self._views.root(x), -1) < self._time[product.output]

    def is_late(self, x: Variable, product: Equation) -> bool:
        """Tell whether a value is used only after a product."""
        return all(self._time[e.output] > self._time[product.output] for e in self._users.get(x, []))

    def is_row(self, x: object, result: Variable) -> bool:
        """Tell whether an operand is added to each row of a result."""
        if result.ndim == 2:
            return type(x) is Variable and x.shape == result.shape[1:] and self.is_like(x, result)
        if type(x) is not Variable or x.shape != (result.shape[0], 1, result.shape[-1]):
            return False
        ghost = self._views.ghost(x)
        stride, _, step = ghost.strides
        return x.dtype == result.dtype and step == ghost.itemsize and stride % ALIGNMENT == 0

    def is_like(self, x: Variable, result: Variable) -> bool:
        return x.dtype == result.dtype and self._views.is_contiguous(x)

    def is_stored_like(self, x: Variable, result: Variable) -> bool:
        """Tell whether both are stored in bfloat16, or neither."""
        return self._views.dtype(x) == self._views.dtype(result)

    def guards_nan(self, *operands: Variable | None) -> bool:
        """Tell whether something checks that values are finite: the library's ReLU makes 0 of NaN."""
        known = [x for x in operands if x is not None]
        members = known[0].shape[0] if known[0].ndim == 3 else None
        if members not in self._guarded:
            self._guarded[members] = guarded_variables(self._graph, members)
        return all({x, self._halves.get(x, x)} & self._guarded[members] for x in known)

    def sums(self, x: Variable) -> list[Equation]:
        """Return the equations that add the rows of a matrix, or of each of several."""
        if x.ndim == 3 and x.shape[-1] * x.dtype.itemsize % ALIGNMENT:
            return []
        return [
            e
            for e in self.users(x, "sum")
            if tuple(axis % x.ndim for axis in e.params["axis"]) == (x.ndim - 2,) and not e.params["keepdims"]
        ]


# -- parts ------------------------------------------------------------------------------------

Part = Callable[[_Chain, _Products], _Chain | None]


def _with_term(chain: _Chain, of: _Products) -> _Chain:
    """Take in that a number of times another matrix is added."""
    equation = of.only_user(chain.result, "axpy")
    if equation is None:
        return chain
    x, term, factor = equation.operands
    fits = x is chain.result and type(term) is Variable and type(factor) is not Variable
    if (
        not fits
        or term.shape != x.shape
        or not of.is_like(term, x)
        or not of.is_known(term, chain.equations[0])
        or not of.is_stored_like(term, equation.output)
    ):
        return chain
    return chain.plus(equation, output=equation.output, term=term, factor=float(factor))


def _bias(chain: _Chain, of: _Products) -> _Chain | None:
    equation = of.only_user(chain.result, "add")
    if equation is None:
        return None
    [vector, *others] = [x for x in equation.operands if x is not chain.result] or [None, None]
    if others or not of.is_row(vector, chain.result) or not of.is_known(vector, chain.equations[0]):
        return None
    if not of.is_stored_like(vector, equation.output):
        return None
    return chain.plus(equation, output=equation.output, vector=vector)


def _relu(chain: _Chain, of: _Products) -> _Chain | None:
    equation = of.only_user(chain.result, "relu")
    if equation is None or not of.guards_nan(*chain.equations[0].variables, chain.finish.vector):
        return None
    return chain.plus(equation, output=equation.output)


def _sums_of_y(chain: _Chain, of: _Products) -> _Chain | None:
    product = chain.equations[0]
    y = product.variables[1]
    for equation in of.sums(y) if y.shape[:-2] == product.output.shape[:-2] else ():
        if of.is_like(y, product.output) and of.is_late(equation.output, product):
            return chain.plus(equation, vector=equation.output)
    return None


PARTS: dict[str, Part] = {"bias": _bias, "relu": _relu, "sums of y": _sums_of_y}
