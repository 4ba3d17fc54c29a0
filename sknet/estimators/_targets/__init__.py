"""Targets: what a user calls them, encoded for the loss, and what outputs mean, decoded.

An encoder is made of the targets of a first fit, and serves those that continue it.
"""

from sknet.estimators._targets._arrays import ArrayTargets
from sknet.estimators._targets._base import ClassEncoder
from sknet.estimators._targets._classes import ClassTargets
from sknet.estimators._targets._columns import ColumnTargets
from sknet.estimators._targets._label_losses import (
    check_columns,
    counted_labels,
    label_weights,
    refuse_ignored,
)
from sknet.estimators._targets._ordered import OrderedTargets
from sknet.estimators._targets._positions import PositionTargets
from sknet.estimators._targets._real import RealTargets
from sknet.estimators._targets._tempered import tempered

__all__ = [
    "ArrayTargets",
    "ClassEncoder",
    "ClassTargets",
    "ColumnTargets",
    "OrderedTargets",
    "PositionTargets",
    "RealTargets",
    "check_columns",
    "counted_labels",
    "label_weights",
    "refuse_ignored",
    "tempered",
]
