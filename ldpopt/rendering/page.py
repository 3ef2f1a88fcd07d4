"""One self-contained HTML page of the ledger's results."""

from __future__ import annotations

import base64
import platform
from collections.abc import Sequence
from importlib.metadata import version

import jinja2

from ldpopt.claims.engine.run import Result
from ldpopt.claims.figure_statements import FigureRun
from ldpopt.rendering.figures import agreement_figure

_SHOWN = ("ldpopt", "numpy", "scipy", "cvxpy", "clarabel", "osqp", "qoco", "scs")


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
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["evidence"] = _evidence
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
        versions={"Python": platform.python_version(), **{name: version(name) for name in _SHOWN}},
    )


def _evidence(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
