"""Texts of the Python files that predictors are written as."""

__all__ = ["CHECKED", "FILE", "IN_PARTS"]

FILE = '''"""{title}, as Python that needs NumPy alone.

Written by sknet. These functions do what the predictor's methods of their names do:
{names}.
"""

{imports}

__all__ = {all}

# -- what is predicted --------------------------------------------------------------------------

{methods}


# -- the network --------------------------------------------------------------------------------

{passes}


# -- inputs -------------------------------------------------------------------------------------

{inputs}


# -- operations ---------------------------------------------------------------------------------

{helpers}


# -- parameters ---------------------------------------------------------------------------------

{facts}

{arrays}
'''
IN_PARTS = '''
def in_parts(function, given, most, in_powers):
    """Compute some rows at a time, as many as the predictor does, so that products are rounded alike."""
    if in_powers:
        most = min(most, {most})
        most = most if most <= {few} else 1 << most.bit_length() - 1
    total, start, parts = len(next(iter(given.values()))), 0, []
    with np.errstate(all="ignore"):
        while start < total:
            left = total - start
            size = left if left <= {few} or not in_powers else 1 << left.bit_length() - 1
            stop = start + min(most, size)
            parts.append(function(*[x[start:stop] for x in given.values()]))
            start = stop
    if isinstance(parts[0], list):  # an array for each column of labels
        return [np.concatenate(columns) for columns in zip(*parts)]
    return np.concatenate(parts)
'''
CHECKED = '''
def checked(given, expected):
    """Return inputs as arrays, in the dtype that is computed in; raise a ValueError for any others."""
    missing = [name for name in expected if not isinstance(given, dict) or name not in given]
    if missing:
        got = list(given) if isinstance(given, dict) else "one array"
        raise ValueError(f"expected the inputs {{list(expected)}}, got {{got}}: {{missing[-1]}} is missing")
    found = {{}}
    for name, (shape, dtype) in expected.items():
        x = np.asarray(given[name])
        if x.ndim != len(shape) + 1 or x.shape[1:] != shape or x.dtype.kind not in "biuf":
            expects = ", ".join(["n_samples", *map(str, shape)])
            raise ValueError(
                f"{{name}}: expected numbers of shape ({{expects}}), got {{x.dtype}} of shape {{x.shape}}"
            )
        if not len(x):
            raise ValueError(f"{{name}}: expected at least one row, got none")
        if not np.isfinite(x).all():
            raise ValueError(f"{{name}} contains NaN or infinity: impute or drop such rows first")
        if dtype is None and x.dtype.kind == "f":
            raise ValueError(f"{{name}} must hold integers, got {{x.dtype}}: use .astype('int64')")
        with np.errstate(all="ignore"):
            found[name] = np.ascontiguousarray(x, x.dtype if dtype is None else dtype)
    if len({{len(x) for x in found.values()}}) > 1:
        raise ValueError(f"expected as many rows in each of {{list(expected)}}")
    return found
'''
