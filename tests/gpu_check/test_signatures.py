"""The signatures that the fake device goes by are those of the installed CuPy."""

import cupy

from tests.devices import signatures
from tests.devices.record_signatures import recorded


def test_the_installed_cupy_has_the_recorded_signatures():
    version = cupy.__version__
    known = version if version in signatures.TABLES else max(signatures.TABLES)
    table, found = signatures.TABLES[known], recorded()
    names = table.keys() | found.keys()
    changed = {
        name: (table.get(name), found.get(name)) for name in names if table.get(name) != found.get(name)
    }
    assert not changed, (
        f"CuPy {version} has other signatures than the table of CuPy {known} in tests/devices: {changed}: "
        f"see what they mean for sknet, and record them with {signatures.COMMAND}"
    )
