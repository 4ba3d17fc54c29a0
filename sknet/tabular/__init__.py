"""Estimators for tables as they are, with defaults that were measured."""

from sknet.preprocessing import TableEncoder
from sknet.tabular._classifier import TabularClassifier
from sknet.tabular._members import Members
from sknet.tabular._regressor import TabularRegressor
from sknet.tabular._training import Member

__all__ = ["Member", "Members", "TableEncoder", "TabularClassifier", "TabularRegressor"]
