"""Sphinx settings. Build: ``sphinx-build -W -b html docs docs/_build/html`` (needs jamma installed, extra ``docs``)."""

from importlib.metadata import version as _version

project = "jamma"
author = "The jamma developers"
copyright = "The jamma developers, GPL-3.0-or-later"
release = version = _version("jamma")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
root_doc = "index"
language = "en"

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 4

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's Parameters give types with shapes and units
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = f"jamma {release}"
html_theme_options = {"navigation_with_keys": True}
