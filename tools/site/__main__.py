"""Build the documentation site: ``python -m tools.site``, behind ``make docs``.

The pages of ``docs/`` are staged together with the notebooks, the Markdown files of the repository
and the pages that results and docstrings give; Sphinx then builds them, with warnings as errors.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site import check, repairs, stage
from tools.texts import ROOT

BUILD = ROOT / "build" / "docs"
COMPARISON = ROOT / "experiments" / "results" / "compare.html"


def main() -> int:
    """Build the site, check its links and its structure; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument(
        "--claims",
        type=Path,
        default=BUILD / "verify" / "claims.json",
        help="what `ldpopt verify --out DIR` wrote",
    )
    arguments = parser.parse_args()
    if not arguments.claims.is_file():
        print(f"{arguments.claims} is missing: `make docs` writes it with `ldpopt verify --out`")
        return 2
    source = BUILD / "source"
    html = BUILD / "html"
    # Pages of objects that are gone would stay, and be found by the search.
    shutil.rmtree(html, ignore_errors=True)
    stage.stage(source, json.loads(arguments.claims.read_text(encoding="utf-8")))
    # -n is left out: types of numpy and cvxpy in signatures have no page to link to.
    command = ["-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", str(source), str(html)]
    built = subprocess.run([sys.executable, *command], check=False)
    if built.returncode:
        return built.returncode
    repairs.repair(html)
    # Pages that stand alone, as far as they are there: the report is beside its claims.
    alone = [arguments.claims.with_name("report.html"), COMPARISON]
    single = [path for path in alone if path.is_file()]
    faults = [*check.broken_links(html), *check.structural_faults(html, single)]
    for line in faults:
        print(line)
    print(f"Wrote {html / 'index.html'}.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
