"""Method of `Model` for predictions of all rows at once."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core import Tensor, no_grad
from sknet.engine.predict._overflow import warn_of_overflow
from sknet.engine.state import each_input

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["predict"]


def predict(self: "Model", X: Any) -> Any:
    """Return predictions: probabilities or means, by the loss's inverse link.

    Parameters
    ----------
    X : array, sparse matrix or Tensor of shape (n_samples, ...)
        Inputs.

    Returns
    -------
    array of shape (n_samples, n_outputs)
        On the model's device.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 3), loss="log_loss", random_state=0)
    >>> model.predict(np.eye(2)).sum(axis=1).round(3)
    array([1., 1.], dtype=float32)
    """
    with no_grad(), np.errstate(all="ignore"):
        found = self.loss_function.predict(self(X, training=False)).data
        given = each_input(lambda x: x.data if isinstance(x, Tensor) else x, X)
        warn_of_overflow(found, given, "the model")
    return found
