"""Sparse targets: every method reads them as the array that they are of."""

import numpy as np
import pytest
import scipy.sparse

from sknet import MLPClassifier, MLPRegressor, Model, NetRegressor, TabularRegressor, nn
from sknet.exceptions import DtypeError

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 2))
LABELS = (Z > 0).astype(int)
SMALL = {"max_iter": 2, "random_state": 0}
CASES = [
    pytest.param(lambda: MLPRegressor((3,), **SMALL), Z, id="regressor"),
    pytest.param(lambda: MLPRegressor((3,), n_members=2, **SMALL), Z, id="members"),
    pytest.param(lambda: NetRegressor(nn.Linear(3, 2), **SMALL), Z, id="network"),
    pytest.param(lambda: MLPClassifier((3,), **SMALL), LABELS, id="several labels"),
    pytest.param(lambda: MLPClassifier((3,), **SMALL), LABELS[:, :1], id="labels"),
    pytest.param(lambda: TabularRegressor(members=1, n_folds=2, random_state=0), Z[:, :1], id="table"),
]

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
    pytest.mark.filterwarnings("ignore:A column-vector y was passed"),
]


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
@pytest.mark.parametrize(("make", "y"), CASES)
def test_fit_and_score(make, y, kind):
    dense, sparse = make().fit(X, y), make().fit(X, kind(y))
    np.testing.assert_array_equal(sparse.predict(X), dense.predict(X))
    assert dense.score(X, kind(y)) == dense.score(X, y)
    assert dense.score(X, kind(y), np.arange(40)) == dense.score(X, y, np.arange(40))


@pytest.mark.parametrize(("make", "y"), CASES[:1] + CASES[2:4])
def test_more_rows_and_held_out_ones(make, y):
    sparse, classes = scipy.sparse.csr_array(y), {"classes": [0, 1]} if y is LABELS else {}
    np.testing.assert_array_equal(
        make().partial_fit(X, sparse, **classes).predict(X), make().partial_fit(X, y, **classes).predict(X)
    )
    np.testing.assert_array_equal(
        make().fit(X, y, X_val=X, y_val=sparse).predict(X), make().fit(X, y, X_val=X, y_val=y).predict(X)
    )


def test_a_model_names_them():
    model = Model(nn.Linear(3, 2), random_state=0)
    with pytest.raises(
        DtypeError, match=r"y must be an array, got a sparse matrix of \(40, 2\): use .toarray"
    ):
        model.fit(X, scipy.sparse.csr_array(Z), epochs=1)
