"""An estimator whose fit is under way, as scorers see it."""

from typing import Any

from sknet.device import to_host
from sknet.engine import Model
from sknet.engine.extend import Head, apply_head
from sknet.estimators._encoded import Encoded

__all__ = ["in_training"]


def in_training(estimator: Any, model: Model, inputs: Any, outputs: Any) -> Any:
    """Return an estimator that predicts as if the fit ended now."""
    view = object.__new__(type(estimator))
    view.__dict__.update(estimator.__dict__)
    view.__dict__.pop("temperature_", None)  # of the fit before
    view.__dict__.pop("feature_names_in_", None)  # scorers get arrays, of columns that have been checked
    if isinstance(view._inputs, Encoded):  # and of encoded rows
        view._inputs, view.n_features_in_ = None, view._inputs.encoder.n_features_out_
    view.model_ = model
    view._take_targets()
    known: dict[tuple[str, Head | None], Any] = {}

    def predicted(X: Any, name: str = "raw", head: Head | None = None) -> Any:
        if X is not inputs:
            return type(view)._predicted(view, X, name, head)
        if (name, head) not in known:
            known[name, head] = to_host(apply_head(head, outputs))
        return known[name, head]

    view._predicted = predicted
    return view
