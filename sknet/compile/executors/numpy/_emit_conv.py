"""Convolutions with a bias: one call, which adds it while images are in the cache."""

from collections import Counter
from functools import partial

from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._group import Finish, Group
from sknet.compile.executors._writer import Writer
from sknet.device import backend

__all__ = ["emit_biased", "with_biases"]


def with_biases(graph: Graph, groups: list[Group]) -> list[Group]:
    """Join each convolution with the sum of its result and a number for each filter."""
    if all(equation.primitive.name != "conv" for equation in graph.equations):
        return groups  # as most, whose plans take a part of a short fit
    reads = Counter([*graph.outputs, *[x for equation in graph.equations for x in equation.variables]])
    made = {e.output: e for e in graph.equations if e.primitive.name == "conv" and reads[e.output] == 1}
    joined: dict[Equation, Equation] = {}
    for group in groups:
        last = group.equations[0]
        if len(group.equations) == 1 and last.primitive.name == "add":
            product = made.get(last.operands[0])
            if product is not None and _is_bias(last):
                joined[last] = product
    gone = set(joined.values())
    return [
        _joined(joined[group.equations[0]], group.equations[0]) if group.equations[0] in joined else group
        for group in groups
        if group.equations[0] not in gone
    ]


def _is_bias(equation: Equation) -> bool:
    images, numbers = equation.operands
    return (
        type(numbers) is Variable
        and numbers.dtype == images.dtype
        and numbers.shape == (images.shape[1], 1, 1)
        and images.shape == equation.output.shape
    )


def _joined(product: Equation, last: Equation) -> Group:
    finish = Finish(product, last.output, ("bias",), last.operands[1])
    return Group([product, last], 0, fused=True, finish=finish)


def emit_biased(w: Writer, finish: Finish) -> None:
    """Add the call of a convolution with its bias."""
    equation = finish.product
    name = w.partial(partial(equation.primitive.forward_on(backend("cpu")), **equation.params), "conv")
    scratch = tuple([w.scratch(equation, i) for i in range(len(w.plan.scratch[equation]))])
    out = w.name(finish.output)
    w.call(name, *w.operands(equation), bias=w.name(finish.vector), scratch=scratch, out=out)
