"""Discovery: a closed form of a problem among compositions of operators, or proof of its absence.

The certificate judges, so that what is returned as a form was right on every input; that none
survives is shown by a counterexample to each composition.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.discovery.compositions import Composition, available
from ldpopt.discovery.counterexample import Trial, refutation
from ldpopt.discovery.form import Evidence, Form, NoForm, Refuted
from ldpopt.discovery.inputs import Inputs, as_raw, inputs_of
from ldpopt.discovery.judge import Solutions, screen_of, spread
from ldpopt.discovery.operator import Operator
from ldpopt.discovery.operators import OPERATORS
from ldpopt.discovery.search import Search, Survivor, Tally, Wrong, number_of
from ldpopt.discovery.setting import Setting
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles import OUE
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms import closed_form_for

Array = NDArray[np.float64]

# Inputs with reference solutions: one of each adversarial kind, and some simulated ones.
_SCREEN = 20
# Refuted compositions that are explained: each takes some reference solutions.
_EXPLAINED = 5


def discover(
    problem: Formulation | Callable[[int], Formulation],
    d: int = 12,
    oracle: FrequencyOracle | None = None,
    n: int = 4_000,
    length: int = 3,
    inputs: int = 200,
    rng: np.random.Generator | int | None = 0,
    *,
    operators: Sequence[str] | None = None,
    again: bool = False,
    seconds: float | None = None,
    workers: int | None = None,
    show_progress: bool | None = None,
) -> Form | NoForm:
    """Search for a closed form of a problem among compositions of registered operators.

    Compositions are run in order of their length on random and adversarial inputs. One that is
    infeasible, or clearly worse than a reference solution, for some input is refuted by it; what is
    left is certified on every input, and the first composition that passes is the answer.

    Parameters
    ----------
    problem
        A problem, or a function that returns it for a number of values: the form is then one for
        all of them.
    d
        The number of values at which to search, at least 2.
    oracle
        The protocol of the inputs; ``OUE(1.0, d)`` by default.
    n
        Their number of reports.
    length
        How many operators are composed at most.
    inputs
        The number of inputs.
    rng
        Generator or seed of the simulated inputs: the same seed gives the same answer.
    operators
        Names in ``discovery.OPERATORS`` to search with; by default all whose parameters the problem
        states.
    again
        Whether to search although the library has a closed form already.
    seconds
        Wall time after which the search ends without an answer for what is left.
    workers
        In how many processes operators are run; by default in one per core where that is worth
        their start. The answer is the same for any number.
    show_progress
        Whether a bar counts the compositions; by default on a terminal and in a notebook, after
        two seconds.

    Returns
    -------
    A ``Form``, with ``expression``, ``evidence``, ``refuted``, ``solve(estimate)`` and ``latex()``;
    or a ``NoForm``, which is false in conditions and states which input refuted the best one.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the library has a closed form already (it is named), the loss has no form value by value,
        d < 2, no operator applies, an operator of a user returns another shape or NaN, or the
        problem does not fit the inputs.
    InfeasibleError
        If nothing satisfies the constraints (those that conflict are named).
    WorkersError
        If a process dies.

    Notes
    -----
    Cost: some twenty solutions of the problem by its usual path, up to a second where that is a
    solver; then 10 to 60 ms per operator and hundred compositions, most of it for roots of
    likelihoods; then one certificate per input for the form, 2 to 10 ms each.

    That no composition survives is shown by a counterexample to each. That a form is right is
    shown for the inputs alone: ``Form.solve`` certifies each further one.

    Examples
    --------
    >>> import numpy as np
    >>> from ldpopt import Problem, constraints, losses
    >>> groups = constraints.GroupTotals([[0, 1], [2, 3]], [0.7, 0.3])
    >>> within = constraints.Linear([[1, -1, 0, 0], [0, 0, 1, -1]], 0.0, np.inf)
    >>> problem = Problem(losses.LeastSquares(), [constraints.NonNegative(), groups, within])
    >>> form = discover(problem, d=4, length=2, inputs=40)
    >>> form.expression
    'pool -> level by group'
    >>> form.solve([0.2, 0.6, 0.3, -0.1]).frequencies.round(3)
    array([0.35, 0.35, 0.3 , 0.  ])
    """
    began = time.perf_counter()
    d = validate.integer("d (the number of values)", d, minimum=2)
    length = validate.integer("length (of compositions)", length, minimum=1)
    inputs = validate.integer("inputs", inputs, minimum=1)
    n = validate.integer("n (the number of reports)", n, minimum=1)
    limits = _limits(seconds, workers)
    oracle = _oracle(oracle, d)
    stated = _stated(problem, d, oracle, n)
    _require_judgeable(stated)
    chosen = _chosen(operators)
    accepted = inputs_of(stated, oracle, n, inputs, validate.generator(rng))
    if not again:
        _require_new(stated, accepted)
    solutions = Solutions(stated)
    accepted, trial = _trial(solutions, accepted, spread(accepted.kinds, _SCREEN))
    hunt = Search(
        screen=trial.screen,
        everything=accepted.estimates,
        setting=trial.setting,
        operators=_usable(trial.setting, chosen),
        length=length,
        show_progress=show_progress,
        **limits,
    )
    outcome = _searched(hunt, accepted, trial)
    refuted = _refuted(outcome)
    evidence = _evidence(outcome, began)
    if outcome.survivor is None:
        return NoForm(stated, evidence, refuted)
    form = outcome.survivor.operators
    return Form(stated, evidence, refuted, form, outcome.trial.setting, problem)


class _Outcome(NamedTuple):
    """How a search has ended: its last run, and the inputs that it had then."""

    survivor: Survivor | None
    hunt: Search
    accepted: Inputs
    trial: Trial


def _searched(hunt: Search, accepted: Inputs, trial: Trial) -> _Outcome:
    """Return the end of a search that begins again with every input that refutes a survivor."""
    survivor = hunt.run()
    while isinstance(survivor, Wrong):
        # What the screen could not tell apart it can with these inputs, of which there are few.
        places = np.union1d(trial.places, survivor.inputs)
        accepted, trial = _trial(trial.screen.solutions, accepted, places)
        hunt = replace(hunt, screen=trial.screen, everything=accepted.estimates, tally=Tally())
        survivor = hunt.run()
    return _Outcome(survivor, hunt, accepted, trial)


class _Limits(TypedDict):
    """When a search ends, and in how many processes it runs, as ``Search`` takes them."""

    ends_at: float
    workers: int | None


def _limits(seconds: float | None, workers: int | None) -> _Limits:
    if workers is not None:
        workers = validate.integer("workers", workers, minimum=1)
    if seconds is None:
        return {"ends_at": np.inf, "workers": workers}
    allowed = validate.real("seconds", seconds, above=0)
    return {"ends_at": time.monotonic() + allowed, "workers": workers}


def _oracle(oracle: FrequencyOracle | None, d: int) -> FrequencyOracle:
    if oracle is None:
        return OUE(1.0, d)
    if not isinstance(oracle, FrequencyOracle):
        raise InvalidTypeError(
            f"oracle must be one of ldpopt.oracles, such as OUE(1.0, {d}), got {oracle!r}"
        )
    if oracle.d != d:
        raise InvalidInputError(
            f"the oracle has {oracle.d} values and the search {d}: pass d={oracle.d}, or another "
            "oracle"
        )
    return oracle


def _stated(
    problem: Formulation | Callable[[int], Formulation], d: int, oracle: FrequencyOracle, n: int
) -> Formulation:
    """Return the problem of the searched size, at the present values of its parameters."""
    stated = problem(d) if callable(problem) else problem
    if not isinstance(stated, Formulation):
        raise InvalidTypeError(
            "discover takes a Problem, or a function that returns one for a number of values, got "
            f"{stated!r}"
        )
    return stated.at(as_raw(np.full(d, 1 / d), n, oracle))


def _require_judgeable(problem: Formulation) -> None:
    """Raise an error if a form could not be a function of frequencies, or no certificate judges."""
    loss = problem.loss
    if loss.takes_reports:
        raise InvalidInputError(
            f"{loss!r} has no value-by-value form: it depends on reports, and a composition on "
            "frequencies alone; discovery needs a loss of frequencies, such as BinomialMLE()"
        )
    if loss.scope != "the problem":
        raise InvalidInputError(
            f"{loss!r} is not convex, and its certificate covers {loss.scope}: no composition can "
            "be judged by it"
        )


def _chosen(names: Sequence[str] | None) -> list[Operator]:
    """Return the operators of these names, or all."""
    if names is None:
        return list(OPERATORS.values())
    if isinstance(names, str):
        raise InvalidTypeError(f"operators must be a list of names, got the text {names!r}")
    chosen = [validate.lookup("operator", name, OPERATORS) for name in names]
    if not chosen:
        raise InvalidInputError("operators must name at least one operator")
    return list(dict.fromkeys(chosen))


def _usable(setting: Setting, chosen: Sequence[Operator]) -> list[Operator]:
    """Return the operators whose parameters the problem states, at least one."""
    usable = available(setting, chosen)
    if not usable:
        raise InvalidInputError(
            "no operator applies: the problem states none of the parameters that "
            f"{', '.join(operator.name for operator in chosen)} take; "
            "ldpopt.discovery.OPERATORS lists all of them"
        )
    return usable


def _require_new(problem: Formulation, accepted: Inputs) -> None:
    """Raise an error if the library has a closed form for the problem."""
    match = closed_form_for(problem, accepted.estimates[0])
    if match is not None:
        raise InvalidInputError(
            f"{problem.statement} has a closed form already, {match.name!r}, which problem.solve "
            "uses: pass again=True to search all the same"
        )


def _trial(
    solutions: Solutions, accepted: Inputs, chosen: NDArray[np.int64]
) -> tuple[Inputs, Trial]:
    """Return the inputs without those of the screen that have no solution, and the screen."""
    points, is_solved = solutions.of(accepted.estimates[chosen])
    solved = chosen[is_solved]
    kinds = tuple(accepted.kinds[i] for i in solved)
    screen = screen_of(solutions, accepted.estimates[solved], points[is_solved])
    unsolved = chosen[~is_solved]
    # The places of the others move up where inputs before them leave.
    places = solved - np.searchsorted(unsolved, solved)
    accepted = accepted.without(unsolved)
    return accepted, Trial(screen, kinds, places, Setting.of(solutions.problem, accepted.estimates))


def _refuted(outcome: _Outcome) -> tuple[Refuted, ...]:
    """Return the obvious wrong forms: parts and permutations of the form, then near misses.

    Without a form the best compositions come first.
    """
    near = sorted(outcome.hunt.tally.near, reverse=True)
    candidates = dict.fromkeys(miss.operators for miss in near)
    if outcome.survivor is not None:
        # They are what a reader would try first, whether the search came across them or not.
        variants = dict.fromkeys(_variants(outcome.survivor.operators))
        candidates = variants | candidates
    refuted: list[Refuted] = []
    for operators in candidates:
        one = refutation(operators, outcome.trial)
        if one is not None:
            refuted.append(one)
        if len(refuted) == _EXPLAINED:
            break
    return tuple(refuted)


def _variants(operators: Composition) -> list[Composition]:
    """Return permutations of a composition, and of its parts."""
    sizes = range(len(operators), 0, -1)
    return [
        variant
        for size in sizes
        for variant in itertools.permutations(operators, size)
        if variant != operators
    ]


def _evidence(outcome: _Outcome, began: float) -> Evidence:
    hunt = outcome.hunt
    tally = hunt.tally
    total = number_of(len(hunt.operators), hunt.length)
    kept = outcome.accepted
    # Of no form nothing was certified.
    gap = np.inf
    violation = np.inf
    survivor = outcome.survivor
    if survivor is not None:
        # What has no solution says nothing for a form, and is counted among the rejected.
        kept = kept.without(np.flatnonzero(survivor.is_rejected))
        gap = float(np.nanmax(survivor.verdict.gap))
        violation = float(np.nanmax(survivor.verdict.violation))
    return Evidence(
        inputs=kept.numbers,
        rejected=dict(kept.rejected),
        tried=tally.tried,
        pruned=total - tally.tried - tally.left,
        left=tally.left,
        is_complete=tally.is_complete,
        gap=gap,
        violation=violation,
        seconds=time.perf_counter() - began,
    )
