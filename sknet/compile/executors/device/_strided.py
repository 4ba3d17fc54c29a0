"""Operands of products in an order that one strided product of BLAS reads."""

from collections.abc import Callable, Iterator

from sknet.compile import _internal as own
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._views import Views
from sknet.device import form_of

__all__ = ["with_strided_products"]


def with_strided_products(graph: Graph) -> Graph:
    """Return a graph in which operands of products are copied where a product would copy them."""
    views, equations, copies = Views(graph.equations), [], dict[Variable, Variable]()
    for equation in graph.equations:
        copied = list(COPIED.get(equation.primitive.name, _none)(views, equation))
        if copied:
            for x in copied:
                if x not in copies:
                    copy = Equation(own.copy, (x,), {})
                    equations.append(copy)
                    copies[x] = copy.output
            operands = tuple(copies[x] if x in copied else x for x in equation.operands)
            equation = Equation(equation.primitive, operands, equation.params, equation.output)
        equations.append(equation)
    return graph.replaced(equations=equations) if copies else graph


def _is_refused(views: Views, equation: Equation) -> bool:
    x, y = equation.variables
    if not (x.dtype == y.dtype == equation.output.dtype and x.size and y.size):
        return False  # copies would not help
    return form_of(views.ghost(x), views.ghost(y), views.ghost(equation.output)) is None


def _of_product(views: Views, equation: Equation) -> Iterator[Variable]:
    """Yield operands to copy: the second, if that is enough, or all that are not contiguous."""
    if not _is_refused(views, equation):
        return
    x, y = equation.variables
    is_alone = views.is_contiguous(x) or (
        not views.is_contiguous(y) and form_of(views.ghost(x), *map(Views().ghost, (y, equation.output)))
    )
    if not is_alone:
        yield x
    if not views.is_contiguous(y):
        yield y


def _of_recurrence(views: Views, equation: Equation) -> Iterator[Variable]:
    """Yield what is not contiguous."""
    yield from (x for x in equation.variables if not views.is_contiguous(x))


def _none(views: Views, equation: Equation) -> Iterator[Variable]:
    yield from ()


COPIED: dict[str, Callable[[Views, Equation], Iterator[Variable]]] = {
    "matmul": _of_product,
    "recurrence_outputs": _of_recurrence,
    "recurrence_tape": _of_recurrence,
    "recurrence_gradient": _of_recurrence,
}
