"""What searches hold of scikit-learn and SciPy: scorers and distributions, in files by their names."""

from typing import Any

__all__ = ["distribution", "is_distribution", "is_scorer", "of_distribution", "of_scorer", "scorer"]

SCORERS = "sklearn.metrics._scorer"
DISTRIBUTIONS = "scipy.stats._distn_infrastructure"


def is_scorer(x: Any) -> bool:
    """Tell whether x is a scorer of scikit-learn, without loading them."""
    return type(x).__module__ == SCORERS and callable(x)


def of_scorer(x: Any) -> Any:
    """Return the name of a scorer, or the estimator whose `score` it calls; a TypeError if it has neither."""
    from sklearn.metrics import check_scoring, get_scorer, get_scorer_names  # whoever has a scorer has them

    estimator = vars(x).get("_estimator")
    if estimator is not None and type(check_scoring(estimator)) is type(x):
        return estimator
    known = (name for name in get_scorer_names() if vars(get_scorer(name)) == vars(x))
    name = next(known, None)
    if name is None:
        raise TypeError("it is a scorer that scikit-learn has no name for")
    return name


def scorer(described: Any) -> Any:
    """Return the scorer of a name, or of an estimator; a ValueError or TypeError if there is none."""
    from sklearn.metrics import check_scoring, get_scorer, get_scorer_names

    if not isinstance(described, str):
        return check_scoring(described)  # which wants an estimator with `score`
    if described not in get_scorer_names():
        raise ValueError(f"there is no scorer {described[:80]!r}")
    return get_scorer(described)


def is_distribution(x: Any) -> bool:
    """Tell whether x is a distribution of `scipy.stats` with its parameters, without loading them."""
    return type(x).__module__ == DISTRIBUTIONS and hasattr(x, "dist") and hasattr(x, "rvs")


def of_distribution(x: Any) -> list[Any]:
    """Return the name of a distribution and its parameters; a TypeError if it is not one of SciPy's."""
    from scipy import stats

    name: Any = x.dist.name
    if type(getattr(stats, str(name), None)) is not type(x.dist):
        raise TypeError(f"it is the distribution {name!r}, which scipy.stats does not have")
    return [name, list(x.args), dict(x.kwds)]


def distribution(name: Any, args: list[Any], parameters: dict[str, Any]) -> Any:
    """Return a distribution with its parameters; a ValueError if `scipy.stats` has none of this name."""
    from scipy import stats

    found = getattr(stats, name, None) if isinstance(name, str) and not name.startswith("_") else None
    if not isinstance(found, stats.rv_continuous | stats.rv_discrete):
        raise ValueError(f"{str(name)[:80]!r} is no distribution of scipy.stats")
    return found(*args, **parameters)
