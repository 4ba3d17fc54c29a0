"""Displays: plots of fits, weights, gradients, learning rates, networks, intervals and attributions.

They follow scikit-learn's displays: ``from_estimator`` computes a display and draws it, ``plot`` draws it
again, and the attributes ``ax_`` and ``figure_`` are matplotlib's. They need the extra ``plot``.
"""

from sknet.display._graph import GraphDisplay
from sknet.display._predictions import AttributionDisplay, IntervalDisplay
from sknet.display._training import LearningRateDisplay, LossCurveDisplay
from sknet.display._weights import GradientDisplay, WeightsDisplay

__all__ = [
    "AttributionDisplay", "GradientDisplay", "GraphDisplay", "IntervalDisplay", "LearningRateDisplay",
    "LossCurveDisplay", "WeightsDisplay",
]  # fmt: skip

__dir__ = __all__.copy
