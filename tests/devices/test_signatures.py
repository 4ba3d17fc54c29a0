"""The fake device refuses what CuPy refuses, and sknet asks for nothing else."""

import inspect
import itertools
import operator
import tomllib
import warnings

import numpy as np
import pytest
import scipy.special

from sknet.device import Device, backend
from tests.devices import fake, signatures
from tests.devices.record_signatures import METHODS, asked, full_name, used_in_backend, used_in_rules
from tests.project import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OLDEST = f"{EXTRAS['cuda12'][0].partition('>=')[2]}.0.0"
VERSIONS = list(signatures.TABLES)
UFUNCS = [name for name in signatures.names() if isinstance(signatures.entry(name, OLDEST), dict)]
DTYPES = [np.dtype(x) for x in "?bhilBHILefd"]


def array(*shape, dtype="float32"):
    return backend("fake").ones(shape, dtype, Device("fake"))


# -- the tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_has_what_sknet_asks_for_and_nothing_else(version):
    names = signatures.TABLES[version].keys()
    missing = sorted(set(asked()) - names)
    assert not missing, signatures.missing(missing[0])
    assert not names - set(asked()), f"sknet no longer calls them: run {signatures.COMMAND}"


def test_the_oldest_version_that_sknet_takes_is_recorded():
    assert min(VERSIONS) == OLDEST
    assert len(VERSIONS) > 1


@pytest.mark.parametrize("used", [used_in_rules, used_in_backend])
def test_every_call_in_sknet_has_arguments_that_cupy_has(used):
    calls = [(name, call) for name, call in used() if call]
    assert calls
    for name, call in calls:
        keywords = {x.arg: None for x in call.keywords if x.arg}
        if not any(type(x).__name__ == "Starred" for x in call.args):
            signatures.bind(name if name.startswith("cupy") else full_name(name), *call.args, **keywords)


def test_functions_with_out_have_a_rule():
    parameters = {name: signatures.signature(name, OLDEST).parameters for name in signatures.names()}
    found = {name for name, each in parameters.items() if "out" in each} - set(UFUNCS)
    assert found == signatures.OUT.keys() | {"cupy.min", "cupy.ndarray.get"}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_fake_arrays_have_the_parameters_of_cupys(name):
    """So Python refuses what CuPy refuses."""

    def shown(function_signature):
        return [(p.name, p.kind, p.default) for p in function_signature.parameters.values()]

    mine = inspect.signature(getattr(fake.FakeArray, name))
    assert shown(mine) == shown(signatures.signature(f"cupy.ndarray.{name}", OLDEST))


def test_fake_arrays_have_no_other_methods():
    own = {name for name, x in vars(fake.FakeArray).items() if inspect.isfunction(x)}
    assert {name for name in own if not name.startswith("_")} == set(METHODS)


# -- ufuncs -----------------------------------------------------------------------------------

# The dtypes of operands for which CuPy's result has another dtype than NumPy's or SciPy's.
SIXTEEN = {(np.dtype("int16"),), (np.dtype("uint16"),)}
DIFFERENT = {
    "cupy.sign": {(np.dtype(bool),)},
    **{f"cupyx.scipy.special.{name}": SIXTEEN for name in ("erf", "erfc", "expit", "logit")},
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [name for name in UFUNCS if not name.endswith("xlogy")])
def test_results_have_the_dtypes_of_numpys(name, version):
    """Of arrays and Python numbers; xlogy is different for more than a few."""
    ufunc = getattr(scipy.special if "special" in name else np, name.rpartition(".")[2])
    for forms in itertools.product([*DTYPES, bool, int, float], repeat=ufunc.nin):
        if any(isinstance(x, np.dtype) for x in forms) and forms not in DIFFERENT.get(name, ()):
            operands = [np.ones(1, x) if isinstance(x, np.dtype) else x(1) for x in forms]
            assert outcome(signatures.loop_of, name, version, forms) == outcome(
                lambda *x, ufunc=ufunc: (ufunc(*x).dtype,), *operands
            ), forms


def outcome(function, *args):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except TypeError:
            return TypeError


def test_the_fake_device_has_cupys_dtype():
    assert fake.cupy.sqrt(array(2, dtype="int16")).dtype == np.float32
    found = fake.special.erf(array(2, dtype="int16"))
    assert (type(found), found.dtype) == (fake.FakeArray, np.float32)
    assert scipy.special.erf(np.ones(2, "int16")).dtype == np.float64


# -- calls that CuPy refuses ------------------------------------------------------------------

X = array(3, 4)
BITS, FLAGS = array(3, dtype="int32"), array(3, dtype="bool")
ROWS = array(2, dtype="int64")
REFUSED = {
    "unknown keyword": (
        lambda xp: xp.sum(X, where=X),
        "cupy.sum: got an unexpected keyword argument 'where': CuPy ",
    ),
    "keyword of NumPy's ufunc": (
        lambda xp: xp.exp(X, where=X),
        "cupy.exp: got an unexpected keyword argument 'where'",
    ),
    "too many": (
        lambda xp: xp.where(X, X, X, X),
        r"cupy.where: too many positional .* has where\(condition, x=",
    ),
    "positional": (
        lambda xp: xp.concatenate([X], 0, None, "f"),
        "cupy.concatenate: too many positional arguments",
    ),
    "missing": (lambda xp: xp.take(X), "cupy.take: missing a required argument: 'indices'"),
    "no `out`": (lambda xp: xp.sort(X, out=X), "cupy.sort: got an unexpected keyword argument 'out'"),
    "in linalg": (
        lambda xp: xp.linalg.svd(X, hermitian=True),
        "cupy.linalg.svd: got an unexpected keyword argument",
    ),
    "mode": (lambda xp: X.take(ROWS, mode="clip"), r"take\(\) got an unexpected keyword argument 'mode'"),
    "copy by place": (
        lambda xp: X.astype("f", "K", None, None, True, 0),
        "takes from 2 to 6 positional arguments",
    ),
    "no loop": (lambda xp: xp.invert(X), r"Wrong type \(float32\) of arguments for cupy.invert: CuPy 14"),
    "a loop for its error": (
        lambda xp: xp.negative(FLAGS),
        r"Wrong type \(bool\) of arguments for cupy.negative",
    ),
    "operators": (lambda xp: FLAGS - FLAGS, r"Wrong type \(bool, bool\) of arguments for cupy.subtract"),
    "mixed": (
        lambda xp: xp.left_shift(BITS, 1.5),
        r"Wrong type \(int32, float\) of arguments for cupy.left_shift",
    ),
    "a dtype without a loop": (
        lambda xp: xp.exp(X, dtype="int32"),
        r"of arguments for cupy.exp with dtype=int32",
    ),
    "lists": (lambda xp: xp.add(X, [1.0]), "Unsupported type <class 'list'>"),
    "host arrays": (lambda xp: xp.add(X, np.ones(4)), "Unsupported type <class 'numpy.ndarray'>"),
    "out of a ufunc": (
        lambda xp: xp.add(X, X, out=array(3, 4, dtype="int32")),
        "cupy.add: Cannot cast output operand",
    ),
    "out by place": (
        lambda xp: xp.exp(BITS, array(3, dtype="int64")),
        r"from dtype\('float64'\) to dtype\('int64'\)",
    ),
    "casting": (
        lambda xp: xp.exp(X, out=array(3, 4, dtype="float16"), casting="safe"),
        "casting rule 'safe'",
    ),
    "out of take": (
        lambda xp: xp.take(X, ROWS, 1, array(3, 2, dtype="float64")),
        r"cupy.take: Cannot cast .* from dtype\('float32'\) to dtype\('float64'\) with casting rule 'no'",
    ),
    "out of the method": (
        lambda xp: X.take(ROWS, 1, array(3, 2, dtype="float64")),
        "cupy.ndarray.take: Cannot cast",
    ),
    "out of stack": (
        lambda xp: xp.stack([X], out=array(1, 3, 4, dtype="int32")),
        "cupy.stack: Cannot cast output",
    ),
    "out of clip": (
        lambda xp: xp.clip(BITS, 0.5, 1, array(3, dtype="int32")),
        "cupy.clip: Cannot cast output",
    ),
    "out of dot": (
        lambda xp: X.dot(array(4), array(3, dtype="float64")),
        "cupy.ndarray.dot: Cannot cast output",
    ),
    "added at": (
        lambda xp: fake.cupy.add.at(array(3, dtype="int64"), ROWS, ROWS),
        "cupy.add.at only supports iILefd",
    ),
    "min": (lambda xp: fake.cupy.min(X, 1, array(3)), "cupy.min refuses out=, in all versions of CuPy"),
    "strides": (
        lambda xp: fake.cupy.sum(X.T, 1, out=array(4)),
        "in Fortran order changes the strides of out in CuPy",
    ),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cupy_refuses(call):
    function, message = REFUSED[call]
    with pytest.raises(TypeError, match=message):
        function(backend("fake").xp)


def test_names_that_are_not_recorded():
    with pytest.raises(AttributeError, match=r"cupy.nanmedian is not .* python -m tests.devices.record"):
        backend("fake").xp.nanmedian(X)
    with pytest.raises(AttributeError, match=r"cupy.nanmedian is not among"):
        signatures.check("cupy.nanmedian")


def test_what_sknet_gives_cupy_in_another_way_is_taken():
    xp, out = backend("fake").xp, array(4)
    assert xp.min(X, 0, out=out) is xp.sum(X.T, axis=1, out=out) is out
    total = array(3, 1, dtype="int64")
    xp.add_rows_at(total, ROWS, array(2, 1, dtype="int32"))
    assert backend("fake").to_host(total).tolist() == [[1], [3], [1]]


@pytest.mark.parametrize(
    ("call", "copies"),
    [
        (lambda xp: xp.add(X, 1.0, out=X), 0),
        (lambda xp: xp.add(X, X, out=X), 0),
        (lambda xp: xp.add(X[:], 1.0, out=X), 1),
        (lambda xp: xp.add(X.T, X.T, out=X.T), 2),
        (lambda xp: operator.iadd(X, X), 0),
        (lambda xp: xp.add(X[:2], 1.0, out=X[1:]), 1),
        (lambda xp: xp.add(X[:1], 1.0, out=X[1:2]), 0),
    ],
)
def test_copies_of_operands_that_share_memory_with_out_are_counted(call, copies):
    with fake.counted() as counts:
        call(backend("fake").xp)
    assert counts.allocations == copies
