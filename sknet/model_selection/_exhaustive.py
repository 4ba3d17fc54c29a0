"""Searches that fit every candidate once, in threads, with the first steps of Pipelines shared."""

from sklearn.model_selection import GridSearchCV as Grid
from sklearn.model_selection import RandomizedSearchCV as Randomized

from sknet.model_selection._search import Search

__all__ = ["GridSearchCV", "RandomizedSearchCV"]


class GridSearchCV(Grid, Search):
    """Grid search whose candidates are fitted together, and share the first steps of their Pipeline.

    Replaces scikit-learn's class of the same name, with the same results. The steps of a Pipeline before the
    last one are fitted once per fold for all candidates that have the same parameters of these steps. Fits of
    networks of sknet run in threads instead of processes, and share programs and memory if they have the same
    structure; on a device, those are one program. All other candidates are fitted as scikit-learn does.

    Parameters
    ----------
    estimator : estimator
        Of any kind; only a Pipeline has steps to share.
    param_grid : dict or list of dict
        The candidates, as in `sklearn.model_selection.ParameterGrid`.
    scoring : str, callable, list, tuple, dict or None, default=None
        scikit-learn scorers; None uses the estimator's `score`.
    n_jobs : int or None, default=None
        Number of parallel fits, by joblib: in threads for networks, unless `joblib.parallel_config` chooses a
        backend.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate on all rows; with several scorers, the one that decides.
    cv : int, splitter, iterable or None, default=None
        None is 5 folds.
    verbose : int, default=0
        As scikit-learn's.
    pre_dispatch : int or str, default="2*n_jobs"
        As scikit-learn's.
    error_score : "raise" or float, default=nan
        Score of a candidate whose fit fails.
    return_train_score : bool, default=False
        Whether to score the training rows, too.

    Attributes
    ----------
    cv_results_ : dict
        As scikit-learn's; a "mean_fit_time" has the time of shared steps only where they were fitted.
    best_estimator_, best_params_, best_score_, best_index_
        The best candidate.
    scorer_, n_splits_, refit_time_, multimetric_
        As scikit-learn's.

    Notes
    -----
    A step that draws random numbers without a seed draws them once for all candidates. A Pipeline with its
    own ``memory`` keeps it, and shares nothing else.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import GridSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), MLPClassifier((8,), tol=0.1, random_state=0))
    >>> search = GridSearchCV(pipe, {"mlpclassifier__optimizer__lr": [1e-3, 1e-1]}, cv=2)
    >>> search.fit(X, y).best_params_
    {'mlpclassifier__optimizer__lr': 0.1}
    """


class RandomizedSearchCV(Randomized, Search):
    """Randomized search whose candidates are fitted together, and share the first steps of their Pipeline.

    Replaces scikit-learn's class of the same name, with the same results; see `GridSearchCV`.

    Parameters
    ----------
    estimator : estimator
        Of any kind; only a Pipeline has steps to share.
    param_distributions : dict or list of dict
        Lists or SciPy distributions, as in `sklearn.model_selection.ParameterSampler`.
    n_iter : int, default=10
        Number of candidates.
    scoring : str, callable, list, tuple, dict or None, default=None
        scikit-learn scorers; None uses the estimator's `score`.
    n_jobs : int or None, default=None
        Number of parallel fits, by joblib: in threads for networks, unless `joblib.parallel_config` chooses a
        backend.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate on all rows; with several scorers, the one that decides.
    cv : int, splitter, iterable or None, default=None
        None is 5 folds.
    verbose : int, default=0
        As scikit-learn's.
    pre_dispatch : int or str, default="2*n_jobs"
        As scikit-learn's.
    random_state : int, RandomState instance or None, default=None
        Determines the candidates.
    error_score : "raise" or float, default=nan
        Score of a candidate whose fit fails.
    return_train_score : bool, default=False
        Whether to score the training rows, too.

    Attributes
    ----------
    cv_results_ : dict
        As in `GridSearchCV`, and so are all others.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import RandomizedSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), MLPClassifier((8,), tol=0.1, random_state=0))
    >>> rates = {"mlpclassifier__optimizer__lr": loguniform(1e-3, 1e-1)}
    >>> search = RandomizedSearchCV(pipe, rates, n_iter=3, cv=2, random_state=0)
    >>> len(search.fit(X, y).cv_results_["params"])
    3
    """
