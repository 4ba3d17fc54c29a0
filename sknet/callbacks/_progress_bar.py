"""A progress bar for fits."""

import time
from collections.abc import Mapping
from typing import Any

from sknet.callbacks._callback import Callback
from sknet.callbacks._optional import optional
from sknet.callbacks._view import FitView

__all__ = ["ProgressBar", "shared_bar"]

FORMAT = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
PAUSE = 0.1  # seconds between updates of the bar's text
NOT_SHOWN = ("lr", "time")


class ProgressBar(Callback):
    """Show epochs, loss, scores and the remaining time: a line in a terminal, a widget in a notebook.

    ``verbose="bar"`` is this bar. It needs tqdm: ``pip install 'sknet[progress]'``. In joblib workers, for
    example in a search with ``n_jobs=2``, it is silent.

    Parameters
    ----------
    description : str or None, default=None
        Text before the number of the epoch.
    leave : bool, default=True
        Whether the bar stays when the fit has ended.

    Examples
    --------
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import ProgressBar
    >>> clf = MLPClassifier(callbacks=[ProgressBar("digits")])
    """

    order = 1
    may_warn = False
    _parameter_constraints = {"description": [str, None], "leave": ["boolean"]}
    _bar: Any = None
    _stored_fields = {
        "_shown": float,
        "_bar": None,
    }

    def __init__(self, description: str | None = None, *, leave: bool = True) -> None:
        self.description = description
        self.leave = leave

    def on_fit_begin(self, fit: FitView) -> None:
        total = fit.max_epochs * fit.batches.n_batches
        self._shown = 0.0
        self._bar = shared_bar(total, self._described(0, fit), leave=self.leave)

    def on_block_end(self, fit: FitView) -> None:
        if self._bar is not None:
            self._bar.update(fit.step - self._bar.n)

    def on_epoch_end(self, fit: FitView) -> None:
        if self._bar is None:
            return
        now = time.monotonic()
        if now - self._shown > PAUSE:
            self._shown = now
            self._say(fit)
        # Batches of zero weight are not steps.
        self._bar.update(fit.epoch * fit.batches.n_batches - self._bar.n)

    def on_fit_end(self, fit: FitView) -> None:
        if self._bar is not None:
            bar, self._bar = self._bar, None
            try:
                if fit.epoch:
                    bar.set_description_str(self._described(fit.epoch, fit), refresh=False)
                    bar.set_postfix(_numbers(fit.record), refresh=True)
            finally:
                bar.close()

    def _say(self, fit: FitView) -> None:
        self._bar.set_description_str(self._described(fit.epoch, fit), refresh=False)
        self._bar.set_postfix(_numbers(fit.record), refresh=False)

    def _described(self, epoch: int, fit: FitView) -> str:
        before = "" if self.description is None else f"{self.description}: "
        return f"{before}epoch {epoch}/{fit.max_epochs}"


def shared_bar(total: float, description: str, *, leave: bool = True) -> Any:
    """Return a bar, such as one that several fits move together."""
    if _is_in_worker():
        return None
    tqdm = optional("tqdm.auto", "ProgressBar", "progress").tqdm
    return tqdm(total=total, desc=description, leave=leave, bar_format=FORMAT, mininterval=PAUSE)


def _numbers(record: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{value:.4f}" for name, value in record.items() if name not in NOT_SHOWN}


def _is_in_worker() -> bool:
    """Tell whether this runs in a parallel joblib worker."""
    from joblib.parallel import get_active_backend

    return bool((get_active_backend()[0].nesting_level or 0) > 0)
