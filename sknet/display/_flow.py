"""How data flow through a network or a captured graph: nodes, edges, and places to draw them at."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sknet._tree import leaves
from sknet.compile import Graph, Variable
from sknet.core import Primitive, Tensor
from sknet.nn import Module
from sknet.nn.extend import copy_for_shapes, shadows, shape_pass

__all__ = ["Node", "Routes", "flow_of_graph", "flow_of_module", "placed"]

BEND = "bend"


@dataclass
class Node:
    """A box of the picture."""

    label: str
    shape: str
    kind: str
    sources: list[int] = field(default_factory=list)
    rank: int = 0
    place: float = 0.0


class _Recorder:
    """Records which results each layer or operation takes, in a pass without data."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._made: dict[int, int] = {}  # results by identity, and the nodes that made them
        self._kept: list[Any] = []  # so that no identity is used twice
        self._running: list[int] = []  # layers that are running, by the numbers of their nodes

    def add(self, label: str, kind: str) -> int:
        self.nodes.append(Node(label, "", kind))
        return len(self.nodes) - 1

    def made(self, number: int, tree: Any) -> None:
        """Note what a node has made."""
        arrays = [x.data if isinstance(x, Tensor) else x for x in leaves(tree)]
        arrays = [x for x in arrays if hasattr(x, "shape")]
        for array in arrays:
            self._made[id(array)] = number
            self._kept.append(array)
        if arrays:
            self.nodes[number].shape = _shape(arrays[0].shape)

    def taken(self, number: int, tree: Any) -> None:
        """Note what a node takes."""
        for x in leaves(tree):
            source = self._made.get(id(x.data if isinstance(x, Tensor) else x))
            if source is not None and source != number and source not in self.nodes[number].sources:
                self.nodes[number].sources.append(source)

    def seen(self, primitive: Primitive, operands: list[Any], result: Any) -> None:
        """Note an operation; those of a layer belong to it."""
        number = self._running[-1] if self._running else self.add(primitive.name, "operation")
        self.taken(number, operands)
        self._made[id(result)] = number
        self._kept.append(result)
        if not self._running:
            self.made(number, result)

    def enter(self, label: str, args: Any) -> None:
        self._running.append(self.add(label, "layer"))
        self.taken(self._running[-1], args)

    def leave(self, output: Any) -> None:
        self.made(self._running.pop(), output)


def flow_of_module(
    module: Module, *inputs: Any, dtype: Any = "float32", training: bool = False
) -> list[Node]:
    """Return how data flow through the layers of a module; nothing is computed, and it is not changed."""
    twin, recorder = copy_for_shapes(module), _Recorder()
    for _, each in twin.named_modules():
        if not any(True for _ in each.named_children()):
            label = f"{type(each).__name__}({each.extra_repr()})"
            each.register_forward_pre_hook(lambda _, args, label=label: recorder.enter(label, args))
            each.register_forward_hook(lambda _, args, output: recorder.leave(output))
    given = tuple(shadows(x, dtype, recorder.seen) for x in inputs)
    for x in given:
        recorder.made(recorder.add("input", "input"), x)
    result = shape_pass(twin, given, training, recorder.seen)
    last = recorder.add("output", "output")
    recorder.taken(last, result)
    recorder.nodes[last].shape = _shape(leaves(result)[0].shape)
    return _reaching(recorder.nodes)


def flow_of_graph(graph: Graph) -> list[Node]:
    """Return the operations of a captured graph, with its inputs and outputs; constants are not shown."""
    names = graph.names()
    nodes: list[Node] = []
    numbers: dict[Any, int] = {}
    for variable in graph.inputs:
        numbers[variable] = len(nodes)
        nodes.append(Node(names[variable], _shape(variable.shape), "input"))
    for equation in graph.equations:
        sources = [numbers[x] for x in equation.operands if isinstance(x, Variable) and x in numbers]
        numbers[equation.output] = len(nodes)
        nodes.append(
            Node(
                equation.primitive.name,
                _shape(equation.output.shape),
                "operation",
                list(dict.fromkeys(sources)),
            )
        )
    for variable in graph.outputs:
        sources = [numbers[variable]] if variable in numbers else []
        nodes.append(Node("output", _shape(variable.shape), "output", sources))
    return nodes


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) if len(shape) else "scalar"


def _reaching(nodes: list[Node]) -> list[Node]:
    """Return the nodes that outputs depend on, and all inputs, renumbered."""
    wanted, waiting = set(), [number for number, node in enumerate(nodes) if node.kind == "output"]
    while waiting:
        number = waiting.pop()
        if number not in wanted:
            wanted.add(number)
            waiting += nodes[number].sources
    kept = [number for number, node in enumerate(nodes) if number in wanted or node.kind == "input"]
    new = {number: place for place, number in enumerate(kept)}
    for number in kept:
        nodes[number].sources = [new[source] for source in nodes[number].sources]
    return [nodes[number] for number in kept]


Routes = dict[tuple[int, int], list[tuple[float, int]]]


def placed(nodes: list[Node]) -> Routes:
    """Give each node a rank and a place in its row, near those that it is connected with."""
    _rank(nodes)
    points, chains = list(nodes), {}
    above: dict[int, list[int]] = {number: [] for number in range(len(nodes))}
    for number, node in enumerate(nodes):
        for source in node.sources:
            chain = [source]
            for rank in range(nodes[source].rank + 1, node.rank):
                points.append(Node("", "", BEND, rank=rank))
                above[len(points) - 1] = [chain[-1]]
                chain.append(len(points) - 1)
            above[number].append(chain[-1])
            chains[source, number] = chain[1:]
    below: dict[int, list[int]] = {}
    for number, sources in above.items():
        for source in sources:
            below.setdefault(source, []).append(number)
    rows = list(_rows(points))
    for sweep in range(8):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _settle(points, row, above if down else below)
    return {edge: [(points[n].place, points[n].rank) for n in chain] for edge, chain in chains.items()}


def _rank(nodes: list[Node]) -> None:
    """Put each node one row below the lowest of its sources, and inputs near their first use."""
    takers: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        node.rank = 1 + max((nodes[source].rank for source in node.sources), default=-1)
        for source in node.sources:
            takers.setdefault(source, []).append(number)
    for number, node in enumerate(nodes):
        if not node.sources and takers.get(number):
            node.rank = min(nodes[taker].rank for taker in takers[number]) - 1


def _rows(points: list[Node]) -> Iterator[list[int]]:
    for rank in range(1 + max((point.rank for point in points), default=-1)):
        row = [number for number, point in enumerate(points) if point.rank == rank]
        for place, number in enumerate(row):
            points[number].place = place - (len(row) - 1) / 2
        yield row


def _settle(points: list[Node], row: list[int], near: dict[int, list[int]]) -> None:
    """Move the points of a row towards the mean place of their neighbours; boxes stay apart."""

    def wanted(number: int) -> float:
        places = [points[each].place for each in near.get(number, ())]
        return sum(places) / len(places) if places else points[number].place

    targets = {number: wanted(number) for number in row}
    order = sorted(row, key=lambda number: targets[number])
    places: dict[int, float] = {}
    last = None
    for number in order:
        least = -math.inf if last is None else places[last] + _half(points[last]) + _half(points[number])
        places[number], last = max(targets[number], least), number
    heavy = [number for number in order if points[number].kind != BEND] or order
    shift = sum(targets[number] - places[number] for number in heavy) / len(heavy) if heavy else 0.0
    for number, place in places.items():
        points[number].place = place + shift


def _half(point: Node) -> float:
    """Return half of the width that a point needs, in boxes."""
    return 0.12 if point.kind == BEND else 0.5
