"""Displays: pictures of fits, weights, gradients, learning rates, networks, intervals and attributions.

They follow scikit-learn's displays: ``from_estimator`` computes what is shown and draws it, ``plot`` draws it
again, and the fitted attributes ``ax_`` and ``figure_`` are matplotlib's. They need the extra ``plot``.
"""

from sknet.display._attributions import AttributionDisplay
from sknet.display._gradients import GradientDisplay
from sknet.display._graph import GraphDisplay
from sknet.display._history import LossCurveDisplay
from sknet.display._intervals import IntervalDisplay
from sknet.display._rates import LearningRateDisplay
from sknet.display._weights import WeightsDisplay

__all__ = [
    "AttributionDisplay",
    "GradientDisplay",
    "GraphDisplay",
    "IntervalDisplay",
    "LearningRateDisplay",
    "LossCurveDisplay",
    "WeightsDisplay",
]
