"""scikit-learn's constraints of parameters, for estimators: its checks of estimators read them."""

from sklearn.utils._param_validation import Interval, Options, RealNotInt, StrOptions
from sklearn.utils._param_validation import InvalidParameterError as _Theirs

from sknet.exceptions import InvalidParameterError

__all__ = ["Interval", "InvalidEstimatorError", "Options", "RealNotInt", "StrOptions"]


class InvalidEstimatorError(InvalidParameterError, _Theirs):
    """A parameter of an estimator is invalid: an error of sknet, and of scikit-learn."""
