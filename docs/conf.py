"""The site of these pages: `make site` builds it into build/site, as files that a browser opens without a server.

Links between pages are checked by the build itself, whose warnings are errors. Files of the checkout outside this
folder that a page links to are copied next to it. Nothing is fetched, neither here nor when a page is read.
Cost: about 15 CPU seconds.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the reference of the package is that of this checkout

project = "Cloze"
author = "The Cloze maintainers"
project_copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4
highlight_language = "none"  # of blocks that are only indented: what a terminal shows
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"  # functions make the objects: nobody calls a class
nitpick_ignore_regex = [("py:.*", r"(?!cloze\.).*")]  # names of other packages have no page here

smartquotes_action = "qe"  # an option has two hyphens, which are no dash

html_theme = "furo"
html_title = "Cloze"
html_extra_path = ["llms.txt"]
html_copy_source = True  # llms.txt names the Markdown of each page
html_show_sphinx = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]


def setup(app: "Sphinx") -> None:
    """Have Sphinx call `link_files` for each page, and `mark_code` for each docstring."""
    app.connect("source-read", link_files)
    app.connect("autodoc-process-docstring", mark_code)


def link_files(app: "Sphinx", page: str, content: list[str]) -> None:
    """Make files of links to Markdown outside this folder, which Sphinx would take for pages of the site."""
    content[0] = re.sub(r"\]\(((?:\.\./)+(?:examples/[^)]+|[A-Z]+)\.md)\)", r"](path:\1)", content[0])


def mark_code(app: "Sphinx", what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Make code of what is between backticks in a docstring, and leave out docstrings of modules.

    What the package says of its own files is for those who read them.
    """
    lines[:] = [] if what == "module" else [re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line) for line in lines]
