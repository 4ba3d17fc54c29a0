"""Passes over the graph for precisions of products that the library alone does not give."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sknet.compile import _graph as own
from sknet.compile._graph import Equation, Graph, Operand, Variable
from sknet.compile._plan import Views
from sknet.compile.cuda._maps import is_map
from sknet.compile.cuda._reductions import is_reduction
from sknet.core import PRIMITIVES, Primitive
from sknet.device import Form, form_of

# Memory bounds products with fewer rows, columns or terms, and launches those with fewer multiplications.
LEAST_SIZE, LEAST_PRODUCTS = 32, 1 << 24


def is_product(equation: Equation) -> bool:
    is_matrix = [x.dtype == "float32" and x.ndim > 1 for x in equation.variables]
    return equation.primitive.name == "matmul" and all(is_matrix)


def is_large(equation: Equation) -> bool:
    """Tell whether an equation is such a product that is neither small nor narrow."""
    if not is_product(equation):
        return False
    x, y = equation.variables[0], equation.variables[-1]
    rows = x.size // max(x.shape[-1], 1) if y.ndim == 2 else x.shape[-2]
    sizes = rows, x.shape[-1], y.shape[-1]
    return min(sizes) >= LEAST_SIZE and equation.output.size * x.shape[-1] >= LEAST_PRODUCTS


# -- float32 by three products in TF32, nearly as exact as one in float32 ----------------------
# A factor is the sum of its leading bits, which TF32 holds, and of a rest, of which TF32 holds all but the
# last bit. The product of two rests, at most 2**-22 of that of the factors, is left out. The equations that
# split an array join the kernel that writes it; the smallest product comes first, and is a term of the next
# one.


def with_split_products(graph: Graph) -> tuple[Graph, set[Equation]]:
    """Return a graph whose large products of float32 are three products each, and these products."""
    splits = _Splits()
    for equation in graph.equations:
        splits.add(equation)
    return graph.replaced(equations=splits.equations), splits.products


class _Splits:
    """The equations so far, and the parts of arrays that are split."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.products: set[Equation] = set()
        self._parts: dict[Operand, tuple[Variable, Variable]] = {}
        self._transposes: dict[Operand, Equation] = {}

    def add(self, equation: Equation) -> None:
        """Add an equation of the graph, as several if it is a large product."""
        if is_large(equation):
            self._multiply(equation)
            return
        if equation.primitive.name == "permute_dims":
            self._transposes[equation.output] = equation
        self.equations.append(equation)

    def _multiply(self, equation: Equation) -> None:
        (x, x_rest), (y, y_rest) = map(self._split, equation.operands)
        rest = self._product(x_rest, y)
        rest = self._write(own.axpy, self._product(x, y_rest), rest, 1.0)
        whole = self._product(x, y)
        self.equations.append(Equation(own.axpy, (whole, rest, 1.0), {}, equation.output))

    def _product(self, x: Variable, y: Variable) -> Variable:
        found = self._write(PRIMITIVES["matmul"], x, y)
        self.products.add(self.equations[-1])
        return found

    def _split(self, x: Operand) -> tuple[Variable, Variable]:
        """Return the leading bits of an array and the rest; of a transpose, those of what is transposed."""
        if x not in self._parts:
            transpose = self._transposes.get(x)
            if transpose is None:
                leading = self._write(own.leading, x)
                self._parts[x] = leading, self._write(PRIMITIVES["subtract"], x, leading)
            else:
                of, rest = self._split(transpose.operands[0])
                how = transpose.primitive
                self._parts[x] = (
                    self._write(how, of, **transpose.params),
                    self._write(how, rest, **transpose.params),
                )
        return self._parts[x]

    def _write(self, primitive: Primitive, *operands: Operand, **params: object) -> Variable:
        self.equations.append(Equation(primitive, operands, params))
        return self.equations[-1].output


# -- arrays between products in bfloat16, in half the memory -----------------------------------
# The factors of all products are stored with 8 bits of exponent and 7 of the fraction, and so is what
# kernels make of a product on its way to the next one. An input may be given so. Everything else is float32:
# other inputs, of which products have copies, with them parameters and moments; losses; gradients of
# parameters; totals; and all computation.


class Halves(NamedTuple):
    """A graph, its products of arrays in bfloat16, and these arrays, each with what it is a copy of."""

    graph: Graph
    products: frozenset[Equation]
    arrays: Mapping[Variable, Variable]


def with_halves(graph: Graph, takes: Callable[[Form, Sequence[str]], bool]) -> Halves:
    """Return a graph of products of bfloat16, if one is large and a library has them."""
    views = Views(graph.equations)

    def is_taken(equation: Equation) -> bool:
        [x, y] = [equation.variables[0], equation.variables[-1]]
        form = form_of(*map(views.ghost, (x, y, equation.output)))
        return form is not None and all(takes(each, ()) for each in form.in_halves())

    products = [e for e in graph.equations if is_product(e) and not views.is_view(e) and is_taken(e)]
    if not any(map(is_large, products)):
        return Halves(graph, frozenset(), {})
    found = _Halves(graph, products)
    return found.result()


class _Halves:
    """The equations so far, and the arrays that are stored in bfloat16."""

    def __init__(self, graph: Graph, products: list[Equation]) -> None:
        self._graph, self._products = graph, set(products)
        self._views = Views(graph.equations)
        self._users: dict[Variable, list[Equation]] = {}
        self._made = {e.output: e for e in graph.equations}
        for equation in graph.equations:
            for x in dict.fromkeys(equation.variables):
                self._users.setdefault(x, []).append(equation)
        self._equations: list[Equation] = []
        self._copies: dict[Operand, Variable] = {}
        self._copied: dict[Variable, Variable] = {}
        factors = {self._views.root(x) for e in products for x in e.variables}
        widened = [e for e in graph.equations if e.primitive is own.widened]
        self._given = {e.output: e.operands[0] for e in widened if self._is_factor(e.output)}
        self._arrays = {x for x in factors if x in self._given or self._is_apt(x)}
        for equation in products:
            self._arrays |= self._between(equation.output)

    def result(self) -> Halves:
        """Return the graph in which products read such arrays."""
        taken = set[Equation]()
        for equation in self._graph.equations:
            if equation.output in self._given:
                continue
            if equation in self._products:
                equation = equation.reading(tuple(self._half(x) for x in equation.operands))
                taken.add(equation)
            elif equation.primitive.name == "add" and equation.output in self._arrays:
                equation = equation.reading(tuple(self._bias(x, equation.output) for x in equation.operands))
            self._equations.append(equation)
        given = {of: x for x, of in self._given.items()}
        inputs = [given.get(x, x) for x in self._graph.inputs]
        graph = self._graph.replaced(inputs=inputs, equations=self._equations)
        return Halves(graph, frozenset(taken), {x: x for x in self._arrays} | self._copied)

    def _is_factor(self, x: Variable) -> bool:
        """Tell whether products alone read an array, and views of it."""
        users = self._users.get(x, [])
        is_inner = x not in self._graph.outputs
        return is_inner and all(
            e in self._products or (self._views.is_view(e) and self._is_factor(e.output)) for e in users
        )

    def _is_apt(self, x: Variable) -> bool:
        """Tell whether kernels and products alone make and read an array, and views of it."""
        made = self._made.get(x)
        if made is None or x in self._graph.outputs or not (made in self._products or self._is_kernel(made)):
            return False
        return x.dtype == "float32" and all(self._is_reader(e) for e in self._users.get(x, []))

    def _is_reader(self, equation: Equation) -> bool:
        if self._views.is_view(equation):
            readers = self._users.get(equation.output, [])
            return equation.output not in self._graph.outputs and all(map(self._is_reader, readers))
        return equation in self._products or self._is_kernel(equation)

    def _is_kernel(self, equation: Equation) -> bool:
        return is_map(equation) or is_reduction(equation)

    def _between(self, x: Variable) -> set[Variable]:
        """Return a product and what maps make of it, if all of that ends in factors; otherwise nothing."""
        found, waiting = set[Variable](), [x]
        while waiting:
            x = waiting.pop()
            if x in found or x in self._arrays:
                continue
            if not self._is_apt(x):
                return set()
            found.add(x)
            for equation in self._users.get(x, []):
                if equation in self._products or self._views.is_view(equation):
                    continue
                if equation.output.shape != x.shape or not is_map(equation):
                    return set()
                if equation.output.dtype == x.dtype:  # and not a mask
                    waiting.append(equation.output)
        return found

    def _half(self, x: Operand) -> Variable:
        """Return an array in bfloat16; a view as the same view of the whole."""
        root = self._views.root(x)
        if root in self._arrays:
            return x
        if x not in self._copies:
            made = self._made.get(x)
            if made is not None and self._views.is_view(made):
                of = self._half(made.operands[0])
                self._copies[x] = self._write(made.primitive, of, **made.params)
            else:
                self._copies[x] = self._write(own.copy, x)
            self._copied[self._copies[x]] = x
        return self._copies[x]

    def _bias(self, x: Operand, result: Variable) -> Operand:
        """Return an operand of a sum: of a bias, the copy in bfloat16, if there is one of all parameters."""
        if type(x) is not Variable or x.shape == result.shape or self._views.root(x) not in self._copies:
            return x
        return self._half(x)

    def _write(self, primitive: Primitive, *operands: Operand, **params: object) -> Variable:
        self._equations.append(Equation(primitive, operands, params))
        return self._equations[-1].output
