"""The line of the user's code."""

from sknet.core import user_line
from sknet.core._tape import line_of, shown


def test_the_innermost_line_outside_sknet():
    path, line = line_of()  # this line
    assert path == __file__
    assert shown((path, line)) == f"in {path}, line {line}: `path, line = line_of()  # this line`"
    assert f"in {__file__}, line " in user_line()


def test_without_a_source():
    namespace = {"line_of": line_of}
    exec(compile("found = line_of()", "<made up>", "exec"), namespace)
    assert shown(namespace["found"]) == "in <made up>, line 1"
    assert shown(None) == "in sknet itself"
