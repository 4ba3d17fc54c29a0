"""What an ensemble computes: encodings of a table, all members as one network, and its outputs."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sknet import nn, ops
from sknet.core import Tensor
from sknet.estimators.extend import Computation, outputs_of
from sknet.tabular._base import BaseTabular
from sknet.tabular._blending import Blend, spans_of
from sknet.tabular._frozen import FrozenTabular

__all__ = ["ensemble_computation", "is_ensemble"]


def is_ensemble(model: Any) -> bool:
    """Tell whether `ensemble_computation` knows what a model computes."""
    return isinstance(model, (BaseTabular, FrozenTabular))


def ensemble_computation(ensemble: Any, *, raw_scores: bool = False) -> Computation:
    """Return what an ensemble computes."""
    if not isinstance(ensemble, FrozenTabular):
        check_is_fitted(ensemble)
        ensemble = ensemble.freeze()
    members = ensemble._members
    encoders, spans = spans_of(members)
    module = Blend(members, spans).eval()
    outputs, labels = outputs_of(ensemble, raw_scores)
    if "variable" in outputs:
        head, (lowest, highest) = outputs["variable"], ensemble._bounds

        def clipped(output: Tensor) -> Tensor:
            found = head(output)
            bounds = [np.asarray(bound, found.dtype) for bound in (lowest, highest)]
            return ops.minimum(ops.maximum(found, Tensor(bounds[0])), Tensor(bounds[1]))

        outputs = {"variable": clipped}
    width = sum(encoder.n_features_out_ for encoder in encoders)
    inputs = {"X": np.zeros((1, width), np.float32)}
    return Computation(module, nn.run, inputs, False, outputs, labels, encoders)
