"""Versions of installed packages."""

import numpy as np

from sknet._late import version_of


def test_versions_are_those_of_the_packages():
    assert version_of("numpy") == np.__version__
    assert version_of("no-package-of-this-name") is None
