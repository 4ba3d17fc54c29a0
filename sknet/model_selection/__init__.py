"""Searches whose candidates continue training instead of starting again, and share fitted steps."""

from sknet.model_selection._exhaustive import GridSearchCV, RandomizedSearchCV
from sknet.model_selection._halving import HalvingGridSearchCV, HalvingRandomSearchCV
from sknet.model_selection._hyperband import HyperbandSearchCV

__all__ = [
    "GridSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "HyperbandSearchCV",
    "RandomizedSearchCV",
]
