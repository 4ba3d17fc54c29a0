"""Parameters of estimators that are lists of objects, each reached by its number."""

from collections.abc import Hashable, Mapping
from typing import Any, Self, cast

from sklearn.base import BaseEstimator

from sknet._params import ParameterObject, PlainNumbers, names_of

__all__ = ["HoldsLists"]


class HoldsLists(PlainNumbers, BaseEstimator):
    """Mixin of estimators with parameters that are lists of objects, each reached by its number."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(names_of(cast(Hashable, cls)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether also those of objects among them, as ``optimizer__lr`` or ``callbacks__0__patience``.

        Returns
        -------
        dict
            Values by name.
        """
        found: dict[str, Any] = super().get_params(deep)
        if deep:
            for name in self._get_param_names():
                for number, item in _objects_in(found[name]):
                    found[f"{name}__{number}"] = item
                    found.update({f"{name}__{number}__{k}": v for k, v in item.get_params().items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``optimizer__lr`` or ``callbacks__0__patience``.

        Parameters
        ----------
        **params : dict
            Values by the names that `get_params` returns.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no parameter of such a name.
        """
        inside: dict[str, dict[str, Any]] = {}
        for name in list(params):
            own, _, rest = name.partition("__")
            if rest and isinstance(params.get(own, getattr(self, own, None)), (list, tuple)):
                inside.setdefault(own, {})[rest] = params.pop(name)
        nested: list[tuple[Any, dict[str, Any]]] = []
        for own, values in inside.items():
            params[own], within = _with(self, own, params.get(own, getattr(self, own)), values)
            nested += within
        super().set_params(**params)
        for item, values in nested:
            item.set_params(**values)
        return self


def _objects_in(held: Any) -> list[tuple[int, Any]]:
    """Return the objects with parameters that a list or tuple holds, with their numbers."""
    if not isinstance(held, (list, tuple)):
        return []
    return [(i, x) for i, x in enumerate(held) if hasattr(x, "get_params") and not isinstance(x, type)]


def _with(
    estimator: Any, name: str, held: Any, params: Mapping[str, Any]
) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """Return a list with objects replaced, and objects in it with the values of their parameters."""
    new = list(held)
    inner: dict[int, dict[str, Any]] = {}
    for key, value in params.items():
        number, _, rest = key.partition("__")
        if not (number.isdecimal() and int(number) < len(new)):
            numbers = f"from {name}__0 to {name}__{len(new) - 1}" if new else "none, as it is empty"
            raise ValueError(
                f"Invalid parameter '{name}__{key}' for estimator {type(estimator).__name__}: the objects in "
                f"{name!r} are reached by number, {numbers}."
            )
        if rest:
            inner.setdefault(int(number), {})[rest] = value
        else:
            new[int(number)] = value
    is_replaced = any("__" not in key for key in params)
    found = new if is_replaced and isinstance(held, list) else type(held)(new) if is_replaced else held
    nested = [(new[number], values) for number, values in inner.items()]
    for item, values in nested:
        if not hasattr(item, "set_params") or isinstance(item, type):
            raise ValueError(f"{item!r} in {name!r} has no parameters of its own: {sorted(values)}")
        if isinstance(item, ParameterObject):
            item._resolved(values)
    return found, nested
