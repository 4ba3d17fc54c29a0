"""Summaries of fitted estimators, as a table or in HTML."""

import copy
import html
import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sknet.engine import History, Model
from sknet.engine._layer_outputs import output_shapes
from sknet.estimators._scaling import InputScaling
from sknet.losses._wrappers import inside
from sknet.nn import Module, Sequential

WIDTH, HEIGHT, LEFT, BOTTOM = 360, 130, 46, 18
# Middle tones, which are legible on white and on black; everything else has the colour of the page's text.
COLORS = {"loss": "#3b82c4", "validation_loss": "#e08a1e", "smooth loss": "#3b82c4", "sharp loss": "#c4567a"}
STYLE = """\
.sknet { color: var(--jp-ui-font-color1, var(--vscode-editor-foreground, inherit)); margin: .6em 0;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif); font-size: .9em; max-width: 58em; }
.sknet details { border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: .4em;
  padding: .4em .8em; overflow-x: auto; }
.sknet summary { cursor: pointer; font-weight: 600; }
.sknet .parts { display: flex; flex-wrap: wrap; gap: .2em 2em; align-items: flex-start; }
.sknet table { border-collapse: collapse; margin: .5em 0; background: none;
  font-size: inherit; }
.sknet tr, .sknet tr:nth-child(even) { background: none !important; }
.sknet th, .sknet td { border: 0; padding: .15em .9em .15em 0; text-align: left !important; color: inherit;
  white-space: pre; font-variant-numeric: tabular-nums; }
.sknet td:first-child { white-space: pre-wrap; }
.sknet th { border-bottom: 1px solid color-mix(in srgb, currentColor 40%, transparent); }
.sknet td:nth-child(3), .sknet th:nth-child(3) { text-align: right !important; padding-right: 0; }
.sknet dl { margin: .3em 0; display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; }
.sknet dt { opacity: .7; font-weight: 400; white-space: nowrap; float: none; width: auto; }
.sknet dd { margin: 0; overflow-wrap: anywhere; }
.sknet svg { max-width: 100%; height: auto; margin: .5em 0; }
.sknet svg text { fill: currentColor; font-size: 10px; }"""


def html_of(
    title: str,
    table: Sequence[tuple[str, str, str]],
    lines: Mapping[str, str],
    history: Mapping[str, Sequence[float]],
    best_epoch: int | None,
) -> str:
    escape = html.escape
    head = "".join(f"<th>{name}</th>" for name in ("layer", "output shape", "parameters"))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table)
    said = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines.items())
    return (
        f'<style>{STYLE}</style><div class="sknet"><details open="">'
        f"<summary>Network of {escape(title)}</summary>"
        f'<div class="parts"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"{curve(history, best_epoch)}</div><dl>{said}</dl></details></div>"
    )


def curve(history: Mapping[str, Sequence[float]], best_epoch: int | None) -> str:
    """Return the losses of a fit as an SVG picture; nothing for less than two epochs."""
    losses = {name: history[name] for name in COLORS if name in history}
    finite = [value for column in losses.values() for value in column if math.isfinite(value)]
    epochs = max(map(len, losses.values()), default=0)
    if epochs < 2 or not finite:
        return ""
    low, high = min(finite), max(finite)
    span = high - low or 1.0

    def x(epoch: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (epoch - 1) / (epochs - 1)

    def y(value: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (high - value) / span

    parts = [
        f'<path d="M{LEFT} 8V{HEIGHT - BOTTOM}H{WIDTH - 8}" fill="none" stroke="currentColor" opacity=".4"/>',
        f'<text x="{LEFT - 4}" y="12" text-anchor="end">{high:.3g}</text>',
        f'<text x="{LEFT - 4}" y="{HEIGHT - BOTTOM}" text-anchor="end">{low:.3g}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 5}">1</text>',
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 5}" text-anchor="end">epoch {epochs}</text>',
    ]
    if best_epoch:
        best = f"{x(best_epoch):.1f}"
        parts.append(
            f'<path d="M{best} 8V{HEIGHT - BOTTOM}" stroke="currentColor" stroke-dasharray="3 3" '
            f'opacity=".6"><title>best epoch {best_epoch}</title></path>'
        )
    for place, (name, column) in enumerate(losses.items()):
        points = [
            (x(epoch), y(value)) if math.isfinite(value) else None for epoch, value in enumerate(column, 1)
        ]
        parts.append(
            f'<path d="{"".join(_steps(points))}" fill="none" stroke="{COLORS[name]}" stroke-width="1.8"/>'
        )
        label = f'<text x="{WIDTH - 14}" y="{18 + 13 * place}" text-anchor="end" style="fill:{COLORS[name]}">'
        parts.append(f"{label}{name.replace('_', ' ')}</text>")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="loss by epoch">{"".join(parts)}</svg>'
    )


def _steps(points: Sequence[tuple[float, float] | None]) -> Iterator[str]:
    """Yield the commands of a path through the points, with a gap at each None."""
    pen = "M"
    for point in points:
        if point is not None:
            yield f"{pen}{point[0]:.1f} {point[1]:.1f}"
        pen = "M" if point is None else "L"


LONGEST = 60  # characters of a layer's arguments


class LayerRow(NamedTuple):
    """One layer of an estimator's network.

    Attributes
    ----------
    path : str
        Path of the layer in the network, "" for the network itself.
    text : str
        Class of the layer, with the arguments if it has no inner layers.
    output_shape : tuple of int or None
        Shape of the output for one row; None if it is not known.
    parameters : int
        Number of elements of the layer's own parameters; shared ones are counted at their first occurrence.
    trained : int
        Number of these elements that are trained, not frozen.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPClassifier
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> clf = MLPClassifier((2,), tol=1e9, n_iter_no_change=1, random_state=0).fit(X, X[:, 0] > 3)
    >>> row = clf.summary().layers[0]
    >>> row.text, row.output_shape, row.parameters
    ('Linear(1, 2)', (2,), 4)
    """

    path: str
    text: str
    output_shape: tuple[int, ...] | None
    parameters: int
    trained: int


@dataclass(frozen=True)
class EstimatorSummary:
    """Summary of a fitted estimator; prints as a table, and is shown with the loss curve in notebooks.

    Attributes
    ----------
    title : str
        Class of the estimator.
    layers : list of LayerRow
        The layers, parents before children.
    loss, optimizer : str
        Loss and optimizer with all their values.
    facts : dict of str to str
        Other facts of the fit: number of epochs, best epoch, precision and device.
    history : History
        Metrics of each epoch; for tabular ensembles, mean losses of each kind of members.
    best_epoch : int or None
        The epoch whose weights were restored.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPClassifier
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> clf = MLPClassifier((2,), tol=1e9, n_iter_no_change=1, random_state=0).fit(X, X[:, 0] > 3)
    >>> summary = clf.summary()
    >>> summary.total_parameters, summary.table()[0]
    (7, ('(0): Linear(1, 2)', '(n, 2)', '4'))
    """

    title: str
    layers: list[LayerRow]
    loss: str
    optimizer: str
    facts: dict[str, str]
    history: History
    best_epoch: int | None

    @property
    def total_parameters(self) -> int:
        """Number of elements of all parameters."""
        return sum(row.parameters for row in self.layers)

    @property
    def trained_parameters(self) -> int:
        """Number of elements of the parameters that are trained, not frozen."""
        return sum(row.trained for row in self.layers)

    def table(self) -> list[tuple[str, str, str]]:
        """Return layer, output shape and number of parameters of each row as strings."""
        return [(_label(row), _shape(row.output_shape), f"{row.parameters:,}") for row in self.layers]

    def lines(self) -> dict[str, str]:
        """Return the lines below the table, by their names."""
        total, trained = self.total_parameters, self.trained_parameters
        counted = f"{total:,}" if total == trained else f"{total:,}, of which {trained:,} are trained"
        return {"parameters": counted, "loss": self.loss, "optimizer": self.optimizer, **self.facts}

    def __str__(self) -> str:
        rows = [("layer", "output shape", "parameters"), *self.table()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        text = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        rule = "-" * len(text[0])
        said = (f"{name}: {value}" for name, value in self.lines().items())
        return "\n".join([self.title, rule, text[0], rule, *text[1:], rule, *said])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self.title, self.table(), self.lines(), self.history, self.best_epoch)


class Summarized(BaseEstimator):
    """Methods that show the network of a fitted estimator."""

    model_: Model
    history_: History
    best_epoch_: int | None
    _input_scaling: InputScaling | None
    _of_networks = "model_"  # the attribute without which there is nothing to show

    def summary(self) -> EstimatorSummary:
        """Return a table of the fitted network: layers, output shapes, parameters, loss and optimizer.

        Shapes follow from the weights, or from a forward pass that computes only shapes; a network whose code
        depends on values is run on a row of zeros. For a tabular ensemble, the table has the layers of the
        first network of each kind, with the parameters of all.

        Returns
        -------
        EstimatorSummary
            Prints as a table, and is shown with the loss curve in notebooks; its attributes hold the values.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sknet import MLPClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> print(MLPClassifier((8,), lr=0.01, tol=0.01, random_state=0).fit(X, y).summary())
        MLPClassifier
        -------------------------------------------
        layer              output shape  parameters
        -------------------------------------------
        (0): Linear(4, 8)  (n, 8)                40 (1): ReLU()        (n, 8)                 0
        (2): Linear(8, 3)  (n, 3)                27
        -------------------------------------------
        parameters: 67 loss: LogLoss(multilabel=False, label_smoothing=0.0) optimizer: Adam(lr=0.01,
        beta1=0.9, beta2=0.999, eps=1e-08) inputs: standardized by the training rows epochs: 44 last epoch:
        loss 0.4453, score 0.8867 computes in: float64 on cpu
        """
        check_is_fitted(self)
        return self._summary()

    def _summary(self) -> EstimatorSummary:
        model, history = self.model_, self.history_
        shapes = self._output_shapes()
        return EstimatorSummary(
            type(self).__name__,
            list(summary_rows(model.module, shapes)),
            with_values(inside(model.loss_function)[0]),
            with_values(model.optimizer),
            dict(self._facts()),
            history,
            self.best_epoch_,
        )

    def _output_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the layers' outputs for one row; none if the network does not run."""
        try:
            return output_shapes(self.model_, self._example())
        except Exception:  # the code of a user's network, which may have changed since the fit
            return {}

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield what is known of the fit."""
        said, epochs = inside(self.model_.loss_function)[1], self.history_.n_epochs
        targets = said.pop("targets", None)
        yield from said.items()
        encoder = getattr(self, "encoder_", None)
        if encoder is not None and encoder.notes:
            yield "read as", "; ".join(encoder.notes)
        if self._input_scaling is not None:
            yield "inputs", "standardized by the training rows"
        if targets is not None:
            yield "targets", targets
        if epochs:
            best = "" if self.best_epoch_ is None else f", best {self.best_epoch_}"
            yield "epochs", f"{epochs}{best}"
            ended = {name: column[-1] for name, column in self.history_.items() if name not in ("lr", "time")}
            yield "last epoch", ", ".join(f"{name} {value:.4g}" for name, value in ended.items())
        model = self.model_
        # On the CPU products have the precision of arrays.
        precision = model.dtype if model.device.kind == "cpu" else model.precision
        yield "computes in", f"{precision} on {model.device}"

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, and below it the network if there is one."""
        drawn: Any = self
        if hasattr(self, "predict"):  # the columns of `transform` are not what it returns
            drawn = copy.copy(self)
            vars(drawn)["get_feature_names_out"] = None  # called for the panel of output features
        diagram = str(super(Summarized, drawn)._html_repr())
        return diagram + self._summary()._repr_html_() if self._of_networks in self.__dict__ else diagram


def summary_rows(network: Module, shapes: dict[str, tuple[int, ...]]) -> Iterator[LayerRow]:
    """Yield a row for each module of a network; a `Sequential` around everything says nothing."""
    owned: dict[str, list[Any]] = {}
    for name, parameter in network.named_parameters():
        owned.setdefault(name.rpartition(".")[0], []).append(parameter)
    for path, module in network.named_modules():
        own = owned.get(path, [])
        inside = any(True for _ in module.named_children())
        if path or own or not (inside and type(module) is Sequential):
            sizes = [(int(parameter.size), bool(parameter.requires_grad)) for parameter in own]
            total, trained = sum(size for size, _ in sizes), sum(size for size, is_free in sizes if is_free)
            yield LayerRow(path, _text(module, inside), shapes.get(path), total, trained)


def _text(module: Module, inside: bool) -> str:
    """Return the class of a module, and its arguments if it has no others inside."""
    if inside:
        return type(module).__name__
    arguments = re.sub(r"\s+", " ", module.extra_repr())
    shown = arguments if len(arguments) <= LONGEST else f"{arguments[: LONGEST - 3]}..."
    return f"{type(module).__name__}({shown})"


def _label(row: LayerRow) -> str:
    """Return the name of a layer, indented by its depth, and what it is."""
    name = row.path.rpartition(".")[2]
    return "  " * row.path.count(".") + (f"({name}): {row.text}" if name else row.text)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "-" if shape is None else f"({', '.join(map(str, ('n', *shape)))}{'' if shape else ','})"


def with_values(part: Any) -> str:
    """Return a loss or an optimizer with its parameters, those that have their defaults included."""
    values = part.get_params(deep=False)
    order = [name for name in inspect.signature(type(part)).parameters if values.get(name) is not None]
    said = f"{type(part).__name__}({', '.join(f'{name}={values[name]!r}' for name in order)})"
    return re.sub(r"\s+", " ", said)
