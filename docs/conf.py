"""Sphinx settings of the site. ``make docs`` stages the pages and builds them: tools/site."""

import inspect
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.ext import autosummary
from sphinx.writers.html5 import HTML5Translator

import ldpopt

project = "ldpopt"
author = "The ldpopt developers"
copyright = author
version = release = ldpopt.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
]

# --- pages ----------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
# The notebooks hold their outputs, which the tests compare with a run: none is executed here.
nb_execution_mode = "off"
# A link inside the repository leads to a file that the site shows as a page of its own.
exclude_patterns = ["_build"]

# --- reference ------------------------------------------------------------------------------------

autosummary_generate = True
# A summary is the first paragraph, a single line here: "Eq. 5" and "1 .. n" would end a sentence.
autosummary.periods_re = re.compile("(?!)")
autodoc_typehints = "none"  # numpydoc's sections state shapes and units, which types do not
autodoc_member_order = "bysource"
# The last two are how objects notice that they were changed: on some forty pages, for no reader.
autodoc_default_options = {"exclude-members": "__init__, __new__, is_settled, require_unchanged"}
numpydoc_show_class_members = False  # each class page lists its members by template
add_module_names = False
toc_object_entries_show_parents = "hide"  # names of members alone fit the narrow column

# --- looks ----------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
# Pages without neighbours have no use for a list of them.
html_sidebars = {"start": [], "changelog": []}
html_title = f"ldpopt {release}"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["statements.css", "site.css"]  # the first is that of the report
html_js_files = ["filter.js"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    # The reference among them; figures, benchmarks and the changelog are below "More".
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


# --- docstrings -----------------------------------------------------------------------------------

_PROSE_SECTIONS = ("Returns", "Yields")


def _for_numpydoc(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Change what docstrings write for readers of the code into what numpydoc reads."""
    _name_results(obj, lines)
    in_example = False
    for number, line in enumerate(lines):
        # Bars are absolute values here, and would be substitutions; doctests stay as they are.
        in_example = line.lstrip().startswith((">>>", "...")) or (in_example and bool(line.strip()))
        if not in_example:
            # Every second part stands between double backquotes, where a bar is a bar.
            parts = re.split("(``.*?``)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[number] = "".join(parts)


def _name_results(obj: Any, lines: list[str]) -> None:
    """Put the type above what a function returns: numpydoc takes the first line for it."""
    for section in _PROSE_SECTIONS:
        if section not in lines:
            continue
        start = lines.index(section) + 2
        end = start
        while end < len(lines) and lines[end].strip():
            end += 1
        body = lines[start:end]
        if any(line.startswith(" ") for line in body):
            continue
        try:
            annotation = inspect.signature(obj).return_annotation
        except (TypeError, ValueError):
            annotation = "result"
        lines[start:end] = [f"``{annotation}``", *(f"    {line}" for line in body)]


def _short_defaults(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: Any
) -> tuple[str | None, Any]:
    """Show a default as callers write it, and not as Python prints the object."""
    if signature is not None:
        signature = re.sub(r"<class '(?:[\w.]+\.)?(\w+)'>", r"\1", signature)
        signature = signature.replace("<factory>", "...")
    return signature, returned


def _is_repeated(
    app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any
) -> bool | None:
    """Leave out fields that the docstring of their class describes, and Python once more."""
    is_field = (inspect.getdoc(obj) or "").startswith("Alias for field number")
    # A class that is the default of a field has a page of its own.
    is_default = what == "class" and inspect.isclass(obj)
    return True if is_field or is_default else None


# --- formulas -------------------------------------------------------------------------------------


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _display(translator: HTML5Translator, node: nodes.math_block) -> None:
    formula = convert(node.astext(), display="block")
    # It scrolls where it is wider than the screen: by the keyboard too.
    translator.body.append(f'<div class="formula" tabindex="0">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register what docstrings and formulas become."""
    # MathML, which browsers draw themselves: pages need no script from another site.
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    # Before numpydoc's own, which has the usual priority of 500.
    app.connect("autodoc-process-docstring", _for_numpydoc, priority=400)
    app.connect("autodoc-process-signature", _short_defaults)
    app.connect("autodoc-skip-member", _is_repeated)
