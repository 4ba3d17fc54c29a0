"""Pickles of slim estimators: arrays as they are, everything else compressed."""

import pickle
import zlib
from typing import Any

__all__ = ["packed"]

# What such pickles have in common. They can be opened with this text alone, so it never changes.
WORDS = (
    b"sknet.estimators._mlp MLPRegressor MLPClassifier hidden_layer_sizes activation relu encoder "
    b"dropout loss squared_error log_loss optimizer adam alpha batch_size auto max_iter shuffle "
    b"class_weight calibrate early_stopping validation_fraction validation_split scoring monitor "
    b"refit_on_all n_iter_no_change tol frozen warm_start verbose callbacks device dtype random_state "
    b"n_features_in_ _targets sknet.estimators._targets._real RealTargets "
    b"sknet.estimators._targets._classes ClassTargets classes numpy._core.multiarray _reconstruct numpy "
    b"ndarray task multiclass regression n_outputs _architecture sknet.estimators._architecture "
    b"Perceptron _lasting scale_target _inputs _frozen _batch sknet.engine.step._signature Batch "
    b"sknet.device._meta MetaArray classes_ model_ sknet.engine._model Model _hyper "
    b"sknet.engine.state._hyper Hyper sknet.optim._adam Adam lr beta1 beta2 eps sknet.losses._regression "
    b"SquaredError sknet.losses._classification LogLoss multilabel label_smoothing pos_weight "
    b"ignore_index compile progress sknet.optim.schedules._base Progress _epoch "
    b"sknet.engine.state._epoch Epoch _stepper sknet.engine.step._stepper Stepper _predictors "
    b"sknet.engine.predict._predictors Predictors _kept_steps _store sknet.engine.state._memory Memory "
    b"module sknet.nn.layers._container Sequential _parameters _buffers _transient _children "
    b"sknet.nn.layers._linear Linear weight sknet.nn._parameter Parameter undrawn data "
    b"numpy._core.numeric _frombuffer requires_grad bias in_features out_features parametrization "
    b"standard sknet.nn.layers._activation ReLU sknet.device._device Device cpu key slots mu nu _resting "
    b"layout sknet.engine.state._layout Layout shapes 0.weight 0.bias 2.weight 2.bias slices builtins "
    b"slice size _flat _buffer_names has_buffers _seed history_ sknet.engine.loop._history History "
    b"callbacks_ _stopping n_iter_ t_ n_outputs_ out_activation_ identity logistic softmax loss_curve_ "
    b"loss_ best_loss_ monitor_ stopped_early_ refit_history_ _compared best_epoch_ validation_scores_ "
    b"best_validation_score_ n_layers_ _is_slim"
)


def packed(estimator: Any) -> tuple[Any, ...] | None:
    """Return what `__reduce_ex__` returns for a slim estimator, or None."""
    buffers: list[Any] = []
    try:
        state = pickle.dumps(estimator.__getstate__(), protocol=5, buffer_callback=buffers.append)
    except (AttributeError, TypeError, pickle.PicklingError):
        return None
    if b"__main__" in state:
        return None
    code = zlib.compressobj(9, zdict=WORDS)
    text = code.compress(state) + code.flush()
    return unpacked, (type(estimator), text, [bytearray(each.raw()) for each in buffers])


def unpacked(cls: Any, text: bytes, buffers: list[bytearray]) -> Any:
    """Return the estimator."""
    state = pickle.loads(zlib.decompressobj(zdict=WORDS).decompress(text), buffers=buffers)
    estimator = cls.__new__(cls)
    estimator.__setstate__(state)
    return estimator
