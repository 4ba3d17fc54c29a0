"""Formulas as MathML, which browsers draw by themselves: no script, and no network."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

__all__ = ["mathml", "setup"]

LOGGER = logging.getLogger(__name__)


def mathml(tex: str, *, display: bool) -> str:
    r"""Return a formula as MathML; several lines (``\\``) outside an environment are aligned.

    Raises
    ------
    MathError
        If the formula has a command that docutils does not know.
    """
    tex = tex.strip().replace(r"\dots", r"\ldots")
    if display and r"\\" in tex and r"\begin" not in tex:
        around = "aligned" if "&" in tex else "matrix"
        tex = rf"\begin{{{around}}}{tex}\end{{{around}}}"
    return str(latex2mathml.tex2mathml(tex, as_block=display))


def visit(self: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula; one that cannot be read is a warning, which the build turns into an error."""
    display = isinstance(node, nodes.math_block)
    try:
        text = mathml(node.astext(), display=display)
    except MathError as error:
        LOGGER.warning("formula %s: %s", node.astext(), error, location=node)
        text = f"<code>{self.encode(node.astext())}</code>"
    self.body.append(f'<div class="math">{text}</div>' if display else text)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
