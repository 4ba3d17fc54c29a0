"""Data-dependent initialization: layers are shown data before the model's first step."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sknet.device import active
from sknet.engine.state import arguments, each_input, n_rows
from sknet.nn.extend import latest, rows_to_see, see_data, takes_data

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["show_batch", "show_rows"]


def show_batch(model: "Model", X: Any) -> None:
    """Show a batch to the layers of a model that wait for data, if there are any."""
    # Layers are searched only once, and again after the structure has changed.
    if model.memory.shown is not latest.structure:
        show_rows(model, n_rows(X), lambda chosen: X if chosen is None else _taken(X, chosen))


def show_rows(model: "Model", n_rows: int, take: Callable[[Any], Any]) -> None:
    """Show some rows of a data set to the layers of a model that wait for data, if there are any."""
    memory = model.memory
    mark, layers = memory.take_data
    if mark is not latest.structure:
        mark, layers = latest.structure, [each for each in memory.module.modules() if takes_data(each)]
        memory.take_data = mark, layers
    if any(layer.awaits_data for layer in layers):
        with active(memory.device):
            source = model.random_state
            before = source.get_state(legacy=False)
            try:
                chosen = rows_to_see(memory.module, n_rows, source)
                see_data(memory.module, arguments(take(chosen)), source)
            except Exception:
                source.set_state(before)
                raise
        memory.note_written("data that layers begin with")
    memory.shown = latest.structure


def _taken(X: Any, chosen: Any) -> Any:
    return each_input(lambda x: x[chosen], X)
