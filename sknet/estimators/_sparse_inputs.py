"""Whether a network can read the inputs that are given to it as sparse matrices."""

from typing import Any

from sknet import ops
from sknet.device import active, to_device
from sknet.engine import Model
from sknet.engine.extend import each_input, predict_raw

__all__ = ["check_sparse_inputs"]


def check_sparse_inputs(model: Model, X: Any, dtypes: Any) -> None:
    """Raise a TypeError that names an input which the network reads as an array only."""

    def placed(x: Any, dtype: Any) -> Any:
        return to_device(x[:1].astype(dtype), model.device)

    row = each_input(placed, X, dtypes)
    named = row if isinstance(row, dict) else {"X": row}
    dense = {
        name: to_device(x.toarray(), model.device) if ops.is_sparse(x) else x for name, x in named.items()
    }
    for name in filter(lambda name: ops.is_sparse(named[name]), named):
        error = _error(model, {**dense, name: named[name]}, row)
        if error is not None and _error(model, dense, row) is None:
            raise TypeError(
                f"the network cannot read input {name!r} as a sparse matrix: {error}. Only a product, as in "
                f"nn.Linear, reads one; give {name!r} as an array, .toarray()"
            ) from error


def _error(model: Model, named: dict[str, Any], row: Any) -> Exception | None:
    """Return what the network says of some inputs."""
    try:
        with active(model.device, model.precision):
            predict_raw(model, named if isinstance(row, dict) else named["X"])
    except Exception as error:
        return error
    return None
