"""Tables whose rows tell of those beside them, and quick fits of them."""

import numpy as np
import pandas as pd

from sknet.tabular import Members

FEW = Members(hidden_layer_sizes=[8], epochs=2)
QUICK = {"n_folds": 2, "smooth": FEW, "sharp": None, "n_jobs": 1, "random_state": 0}


def places(n, rng):
    X = pd.DataFrame(rng.uniform(-2, 2, (n, 4)), columns=["east", "north", "c", "d"])
    X["city"] = pd.Categorical(rng.choice(["Rome", "Bern", "Oslo"], n))
    X.loc[::50, "c"] = np.nan
    return X


def neighbors_of(model):
    return [member for member in model.members_ if member.kind == "neighbors"]
