"""One fit over the processes of a Dask cluster, and the same fit in this process.

    pip install "scikit-neural[dask]"
    python examples/dask_fit.py [--workers 2]

prints, for example,

    100,000 rows in 8 partitions, 2 workers
    fitted over the workers: training loss 0.0531 after 3 epochs
    test accuracy 0.980, of predictions computed partition by partition
    averaged every 8 steps: test accuracy 0.977
    saved and loaded without the cluster, the same labels: True
"""

import argparse
import pickle

import dask
import dask.array as da
import numpy as np
from dask.distributed import Client

from sknet import MLPClassifier
from sknet.dask import fit
from sknet.optim import Adam

N_FEATURES = 20


def rows(n_rows: int, seed: int) -> tuple[da.Array, da.Array]:
    """Return rows that each worker makes for itself, as it would read them from files."""
    X = da.random.default_rng(seed).standard_normal((n_rows, N_FEATURES), chunks=(n_rows // 8, N_FEATURES))
    X = X.astype(np.float32)
    return X, (X[:, 0] * X[:, 1] + X[:, 2] > 0.3).astype(int)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    with Client(n_workers=arguments.workers, threads_per_worker=1, dashboard_address=":0"):
        X, y = dask.persist(*rows(arguments.rows, seed=0))  # each worker keeps its partitions
        X_test, y_test = dask.persist(*rows(10_000, seed=1))
        print(f"{len(X):,} rows in {X.numblocks[0]} partitions, {arguments.workers} workers")
        clf = MLPClassifier((64, 64), batch_size=512, max_iter=3, optimizer=Adam(lr=3e-3), random_state=0)
        clf.fit(X, y)
        print(f"fitted over the workers: training loss {clf.loss_:.4f} after {clf.n_iter_} epochs")
        labels = clf.predict(X_test)  # a Dask array: nothing is computed yet
        accuracy = (labels == y_test).mean().compute()
        print(f"test accuracy {accuracy:.3f}, of predictions computed partition by partition")
        less = fit(MLPClassifier(**clf.get_params(deep=False)), X, y, sync_every=8)
        print(f"averaged every 8 steps: test accuracy {less.score(X_test, y_test):.3f}")
        rows_here, labels = X_test[:1000].compute(), labels[:1000].compute()
    loaded = pickle.loads(pickle.dumps(clf))
    same = bool((loaded.predict(rows_here) == labels).all())
    print(f"saved and loaded without the cluster, the same labels: {same}")


if __name__ == "__main__":
    main()
