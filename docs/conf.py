"""The site: ``python -m pip install -e ".[docs]" && sphinx-build -W docs site``; needs no network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # `docs` and `tests` of this checkout

import sknet  # noqa: E402
from docs.extensions.names import NOT_LINKED, short_names  # noqa: E402

project = "sknet"
author = "The sknet developers"
project_copyright = "The sknet developers, BSD-3-Clause"
version = release = sknet.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docs.extensions.docstrings",
    "docs.extensions.figures",
    "docs.extensions.formulas",
    "docs.extensions.links",
    "docs.extensions.pages",
]
root_doc = "index"
exclude_patterns = ["_build", "README.md", "inventories", "measured"]
default_role = "py:obj"
add_module_names = False
toc_object_entries = False
nitpicky = True  # docs.extensions.names knows parameters and attributes, which have no page of their own
nitpick_ignore = [
    *(("py:obj", name) for name in NOT_LINKED),
    ("py:data", "python:True"),
    ("py:data", "python:False"),
]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    **{name: path for name, path in short_names().items() if name.isidentifier() and name[0].isupper()},
    "None": "None",
    **dict.fromkeys(("bool", "boolean"), "bool"),
    **{
        word: f"collections.abc.{word.capitalize()}"
        for word in ("sequence", "iterable", "iterator", "mapping")
    },
    "callable": "collections.abc.Callable",
    "array-like": ":term:`array-like`",
    "ndarray": "numpy.ndarray",
    "DataFrame": "pandas.DataFrame",
    "Axes": "matplotlib.axes.Axes",
    "RandomState": "numpy.random.RandomState",
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "reference_url": {"sknet": None},
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 10**6,  # times of a build say little
    "remove_config_comments": True,
}

SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "matplotlib": "https://matplotlib.org/stable/",
}
intersphinx_mapping = {name: (site, str(HERE / f"inventories/{name}.inv")) for name, site in SITES.items()}
intersphinx_disabled_reftypes = ["*"]  # only names of Python, looked up by docs.extensions.links

html_theme = "pydata_sphinx_theme"
html_title = "sknet"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"benchmarks": []}  # it has no pages below it
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "sknet"},
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "collapse_navigation": True,
    "show_prev_next": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
copybutton_exclude = ".linenos, .gp, .go"
