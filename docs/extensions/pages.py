"""Writes the pages of the API before a build, and checks afterwards that no public name is missing."""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from docs import reference

__all__ = ["missing", "setup"]

LOGGER = logging.getLogger(__name__)


def write(app: Sphinx) -> None:
    """Write the pages of the API."""
    reference.write(Path(app.srcdir) / "api")


def missing(described: set[str]) -> list[str]:
    """Return the public names that are not among those which the site describes."""
    wanted = {f"{module}.{name}" for module, names in reference.entries().items() for name in names}
    return sorted((wanted | set(reference.entries())) - described)


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn about every public name without a page."""
    for name in missing(set(env.get_domain("py").objects)):
        LOGGER.warning("%s has no page in the API reference", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both."""
    app.connect("builder-inited", write)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
