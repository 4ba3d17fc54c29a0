"""Checks that members of ensembles in files, their encoders and their mix agree with each other."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sknet._fields import ABSENT, COUNT, Arrays, Each, Named
from sknet.estimators.extend import check_labels_of, check_network
from sknet.losses import Loss
from sknet.preprocessing.extend import Schema
from sknet.tabular._mixing import Mix
from sknet.tabular._training import Member

__all__ = ["ENSEMBLE", "check_bounds", "check_ensemble", "check_members"]


ENSEMBLE: Mapping[str, Any] = {
    "n_features_in_": COUNT,
    "feature_names_in_": [Arrays("OU", "n_features_in_"), ABSENT],
    "_targets": Named("ClassEncoder", "RealTargets", "ArrayTargets"),
    "_schema": Schema,
    "_loss_function": Loss,
    "members_": Each(list, Member),
    "encoder_": Each(list, Named("TableEncoder", "FittedEncoder")),
    "_mix": Mix,
    "mix_": dict[str, float],
    "temperature_": dict[str, float],
    "oof_score_": float,
    "oof_prediction_": [Arrays("biufOUS", "n_rows"), Arrays("fiu", "n_rows", "n_outputs")],
}


def check_ensemble(ensemble: Any) -> None:
    """Raise a ValueError if fitted attributes contradict each other."""
    check_labels_of(ensemble)
    check_members(ensemble.members_, ensemble._targets, ensemble._loss_function, ensemble.n_features_in_)
    _check_mix(ensemble)


def check_members(members: Iterable[Member], targets: Any, loss: Loss, n_features: int) -> None:
    """Raise a ValueError unless each network takes what its encoder returns and returns what targets need."""
    n_outputs = targets.n_outputs * loss.outputs_per_target
    for member in members:
        encoder, model = member.encoder, member.model
        if encoder.n_features_in_ != n_features:
            raise ValueError(f"a member reads {encoder.n_features_in_} columns, and a table has {n_features}")
        check_network(model.module, encoder.n_features_out_, model.dtype, targets, n_outputs)


def _check_mix(ensemble: Any) -> None:
    """Raise a ValueError if members are not mixed as the attributes say."""
    mix, kinds = ensemble._mix, {member.kind for member in ensemble.members_}
    if not kinds or not kinds == mix.weights.keys() == mix.temperatures.keys():
        raise ValueError(f"members of the kinds {sorted(kinds)} are mixed as {mix.weights}")
    if ensemble.mix_ != mix.weights or ensemble.temperature_ != mix.temperatures:
        raise ValueError(f"mix_ and temperature_ are {ensemble.mix_} and {ensemble.temperature_}, not {mix}")
    if not math.isclose(sum(mix.weights.values()), 1.0):
        raise ValueError(f"the weights of kinds must sum to 1, and are {mix.weights}")
    encoders = {id(encoder) for encoder in ensemble.encoder_}
    if not all(id(member.encoder) in encoders for member in ensemble.members_):
        raise ValueError("encoder_ lacks that of a member")


def check_bounds(ensemble: Any) -> None:
    """Raise a ValueError unless a prediction may be between two bounds for each target."""
    if "_bounds" not in vars(ensemble):
        return
    lowest, highest = map(np.asarray, ensemble._bounds)
    if not (lowest <= highest).all() or (lowest.ndim and len(lowest) != ensemble._targets.n_outputs):
        raise ValueError(f"predictions of {ensemble._targets.n_outputs} targets cannot be within its bounds")
