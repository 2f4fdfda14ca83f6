"""The site: ``sphinx-build -W -c docs . build/site`` from the top of the repository.

The source directory is the repository, so that a link from a page to a figure or a notebook is the
same file for a reader of the repository and for the site.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

sys.path.insert(0, str(ROOT / "docs"))

from gradlab._version import __version__  # noqa: E402

project, author, release = "gradlab", "The gradlab authors", __version__
copyright = author
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "notebooks/*.ipynb",
    "figures/captions.md",
    "figures/gpu-check/h100.md",
    "figures/gpu-check/predicted.md",
    "figures/study/README.md",
    "figures/study/report.md",
    "figures/study/verdicts.md",
    "figures/study/evidence/report.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = ["docs/_templates", "docs/_static"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
]
# Other projects' inventories come from the network: without one their names stay plain.
online = os.environ.get("READTHEDOCS") or os.environ.get("GRADLAB_DOCS_ONLINE")
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
    }
    if online
    else {}
)

# Names in single backticks are Python objects where there is one of that name.
default_role = "py:obj"
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

smartquotes = False  # they make a dash of two hyphens

# The notebooks are committed with their output, and executed by the tests.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # notebooks begin where their tutorial does
    "mystnb.unknown_mime_type",  # sliders live in a running notebook only
]

html_theme = "pydata_sphinx_theme"
html_title = "gradlab"
html_static_path = ["_static"]
html_extra_path = ["_static/root"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
# Autosummary looks from the top, not from here.
templates_path = [str(ROOT / "docs" / "_templates")]
html_sidebars = {page: [] for page in ("docs/index", "docs/start", "docs/symptoms", "docs/explore")}
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    # Pages of wide tables take the room of the contents.
    "secondary_sidebar_items": {"**": ["page-toc"]}
    | {f"docs/{page}": [] for page in ("atlas", "mathematics", "index", "explore")},
}


def setup(app):
    """What no extension does: live pages, narrow pictures, errors for undocumented names."""
    app.connect("builder-inited", load_public_names)
    app.connect("env-check-consistency", public_names_are_documented)
    app.connect("html-page-context", offer_narrow_pictures)
    app.connect("build-finished", add_narrow_pictures)
    app.connect("build-finished", add_live_pages)


def load_public_names(app):
    """Load what is loaded on first use, which autodoc would not see."""
    from reference_check import public_names, rooms

    for module in rooms():
        for name, value in public_names(module).items():
            setattr(sys.modules[module], name, value)


def public_names_are_documented(app, env):
    """Warn, which fails the build, of what `gradlab` or a room exports and the reference lacks."""
    from reference_check import undocumented
    from sphinx.util.logging import getLogger

    for problem in undocumented(set(env.get_domain("py").objects)):
        getLogger(__name__).warning(problem)


def narrow_pictures(app):
    """Pictures of the pages that have a copy for phones: name in the site -> file of the copy."""
    files = {name: ROOT / path for path, name in getattr(app.builder, "images", {}).items()}
    copies = {
        name: path.with_name(f"{path.stem}-narrow{path.suffix}") for name, path in files.items()
    }
    return {name: path for name, path in copies.items() if path.exists()}


def offer_narrow_pictures(app, pagename, templatename, context, doctree):
    """Let a browser with a narrow window take the narrow copy of a picture (`docs/narrow.py`)."""
    for name, copy in narrow_pictures(app).items():
        image = rf'<img\b[^>]*src="([^"]*){re.escape(name)}"[^>]*>'
        source = rf'<source media="(max-width: 600px)" srcset="\1{copy.name}">'
        context["body"] = re.sub(
            image, rf"<picture>{source}\g<0></picture>", context.get("body", "")
        )


def add_narrow_pictures(app, error):
    """Put the narrow copies beside the pictures."""
    if error is None and app.builder.format == "html":
        for path in narrow_pictures(app).values():
            shutil.copyfile(path, Path(app.outdir) / app.builder.imagedir / path.name)


def add_live_pages(app, error):
    """Put the explorer and an example report beside the pages."""
    if error is None and app.builder.format == "html":
        from live import write_live_pages

        write_live_pages(Path(app.outdir) / "live")
