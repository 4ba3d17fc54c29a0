"""Estimators for raw tables, with measured defaults."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder
    from sknet.tabular._estimators import TabularClassifier, TabularRegressor
    from sknet.tabular._frozen import FrozenTabularClassifier, FrozenTabularRegressor
    from sknet.tabular._members import Members
    from sknet.tabular._training import Member

__all__ = [
    "FrozenTabularClassifier", "FrozenTabularRegressor", "Member", "Members", "TableEncoder",
    "TabularClassifier", "TabularRegressor",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.preprocessing": ("TableEncoder",),
            "sknet.tabular._estimators": ("TabularClassifier", "TabularRegressor"),
            "sknet.tabular._frozen": ("FrozenTabularClassifier", "FrozenTabularRegressor"),
            "sknet.tabular._members": ("Members",),
            "sknet.tabular._training": ("Member",),
        }
    ).into(globals())

__dir__ = __all__.copy
