"""Searches and cross-validation in threads; candidates continue training and share fitted steps."""

from sknet.estimators._head_scoring import head_scorer, target_scorer
from sknet.model_selection._cross_validation import cross_val_predict, cross_val_score, cross_validate
from sknet.model_selection._halving import HalvingGridSearchCV, HalvingRandomSearchCV, HyperbandSearchCV
from sknet.model_selection._indexable import indexable
from sknet.model_selection._search import GridSearchCV, RandomizedSearchCV

__all__ = [
    "GridSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV", "HyperbandSearchCV", "RandomizedSearchCV",
    "cross_val_predict", "cross_val_score", "cross_validate", "head_scorer", "indexable", "target_scorer",
]  # fmt: skip

__dir__ = __all__.copy
