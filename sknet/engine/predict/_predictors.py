"""The compiled forward passes that one model keeps."""

from typing import TYPE_CHECKING, Any

from sknet.device import device_of
from sknet.engine.predict._predictor import MOST_ROWS, Head, Pass, Predictor
from sknet.engine.state import averaging
from sknet.exceptions import CaptureError
from sknet.nn import run
from sknet.nn.extend import latest

if TYPE_CHECKING:
    from sknet.engine._model import Model
    from sknet.engine.predict._device_predictor import DevicePredictor

__all__ = ["Predictors"]


class Predictors:
    """Compiled forward passes by name, each created on first use; copies and pickles are empty."""

    def __init__(self) -> None:
        self._known: dict[str, Predictor] = {}
        self._on_device: dict[str, DevicePredictor] = {}
        self._given_up: dict[str, object] = {}  # the mark of the settings when a capture failed
        self._seen: set[tuple[str, int]] = set()  # names and numbers of rows

    def has_seen(self, X: Any, name: str, rows: int) -> bool:
        """Tell whether so few rows came before: then a program for them pays, and has the same bits."""
        if (name, rows) not in self._seen:
            return False
        arrays = X.values() if isinstance(X, dict) else (X,)
        return all(x.flags.c_contiguous for x in arrays)

    def see(self, name: str, rows: int) -> None:
        """Note that so few rows came, and were computed at once."""
        self._seen.add((name, rows))

    def of_row(self, model: "Model", X: Any, name: str, head: Head | None) -> Any:
        """Return the result for the only row of a table not checked yet, see `Predictor.of_row`."""
        predictor = self._known.get(name)
        if predictor is None or not predictor.is_for(_parameters(model), head):
            return None
        return predictor.of_row(X)

    def compute(
        self,
        model: "Model",
        X: Any,
        name: str,
        head: Head | None,
        by: Pass = run,
        most_rows: int = MOST_ROWS,
    ) -> Any:
        """Return the result of a pass and a head for some rows."""
        memory, flat = model.memory, _parameters(model)
        predictor = self._known.get(name)
        if predictor is None or not predictor.is_for(flat, head):
            if flat is None or memory.device.kind != "cpu" or self._given_up.get(name) is latest.settings:
                return None
            predictor = Predictor(memory.module, memory.layout, flat, head, most_rows, by)
            self._known[name] = predictor
        try:
            return predictor(X)
        except CaptureError:
            self._known.pop(name, None)
            self._given_up[name] = latest.settings
            return None

    def compute_chunk(self, model: "Model", X: Any, name: str, head: Head | None, by: Pass) -> Any:
        """Return the result of a pass and a head for a chunk of rows on a device that compiles kernels."""
        memory, flat = model.memory, model.memory.flat
        if flat is None or model.optimizer.averaging or self._given_up.get(name) is latest.settings:
            return None
        predictor = self._on_device.get(name)
        if predictor is None or not predictor.is_for(flat, head):
            from sknet.engine.predict._device_predictor import DevicePredictor  # the host does without it

            of = memory.module, memory.layout, flat, head, by, device_of(flat), model.precision
            predictor = DevicePredictor(*of)
            self._on_device[name] = predictor
        try:
            return predictor(X)
        except CaptureError:
            self._on_device.pop(name, None)
            self._given_up[name] = latest.settings
            return None

    def forget(self, flat: Any) -> None:
        """Give back the memory of programs on a device that read these parameters, and the parameters'."""
        for name, predictor in list(self._on_device.items()):
            if predictor.flat is flat:
                self._on_device.pop(name, None)

    def __reduce__(self) -> Any:
        return Predictors, ()


def _parameters(model: "Model") -> Any:
    """Return the parameters that a model predicts with, as one array, or None."""
    optimizer = averaging(model)
    return model.memory.flat if optimizer is None else model.memory.averaged(optimizer)
