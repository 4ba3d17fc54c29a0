"""Networks as scikit-learn estimators; each is loaded when it is used, predictors without the others."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names

if TYPE_CHECKING:
    from sknet.estimators._autoencoder import Autoencoder
    from sknet.estimators._frozen import (
        FrozenClassifier,
        FrozenMultiHeadNet,
        FrozenRegressor,
        FrozenTransformer,
    )
    from sknet.estimators._layers import LayerOutput
    from sknet.estimators._mlp import MLPClassifier, MLPRegressor
    from sknet.estimators._multihead import MultiHeadNet
    from sknet.estimators._net import NetClassifier, NetRegressor, NetTransformer
    from sknet.estimators._summary import EstimatorSummary, LayerRow

__all__ = [
    "Autoencoder", "EstimatorSummary", "FrozenClassifier", "FrozenMultiHeadNet", "FrozenRegressor",
    "FrozenTransformer", "LayerOutput", "LayerRow", "MLPClassifier", "MLPRegressor", "MultiHeadNet",
    "NetClassifier", "NetRegressor", "NetTransformer",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.estimators._autoencoder": ("Autoencoder",),
            "sknet.estimators._frozen": (
                "FrozenClassifier",
                "FrozenMultiHeadNet",
                "FrozenRegressor",
                "FrozenTransformer",
            ),
            "sknet.estimators._layers": ("LayerOutput",),
            "sknet.estimators._mlp": ("MLPClassifier", "MLPRegressor"),
            "sknet.estimators._multihead": ("MultiHeadNet",),
            "sknet.estimators._net": ("NetClassifier", "NetRegressor", "NetTransformer"),
            "sknet.estimators._summary": ("EstimatorSummary", "LayerRow"),
        }
    ).into(globals())

__dir__ = __all__.copy
