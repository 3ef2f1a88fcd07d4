"""The ledger's results as one self-contained HTML page."""

from __future__ import annotations

import base64
import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import jinja2

from ldpopt.claims.engine.run import Result
from ldpopt.claims.figure_statements import FigureRun
from ldpopt.rendering.agreement_figure import agreement_figure
from ldpopt.solve.solvers import SOLVERS

_PACKAGES = ("ldpopt", "numpy", "scipy", "cvxpy")


def claims_page(results: Sequence[Result], figure_run: FigureRun | None = None) -> str:
    """Return the page: all claims by topic, each with its evidence and its picture.

    Parameters
    ----------
    results
        Of the claims that were checked.
    figure_run
        A run of the papers' figures: the statements that it judged follow the results, and those
        that it could not judge are listed with the reason.
    """
    if figure_run is not None:
        results = [*results, *figure_run.judged]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ldpopt.rendering", "templates"),
        autoescape=True,
        # A name that the template misspells is an error, and not an empty place on the page.
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["evidence"] = _evidence
    # The name of a class has no spaces, the words of a verdict do.
    environment.filters["class"] = lambda verdict: verdict.replace(" ", "-")
    # As text inside the page: it is one file, which can be sent on.
    pictures = {
        result.claim.id: base64.b64encode(agreement_figure(result.finding.agreement)).decode()
        for result in results
        if result.finding.agreement is not None
    }
    return environment.get_template("claims.html.j2").render(
        results=results,
        pictures=pictures,
        figure_run=figure_run,
        surprises=[result for result in results if not result.as_expected],
        seconds=sum(result.seconds for result in results),
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    """Return the versions of Python, of the packages and of the solvers that are installed."""
    versions = {"Python": platform.python_version()}
    for package in (*_PACKAGES, *(solver.package for solver in SOLVERS.values())):
        with suppress(PackageNotFoundError):  # some solvers come with an extra
            versions[package] = version(package)
    return versions


def _evidence(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
