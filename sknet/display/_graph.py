"""Networks and captured graphs as pictures, drawn without other programs."""

import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Self

from sknet._params import described_by, named_errors
from sknet._tree import leaves
from sknet.compile import Graph, Variable
from sknet.core import Primitive, Tensor
from sknet.display._base import Display, as_label, described, network_of
from sknet.nn import Module, summary
from sknet.nn._lazy import copy_for_shapes, shadows, shape_pass

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
        arrays = [x.data if isinstance(x, Tensor) else x for x in leaves(tree)]
        arrays = [x for x in arrays if hasattr(x, "shape")]
        for array in arrays:
            self._made[id(array)] = number
            self._kept.append(array)
        if arrays:
            self.nodes[number].shape = _shape(arrays[0].shape)

    def taken(self, number: int, tree: Any) -> None:
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
    """Return the flow of data through the layers of a module, without computing or changing it."""
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


COLORS = {"input": "#3b82c4", "layer": "#e08a1e", "operation": "#8a8f98", "output": "#3b82c4"}
Point = tuple[float, float]
HEIGHT, GAP, MARGIN, LETTER = 40, 28, 12, 6.6  # of the boxes of an SVG, in pixels


@described
class GraphDisplay(Display):
    """Flow of data through a module, layer by layer, or a captured graph, operation by operation.

    In notebooks it is shown as SVG, which `to_svg` returns; `plot` draws it with matplotlib. Graphviz is not
    needed.

    Parameters
    ----------
    nodes : list of Node
        The boxes, sources before the boxes that use them, as made by `from_module`, `from_graph` and
        `from_estimator`.

    Attributes
    ----------
    boxes_ : list of matplotlib Text
        The boxes, in the order of the nodes.
    arrows_ : list of matplotlib FancyArrowPatch
        The arrows.

    Examples
    --------
    >>> from sknet import nn
    >>> from sknet.display import GraphDisplay
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> display = GraphDisplay.from_module(network, (1, 4))
    >>> [node.label for node in display.nodes]
    ['input', 'Linear(4, 8)', 'ReLU()', 'Linear(8, 3)', 'output']
    >>> display.to_svg()[:4]
    '<svg'
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self._routes = placed(nodes)

    @classmethod
    @named_errors
    @described_by(summary)
    def from_module(
        cls, module: Module, *inputs: Any, dtype: Any = "float32", training: bool = False
    ) -> Self:
        """Create a display of the data flow through a module, without computing values.

        Returns
        -------
        display
            The display, not drawn yet. Boxes are layers, and operations between them.

        Raises
        ------
        ShapeError
            If the inputs do not fit.
        DeviceError
            If the forward pass depends on values.
        """
        return cls(flow_of_module(module, *inputs, dtype=dtype, training=training))

    @classmethod
    @named_errors
    def from_graph(cls, graph: Graph) -> Self:
        """Create a display of the operations of a captured graph.

        Parameters
        ----------
        graph : Graph
            The result of `sknet.compile.capture`, or ``compiled_step_.gradient.graph`` of an estimator.

        Returns
        -------
        display
            The display, not drawn yet.
        """
        return cls(flow_of_graph(graph))

    @classmethod
    @named_errors
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the network of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            An estimator fitted on arrays, or a Pipeline that ends with one.
        """
        network = network_of(estimator)
        return cls.from_module(network.model_.module, (1, network.n_features_in_)).plot(ax, **kwargs)

    @named_errors
    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw boxes and arrows.

        Parameters
        ----------
        **kwargs : dict
            Passed to matplotlib's ``text`` for the boxes.
        """
        ax = self._axes(ax)
        self.boxes_, self.arrows_ = [], []
        for node in self.nodes:
            frame = {
                "boxstyle": "round",
                "facecolor": "white",
                "edgecolor": COLORS[node.kind],
                "linewidth": 1.5,
            }
            style = {
                "ha": "center",
                "va": "center",
                "fontsize": 8,
                "bbox": frame,
                "zorder": 3,
                "color": "black",
            }
            text = as_label(f"{node.label}\n{node.shape}")
            self.boxes_.append(ax.text(node.place, -node.rank, text, **{**style, **kwargs}))
        patches = import_module("matplotlib.patches")
        for edge in self._routes:
            path = _path(self._stations(edge, lambda place, rank, side: (place, -rank - side * 0.3)))
            arrow = patches.FancyArrowPatch(
                path=path, arrowstyle="-|>", color="0.5", mutation_scale=9, zorder=1
            )
            self.arrows_.append(ax.add_patch(arrow))
        bends = [place for route in self._routes.values() for place, _ in route]
        places, ranks = [node.place for node in self.nodes] + bends, [node.rank for node in self.nodes]
        ax.set(xlim=(min(places) - 0.8, max(places) + 0.8), ylim=(-max(ranks) - 0.6, 0.6))
        ax.axis("off")
        return self

    def to_svg(self) -> str:
        """Return the picture as SVG, whose text and arrows take the colour of the page's text.

        Returns
        -------
        str
            The element ``<svg>``.
        """
        width = max(len(text) for node in self.nodes for text in (node.label, node.shape)) * LETTER + 20
        bends = [place for route in self._routes.values() for place, _ in route]
        left = min([node.place for node in self.nodes] + [place + 0.4 for place in bends])

        def at(place: float, rank: int, side: int) -> Point:
            x = MARGIN + width / 2 + (place - left) * (width + GAP)
            return x, MARGIN + HEIGHT / 2 + rank * (HEIGHT + GAP) + side * HEIGHT / 2

        centers = [at(node.place, node.rank, 0) for node in self.nodes]
        right = max([x + width / 2 for x, _ in centers] + [at(place, 0, 0)[0] for place in bends])
        size = (right + MARGIN, max(y for _, y in centers) + HEIGHT / 2 + MARGIN)
        parts = [*self._svg_arrows(at), *self._svg_boxes(centers, width)]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" '
            f'width="{size[0]:.0f}" height="{size[1]:.0f}" role="img" aria-label="flow of data" '
            f'style="max-width:100%;height:auto" font-family="system-ui, sans-serif" font-size="11">'
            '<defs><marker id="sknet-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor" opacity=".6"/>'
            "</marker></defs>"
            f"{''.join(parts)}</svg>"
        )

    def _stations(self, edge: tuple[int, int], at: Callable[[float, int, int], Point]) -> list[Point]:
        """Return the points where an edge begins and ends, and enters and leaves each row in between."""
        source, taker = (self.nodes[number] for number in edge)
        found = [at(source.place, source.rank, 1)]
        for place, rank in self._routes[edge]:
            found += [at(place, rank, -1), at(place, rank, 1)]
        return [*found, at(taker.place, taker.rank, -1)]

    def _svg_arrows(self, at: Callable[[float, int, int], Point]) -> Iterator[str]:
        for edge in self._routes:
            (x, y), *stations = self._stations(edge, at)
            steps = [f"M{x:.1f} {y:.1f}"]
            for number, (x1, y1) in enumerate(stations):
                middle = (y + y1) / 2
                curve = f"C{x:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
                steps.append(curve if number % 2 == 0 else f"V{y1:.1f}")
                x, y = x1, y1
            yield (
                f'<path d="{"".join(steps)}" fill="none" stroke="currentColor" opacity=".6" '
                'marker-end="url(#sknet-arrow)"/>'
            )

    def _svg_boxes(self, centers: list[tuple[float, float]], width: float) -> Iterator[str]:
        for (x, y), node in zip(centers, self.nodes, strict=True):
            color = COLORS[node.kind]
            yield (
                f'<g><rect x="{x - width / 2:.1f}" y="{y - HEIGHT / 2:.1f}" '
                f'width="{width:.1f}" height="{HEIGHT}" '
                f'rx="6" fill="{color}" fill-opacity=".15" stroke="{color}"/>'
                f'<text x="{x:.1f}" y="{y - 3:.1f}" text-anchor="middle" fill="currentColor">'
                f"{html.escape(node.label)}</text>"
                f'<text x="{x:.1f}" y="{y + 12:.1f}" text-anchor="middle" fill="currentColor" opacity=".7">'
                f"{html.escape(node.shape)}</text></g>"
            )

    def _repr_html_(self) -> str:
        """Return the picture for notebooks: inside the page, whose colour it takes."""
        return self.to_svg()


def _path(stations: Sequence[Point]) -> Any:
    """Return a path of matplotlib through these points: a curve to each row, and a line through it."""
    path = import_module("matplotlib.path").Path
    vertices, codes = [stations[0]], [path.MOVETO]
    for number, (x, y) in enumerate(stations[1:]):
        x0, y0 = vertices[-1]
        if number % 2:
            vertices.append((x, y))
            codes.append(path.LINETO)
        else:
            vertices += [(x0, (y0 + y) / 2), (x, (y0 + y) / 2), (x, y)]
            codes += [path.CURVE4] * 3
    return path(vertices, codes)
