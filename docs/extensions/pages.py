"""Writes the pages of the API before a build, and checks afterwards that no public name is missing."""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from docs import reference
from tests.project import public_modules

__all__ = ["missing", "setup"]

LOGGER = logging.getLogger(__name__)


def write(app: Sphinx) -> None:
    """Write the pages of the API."""
    reference.write(Path(app.srcdir) / "api")


def missing(described: set[str]) -> list[str]:
    """Return the public names that are not among those which the site describes."""
    wanted = {f"{module}.{name}" for module, names in reference.entries().items() for name in names}
    return sorted((wanted | set(reference.entries())) - described)


class Modules(SphinxDirective):
    """A table of modules: each linked to its page, with the first sentence of its docstring."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table, and a hidden table of contents, from which the navigation is made."""
        names = [line.strip() for line in self.content if line.strip()]
        pages = [f"api/{name}" for name in names]
        contents = addnodes.toctree(
            parent=self.env.docname,
            entries=[(None, page) for page in pages],
            includefiles=pages,
            maxdepth=1,
            hidden=True,
            includehidden=False,
            titlesonly=True,
            glob=False,
            numbered=0,
            caption=None,
        )
        return [contents, table([(reference_to(name), sentence(name)) for name in names])]


def reference_to(name: str) -> nodes.Node:
    """Return a link to the page of a module."""
    link = addnodes.pending_xref(
        "", nodes.literal(name, name), refdomain="py", reftype="mod", reftarget=name, refexplicit=True
    )
    return nodes.paragraph("", "", link)


def sentence(name: str) -> nodes.Node:
    """Return the first sentence of a module's docstring, with code in code font."""
    text = reference.first_paragraph(public_modules()[name]).replace("\\", "")
    shown = nodes.paragraph()
    for place, part in enumerate(re.split(r"`+", text)):
        shown += nodes.literal(part, part) if place % 2 else nodes.Text(part)
    return shown


def table(rows: list[tuple[nodes.Node, nodes.Node]]) -> nodes.table:
    """Return a table without heading."""
    group = nodes.tgroup("", nodes.colspec(colwidth=30), nodes.colspec(colwidth=70), cols=2)
    body = nodes.tbody()
    for cells in rows:
        body += nodes.row("", *[nodes.entry("", cell) for cell in cells])
    group += body
    return nodes.table("", group, classes=["names"])


def break_at_dots(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Let the title of a page of the reference, a dotted name, break after its dots in a narrow window."""
    title = tree.next_node(nodes.title)
    if not page.startswith("api/") or title is None:
        return
    first, *rest = title.astext().split(".")
    parts: list[nodes.Node] = [nodes.Text(first)]
    for part in rest:
        parts += [nodes.Text("."), nodes.raw("", "<wbr>", format="html"), nodes.Text(part)]
    title.children = []
    title += parts


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn about every public name without a page."""
    for name in missing(set(env.get_domain("py").objects)):
        LOGGER.warning("%s has no page in the API reference", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and connect all."""
    app.add_directive("modules", Modules)
    app.connect("builder-inited", write)
    app.connect("doctree-resolved", break_at_dots)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
