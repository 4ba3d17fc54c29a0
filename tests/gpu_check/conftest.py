"""The report at the end: what was compiled, in how much time, and what it needs of a GPU."""

import pytest


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
