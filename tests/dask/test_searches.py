import os

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV as ScikitLearns

from sknet import MLPClassifier
from sknet.model_selection import GridSearchCV
from sknet.optim import Adam


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("search", [ScikitLearns, GridSearchCV], ids=["scikit-learn", "sknet"])
def test_searches_spread_over_a_cluster(client, search):
    def process(estimator, X, y):
        return os.getpid()

    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = (X[:, 0] > X[:, 1]).astype(int)
    clf = MLPClassifier((4,), max_iter=3, random_state=0, optimizer=Adam(lr=0.01))
    options = {"cv": 2, "refit": "accuracy", "scoring": {"accuracy": "accuracy", "process": process}}
    found = search(clf, {"optimizer__lr": [1e-3, 1e-1]}, **options).fit(X, y)
    with joblib.parallel_config("dask"):
        spread = search(clf, {"optimizer__lr": [1e-3, 1e-1]}, n_jobs=-1, **options).fit(X, y)
    here, there = found.cv_results_, spread.cv_results_
    np.testing.assert_array_equal(there["mean_test_accuracy"], here["mean_test_accuracy"])
    assert os.getpid() in here["split0_test_process"]
    workers = set(client.run(os.getpid).values())
    assert set(there["split0_test_process"]) | set(there["split1_test_process"]) <= workers
