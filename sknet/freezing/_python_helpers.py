"""Functions of the Python files that frozen pipelines are written as."""

from collections.abc import Mapping

__all__ = ["HELPERS", "NEEDED", "RESTORED"]

HELPERS: Mapping[str, str] = {
    "floats": '''
def floats(X):
    """Return a table as real numbers; NaN may be among them."""
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    if np.isinf(X).any():
        raise ValueError("X contains infinity")
    return X
''',
    "check_finite": '''
def check_finite(X):
    """Raise a ValueError if values are missing or infinite."""
    is_wrong = X != X if X.dtype == object else ~np.isfinite(X)
    if is_wrong.any():
        raise ValueError("X contains NaN or infinity: impute or drop such rows first")
''',
    "finite": '''
def finite(X):
    """Return a table as finite numbers."""
    X = floats(X)
    if np.isnan(X).any():
        raise ValueError("X contains NaN: impute or drop such rows first")
    return X
''',
    "numbers": '''
def numbers(X):
    """Return objects as real numbers, and numbers as they are."""
    return X.astype(np.float64) if X.dtype == object else X
''',
    "scaled": '''
def scaled(X, operations, bounds, rounds):
    """Return the columns after arithmetic with a number for each, one operation after the other."""
    X = floats(X)
    for operation, values in operations:
        values = values.astype(X.dtype) if rounds else values
        X = operation(X, values, out=np.empty_like(X), casting="same_kind")
    return X if bounds is None else np.clip(X, *map(X.dtype.type, bounds))
''',
    "imputed": '''
def imputed(X, missing, values, kept, flagged):
    """Return the table with missing values replaced, and an output for each flagged column."""
    mask = X != X if missing != missing else X == missing
    found, holes = X[:, kept].copy(), mask[:, kept]
    np.copyto(found, values, where=holes, casting="unsafe")
    return np.hstack((found, mask[:, flagged]))
''',
    "projected": '''
def projected(X, weights, center, scale):
    """Return products with a matrix, less the center and divided by the scale."""
    X = finite(X)
    found = (X.astype(np.float64) if X.dtype == np.float16 else X) @ weights
    if center is not None:
        found -= center
    if scale is not None:
        found /= scale
    return found
''',
    "normalized": '''
def normalized(X, norm):
    """Return rows divided by their norms."""
    X = finite(X)
    if norm == "l2":
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    else:
        norms = (np.sum if norm == "l1" else np.max)(np.abs(X), axis=1)
    norms[norms < 10 * np.finfo(norms.dtype).eps] = 1.0
    return X / norms[:, None]
''',
    "products": '''
def products(X, has_bias, degrees, n_left_out):
    """Return columns and, degree by degree, their products."""
    parts = [finite(X)]
    for before, columns in degrees:
        parts.append(parts[-1][:, before] * parts[0][:, columns])
    if has_bias:
        parts.insert(0, np.ones((len(X), 1), parts[0].dtype))
    return np.concatenate(parts, axis=1)[:, n_left_out:]
''',
    "by_box_cox": '''
def by_box_cox(X, lambdas):
    """Transform positive numbers by Box and Cox's formula, in place, and return them."""
    if (X <= 0).any():
        raise ValueError("The Box-Cox transformation can only be applied to strictly positive data")
    for i, power in enumerate(lambdas):
        x = np.log(X[:, i].astype(np.float64))
        X[:, i] = x if abs(power) < 1e-19 else np.expm1(power * x) / power
    return X
''',
    "places": '''
def places(X, columns, levels):
    """Return what the levels of each column become."""
    found = []
    for column, name, (known, nan, unknown) in zip(X.T.tolist(), columns, levels):
        row = []
        for value in column:
            place = known.get(value)
            if place is None:
                is_nan = nan is not None and isinstance(value, float) and value != value
                place = nan if is_nan else unknown
            if place is None:
                raise ValueError(f"Found unknown category {value!r} in {name}")
            row.append(place)
        found.append(row)
    return np.array(found).T
''',
    "one_hot": '''
def one_hot(places, width, dtype):
    """Return an output for every level; places below 0 have none."""
    out = np.zeros((len(places), width), dtype)
    rows, _ = np.nonzero(places >= 0)
    out[rows, places[places >= 0]] = 1
    return out
''',
}
RESTORED = '''
def restored(y):
    """Return predictions in the units of the targets."""
    return {step}(y.reshape(-1, 1)).reshape(y.shape) if y.ndim == 1 else {step}(y)
'''
NEEDED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("finite", "scaled"), ("floats",)),
    **dict.fromkeys(("projected", "normalized", "products"), ("finite", "floats")),
}
"""What a function calls."""
