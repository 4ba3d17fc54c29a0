"""Rewriting a graph: one walk over the equations, each offered to the rules for its primitive."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sknet._late import cached_property
from sknet.compile._graph import Equation, Graph, Operand, Variable, key_of, read_as_laid_out
from sknet.compile._plan import Views
from sknet.core import PRIMITIVES, Primitive

Rule = Any  # a function of the rewriter and an equation, identified by its name
CONSTANT, NUMBER = "constant", "number"  # kinds of operands besides results of primitives


class Rules:
    """Rules by primitive, each with the kinds of operands of which an equation has to read one."""

    def __init__(self, *others: "Rules") -> None:
        self.table: dict[str, list[tuple[Rule, frozenset[str]]]] = {}
        for other in others:
            for name, rules in other.table.items():
                self.table.setdefault(name, []).extend(rules)

    def on(self, *names: str, reads: Iterable[str] = ()) -> Callable[[Rule], Rule]:
        """Register a rule for these primitives, which `reads` restricts to equations with such an operand."""

        def register(rule: Rule) -> Rule:
            for name in names:
                self.table.setdefault(name, []).append((rule, frozenset(reads)))
            return rule

        return register

    def apply_to(self, graph: Graph) -> bool:
        return not self.table.keys().isdisjoint([equation.primitive.name for equation in graph.equations])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(rule.__name__ for rules in self.table.values() for rule, _ in rules)

    def only(self, *names: str) -> "Rules":
        found = Rules()
        for primitive, rules in self.table.items():
            found.table[primitive] = [each for each in rules if each[0].__name__ in names]
        return found


class Rewriter:
    """A graph being rewritten: what is known about every variable, and the equations emitted so far."""

    def __init__(self, graph: Graph, rules: Rules, exact: bool = False) -> None:
        self.constants = dict(graph.constants)
        self.definitions: dict[Variable, Equation] = {}
        self._rules, self._of_all = rules.table, rules.table.get("*", [])
        self._equations: list[Equation] = []
        self._known: dict[Any, Variable] = {}
        self._renamed: dict[Variable, Variable] = {}
        self._uses: dict[Variable, int] = {}
        for equation in graph.equations:
            for x in equation.variables:
                self._uses[x] = self._uses.get(x, 0) + 1
        for x in graph.outputs:
            self._uses[x] = self._uses.get(x, 0) + 1
        self._read_as_laid_out = read_as_laid_out(reversed(graph.equations))
        self._keeps_bits = exact
        self._before = graph.equations
        self._views = Views()
        self._n_viewed = 0

    def run(self, graph: Graph) -> Graph:
        renamed = self._renamed
        for equation in graph.equations:
            output = equation.output
            if not renamed.keys().isdisjoint(equation.variables):
                equation = equation.reading(
                    tuple([renamed.get(x, x) if type(x) is Variable else x for x in equation.operands])
                )
            found = self._add(equation)
            if self._keeps_bits and found is not output and not self._rounds_alike(found, output):
                found = self._appended(equation)
            if found is not output:
                renamed[output] = found
                self._uses[found] = self._uses.get(found, 0) + self._uses.get(output, 0)
        outputs = [renamed.get(x, x) for x in graph.outputs]
        return graph.replaced(constants=self.constants, equations=self._equations, outputs=outputs)

    def emit(self, primitive: Primitive | str, *operands: Operand, **params: Any) -> Variable:
        """Return the result of a primitive, as a new equation or in a simpler way."""
        record = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
        return self._add(Equation(record, operands, params))

    def constant(self, value: np.ndarray) -> Variable:
        if any(value.strides):
            value = np.ascontiguousarray(value)
        key = key_of(value)
        variable = self._known.get(key)
        if variable is None:
            variable = self._known[key] = Variable(value.shape, value.dtype)
            self.constants[variable] = value
        return variable

    def definition(self, x: Operand, name: str) -> Equation | None:
        """Return the equation that computes `x`, if it is of the primitive `name`."""
        found = self.definitions.get(x)
        return found if found is not None and found.primitive.name == name else None

    def is_used_once(self, x: Variable) -> bool:
        """Tell whether only one equation uses `x`, so that `x` is dead once that is rewritten."""
        return self._uses.get(x, 0) <= 1

    def is_read_as_laid_out(self, x: Variable) -> bool:
        """Tell whether a product or sum reads `x` or a view of it; its rounding depends on the strides."""
        return x in self._read_as_laid_out

    def _add(self, equation: Equation) -> Variable:
        kinds = set() if equation.variables else {CONSTANT}
        for x in equation.variables:
            made = self.definitions.get(x)
            if made is not None:
                kinds.add(made.primitive.name)
            elif x in self.constants:
                kinds.add(CONSTANT)
        if len(equation.variables) < len(equation.operands):
            kinds.add(NUMBER)
        for rules in (self._of_all, self._rules.get(equation.primitive.name, ())):
            for rule, reads in rules:
                if reads and reads.isdisjoint(kinds):
                    continue
                found = rule(self, equation)
                if found is not None:
                    return found
        return self._written(equation)

    def _rounds_alike(self, found: Variable, output: Variable) -> bool:
        """Tell whether products and sums round alike if they read a variable in place of another."""
        if output not in self._read_as_laid_out:
            return True
        now, then = self._views_now(), self._views_before
        if now.ghost(found).strides != then.ghost(output).strides:
            return False
        root, others = now.root(found), self._factors.get(output, ())
        return all(now.root(self._renamed.get(x, x)) is not root for x in others)

    def _views_now(self) -> Views:
        for equation in self._equations[self._n_viewed :]:
            self._views.add(equation)
        self._n_viewed = len(self._equations)
        return self._views

    @cached_property
    def _views_before(self) -> Views:
        return Views(self._before)

    @cached_property
    def _factors(self) -> dict[Variable, set[Variable]]:
        """Factors by which each variable is multiplied, directly or as a view."""
        found: dict[Variable, set[Variable]] = {}
        for equation in self._before:
            if equation.primitive is PRIMITIVES["matmul"]:
                x, y = (self._views_before.root(operand) for operand in equation.variables)
                if x is not y:
                    found.setdefault(x, set()).add(y)
                    found.setdefault(y, set()).add(x)
        return found

    def _written(self, equation: Equation) -> Variable:
        """Append an equation unless an identical one exists; return its output."""
        key = equation.form, equation.operands_key({})
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._appended(equation)
        return found

    def _appended(self, equation: Equation) -> Variable:
        self._equations.append(equation)
        self.definitions[equation.output] = equation
        return equation.output


def rewrite(graph: Graph, rules: Rules, exact: bool = False) -> Graph:
    """Return the graph after one walk with some rules; common subexpressions are merged."""
    return Rewriter(graph, rules, exact).run(graph)


def scalar_of(rewriter: Rewriter, x: Operand) -> bool | int | float | None:
    """Return the number that all elements of an operand are known to equal, or None."""
    if type(x) is not Variable:
        return x
    value = rewriter.constants.get(x)
    if value is None or value.size == 0 or (value.size > 1 and any(value.strides)):
        return None
    return value.flat[0].item()
