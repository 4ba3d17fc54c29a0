"""Searches over parameters in which networks go on training instead of starting again."""

from sknet.model_selection._halving import HalvingGridSearchCV, HalvingRandomSearchCV
from sknet.model_selection._hyperband import HyperbandSearchCV

__all__ = ["HalvingGridSearchCV", "HalvingRandomSearchCV", "HyperbandSearchCV"]
