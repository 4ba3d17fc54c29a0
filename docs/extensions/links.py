"""Names in code font become links: to the page of a public name, or to the site of another library."""

from collections.abc import Iterator

from docutils import nodes
from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.intersphinx import InventoryAdapter
from sphinx.util.nodes import make_refnode

from docs.extensions.names import paths, words_of_page

__all__ = ["setup"]

# Words that are names of sknet, and more often something else where they stand in code font.
PLAIN = {
    *(
        "fit",
        "loss",
        "step",
        "state",
        "load",
        "save",
        "grad",
        "device",
        "float",
        "int",
        "list",
        "dict",
        "str",
    ),
    *("GridSearchCV", "RandomizedSearchCV"),
    *(
        "compile",
        "dropout",
        "integrated_gradients",
        "map_blocks",
        "minimize",
        "run",
        "summary",
        "take",
        "train",
    ),
}


def resolve(env: BuildEnvironment, target: str) -> tuple[str, str] | None:
    """Return (page, anchor) of a public name, or (address, "") of one of another library."""
    target = target.removesuffix("()")
    objects = env.get_domain("py").objects
    for path in paths(target):
        if path in objects:
            return objects[path].docname, objects[path].node_id
    inventory = InventoryAdapter(env).main_inventory
    for kind in ("py:class", "py:function", "py:method", "py:exception", "py:module"):
        known = inventory.get(kind, {})
        if target in known:
            return known[target].uri, ""
        longer = [name for name in known if name.endswith(f".{target}")]
        if len(longer) == 1 and target[:1].isupper():
            return known[longer[0]].uri, ""
    return None


def is_a_word(app: Sphinx, domain: object, node: pending_xref) -> bool | None:
    """Tell Sphinx that a name needs no target: it is a parameter or an attribute, as numpydoc marks them."""
    word = node.get("reftarget", "").removesuffix("=").removesuffix("()")
    return True if word in words_of_page(node.get("refdoc", "")) else None


def missing_reference(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element
) -> Element | None:
    """Resolve a name in a docstring."""
    if node.get("refdomain") != "py":
        return None
    found = resolve(env, node["reftarget"])
    return link(app, node["refdoc"], found, content) if found else None


def link(app: Sphinx, here: str, found: tuple[str, str], content: Element) -> Element:
    page, anchor = found
    if "://" in page:
        return nodes.reference("", "", content, refuri=page, internal=False)
    return make_refnode(app.builder, here, page, anchor, content)


def link_code(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Link names in code font, in pages that are not generated; headings and links stay as they are."""
    if page.startswith("api/"):
        return
    for literal in list(tree.findall(nodes.literal)):
        text = literal.astext()
        within = isinstance(literal.parent, (nodes.reference, nodes.title)) or is_of_others(literal, page)
        found = None if within or text in PLAIN or " " in text else resolve(app.env, text)
        if found and found[0] != page:
            literal.replace_self(link(app, page, found, literal.deepcopy()))


def is_of_others(literal: nodes.literal, page: str) -> bool:
    """Tell whether a name is another library's: in the first column of a page for people who know that."""
    entry = next((node for node in parents(literal) if isinstance(node, nodes.entry)), None)
    return page.startswith("coming_from/") and entry is not None and entry.parent.index(entry) == 0


def parents(node: Element) -> Iterator[Element]:
    """Yield what a node is in, from the inside out."""
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both."""
    app.connect("missing-reference", missing_reference)
    app.connect("warn-missing-reference", is_a_word)
    app.connect("doctree-resolved", link_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
