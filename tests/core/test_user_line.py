"""The line of the user's code."""

from sknet.core import user_line


def test_the_innermost_line_outside_sknet():
    said = user_line()  # this line
    number = test_the_innermost_line_outside_sknet.__code__.co_firstlineno + 1
    assert said == f"in {__file__}, line {number}: `said = user_line()  # this line`"


def test_without_a_source():
    namespace = {"user_line": user_line}
    exec(compile("\nfound = user_line()", "<made up>", "exec"), namespace)
    assert namespace["found"] == "in <made up>, line 2"
