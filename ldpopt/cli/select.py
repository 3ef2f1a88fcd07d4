"""``ldpopt select``: which method answers given queries best."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ldpopt import validate
from ldpopt.cli.counted import (
    Budget,
    ClientId,
    Columns,
    Domain,
    OracleName,
    Reports,
    Source,
    counted,
)
from ldpopt.cli.named_method import method_named
from ldpopt.cli.names import completes
from ldpopt.cli.shared import (
    Json,
    output,
    print_json,
    remark,
    split_list,
)
from ldpopt.methods import METHODS

Sets = Annotated[
    Path,
    typer.Option(help="JSON file of the sets to ask for: a list of labels or indices per name."),
]
Candidates = Annotated[
    str | None,
    typer.Option(
        help="Methods to try, separated by commas, and problems or functions of your own, as "
        "MODULE:NAME; all of the table by default."
    ),
]
Fit = Annotated[
    str,
    typer.Option(
        help="Method that turns the estimate into the distribution of simulated users.",
        autocompletion=completes(METHODS),
    ),
]
Trials = Annotated[int, typer.Option(help="Number of simulated collections.")]
Seed = Annotated[
    int | None, typer.Option(help="Makes the choice repeatable; a new seed by default.")
]
By = Annotated[
    str,
    typer.Option(
        help="Evidence: simulation, risk (unbiased, from these reports), or both.",
        autocompletion=completes(("both", "risk", "simulation")),
    ),
]


def select(
    file: Source,
    query: Sets,
    candidates: Candidates = None,
    fit: Fit = "norm-sub",
    trials: Trials = 100,
    seed: Seed = None,
    by: By = "both",
    oracle: OracleName = None,
    epsilon: Budget = None,
    domain: Domain = None,
    n: Reports = None,
    column: Columns = None,
    client_id: ClientId = None,
    as_json: Json = False,
) -> None:
    """Choose the method that answers your queries with the smallest error.

    Collections of as many users are simulated, whose values follow the estimate; every candidate
    answers the queries of each, and the mean squared errors are compared. Where the raw answers
    show that the simulated data are wrong for these queries, the errors are corrected; the output
    says where this overrules the simulation. Unbiased estimates of the errors from these very
    reports stand beside them. The reports are used through the
    estimate alone, so that the choice costs no privacy. "undecided" stands behind a method that
    the evidence does not separate from the best.

    Example: ldpopt select counts.json --domain labels.txt --query sets.json --candidates
    base,norm-sub,power-ns
    """
    from ldpopt.rendering.selection_table import selection_table
    from ldpopt.studies.selection import select_method

    # Names that are wrong are errors before the reports are read.
    names = list(METHODS) if candidates is None else split_list("--candidates", candidates)
    methods = {name: method_named(name) for name in validate.distinct("--candidates", names)}
    fitted_by = method_named(fit)
    validate.lookup("by", by, dict.fromkeys(("both", "risk", "simulation"), by))
    # One trial has no standard error, and nothing could be compared.
    trials = validate.integer("--trials", trials, minimum=2)
    if seed is not None:
        validate.integer("--seed", seed, minimum=0)
    result, labels = counted(file, oracle, epsilon, domain, n, column, client_id)
    sets = labels.sets(query)
    # The names are for the reader of the file: errors are averaged over the sets.
    queries = list(sets.values())
    selection = select_method(result.estimate, queries, methods, fitted_by, trials, seed, by=by)
    if as_json:
        print_json({**_record(selection), "answers": _answers(selection, sets)})
    else:
        # The sentences are whole lines, for scripts that read them.
        output.print(selection.title, highlight=False, markup=False, soft_wrap=True)
        output.print(selection_table(selection, output.width))
        for note in selection.notes():
            output.print(note, highlight=False, markup=False, soft_wrap=True)
    again: dict[str, Any] = {"--method": selection.method, "--query": query, "--domain": domain}
    again |= {"--oracle": oracle, "--epsilon": epsilon, "--n": n, "--client-id": client_id}
    # On standard error: the line is no part of the result that a script reads.
    remark(f"Use it with: {_command(file, again, column or [])}")


def _command(file: Path, options: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return the call of ``ldpopt estimate`` with what was stated of the file here."""
    words = ["ldpopt", "estimate", str(file)]
    given = [(name, str(value)) for name, value in options.items() if value is not None]
    for pair in [*given, *(("--column", column) for column in columns)]:
        words += pair
    return shlex.join(words)


def _answers(selection: Any, sets: Mapping[str, Any]) -> dict[str, float]:
    """Return the answers of the selection's estimate by set; empty where it has none here."""
    if selection.estimate is None:
        return {}
    answers = selection.estimate.query(list(sets.values()))
    return dict(zip(sets, answers.tolist(), strict=True))


def _record(selection: Any) -> dict[str, Any]:
    """Return a selection in the types of JSON."""
    return {
        "method": selection.method,
        "fit": selection.fit,
        "trials": selection.trials,
        "scores": [asdict(score) for score in selection.scores],
        "extra": dict(selection.extra),
        "risks": [asdict(row) for row in selection.risks.rows] if selection.risks else [],
        "disagreement": selection.disagreement,
        "weights": dict(selection.weights),
        "dropped": dict(selection.dropped),
    }
