"""Functions of the array namespace that NumPy lacks, written with NumPy's functions."""

__all__ = ["LACKING"]

# By name in the namespace: the definition of a function of this name, and its imports.
LACKING: dict[str, tuple[tuple[str, ...], str]] = {
    "erf": (
        ("import math",),
        '''
def erf(x):
    """Return the error function, computed by Python's."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(np.result_type(x, np.float16))
''',
    ),
    "erfc": (
        ("import math",),
        '''
def erfc(x):
    """Return 1 - erf(x), computed by Python's function."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(x)).astype(np.result_type(x, np.float16))
''',
    ),
    "expit": (
        (),
        '''
def expit(x):
    """Return 1 / (1 + exp(-x)), the logistic function, which is 0 where exp(-x) is infinite."""
    return 1 / (1 + np.exp(-1.0 * x))
''',
    ),
    "logit": (
        (),
        '''
def logit(x):
    """Return log(x / (1 - x)), whose inverse is the logistic function."""
    return np.log(x) - np.log1p(-x)
''',
    ),
    "xlogy": (
        (),
        '''
def xlogy(x, y):
    """Return x * log(y), which is 0 where x is 0."""
    is_zero = (x == 0) & ~np.isnan(y)
    return np.where(is_zero, 0, x * np.log(np.where(is_zero, 1, y)))
''',
    ),
    "where": (
        (),
        '''
def where(condition, x, y):
    """Return x where the condition holds, and y elsewhere."""
    return np.where(condition, x, y)
''',
    ),
    "add_rows_at": (
        (),
        '''
def add_rows_at(out, rows, values):
    """Add values[i] to out[rows[i]] for every i in turn."""
    np.add.at(out, rows, values)
''',
    ),
    "in_threads": (
        (),
        '''
def in_threads(work, count, rooms):
    """Call work(i, room) for each i below count, one after the other."""
    for i in range(count):
        work(i, rooms[0])
''',
    ),
    "may_be_native": (
        (),
        '''
def may_be_native():
    """Return False: there is no native code."""
    return False
''',
    ),
    "small_products": (
        (),
        '''
def small_products():
    """Return 0: products of small matrices are as others."""
    return 0
''',
    ),
    "native_passes": (
        (),
        '''
def native_passes():
    """Return None: there is no native code."""
    return None
''',
    ),
}  # fmt: skip
