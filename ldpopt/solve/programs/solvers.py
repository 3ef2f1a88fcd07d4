"""The solvers that this library knows: one record per solver, with all that differs between them.

Any solver that cvxpy finds can be named. Those listed here have settings for each accuracy and a
look of their own in pictures.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ldpopt.descriptors import printed_to
from ldpopt.errors import SolverError
from ldpopt.solve.status import Accuracy

Settings = Mapping[str, Any]

DEFAULT_SOLVER = "CLARABEL"
"""It takes every problem of this library, exponential cones included, and is the fastest where
there are cones. On plain quadratic programs QOCO and PIQP are two or three times as fast."""


@dataclass(frozen=True)
class Solver:
    """A solver and how this library uses it.

    Attributes
    ----------
    name
        As cvxpy spells it.
    low, high
        Settings for these accuracies; ``"default"`` leaves all to the solver.
    package
        The distribution that holds it, as pip and ``importlib.metadata.version`` name it.
    time_limit
        What it calls its limit on wall time in seconds; None where it has none.
    steps
        What it calls its limit on iterations, where a second try needs one that depends on the size
        of the problem; else None.
    extra
        The extra of this library that installs it; None where every installation has it.
    careful
        Slower settings for a second try where it stops for numerical reasons; empty where none
        are known.
    tight
        Tolerances for a second try where its point is inaccurate; empty where none are known.
    first_use
        What makes it print its name, which it does once per process, whatever its options are;
        None where it prints nothing.
    nested
        The option by which cvxpy takes a dictionary of others; None if it has none.
    needs_signs
        Whether it stops early unless absolute values are stated to be no less than 0. Others take
        a fifth longer with these rows.
    largest_cone
        How many entries a second-order cone may have where the solver stores a square matrix for
        each; None without a limit.
    """

    name: str
    low: Settings
    high: Settings
    package: str
    time_limit: str | None = None
    steps: str | None = None
    extra: str | None = None
    careful: Settings = field(default_factory=dict)
    tight: Settings = field(default_factory=dict)
    first_use: Callable[[], object] | None = None
    nested: str | None = None
    needs_signs: bool = False
    largest_cone: int | None = None
    default: Settings = field(default_factory=dict, init=False)

    def settings(self, accuracy: Accuracy) -> dict[str, Any]:
        """Return the options that stand for an accuracy."""
        return dict(getattr(self, accuracy))


def _all(tolerance: float, *names: str, **others: Any) -> Settings:
    """Return one tolerance under several names, and other options."""
    return {**dict.fromkeys(names, tolerance), **others}


def _first_of_highs() -> object:
    """Return an object whose constructor prints HiGHS's name, if it is the first."""
    return import_module("highspy").Highs()


_CLARABEL = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
_HIGHS = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
_EPS = ("eps_abs", "eps_rel")
_NO_MINIMUM = ("eps_prim_inf", "eps_dual_inf")
_PIQP = (*_EPS, "eps_duality_gap_abs", "eps_duality_gap_rel")
_QOCO = ("abstol", "reltol")

# "high" is the tightest that each solver reaches on real estimates.
_KNOWN = (
    Solver(
        "CLARABEL",
        # Low is the same for all: what a quick look needs.
        low=_all(1e-4, *_CLARABEL),
        high=_all(1e-9, *_CLARABEL),
        package="clarabel",
        time_limit="time_limit",
        # With short steps allowed it solves likelihoods of a thousand values and more, on which
        # it stops otherwise ("insufficient progress"): in some 250 steps instead of 20.
        careful={"min_switch_step_length": 1e-3, "max_iter": 1000},
        # Its tolerances are absolute too: where the minimum is small beside what the objective is
        # scaled by, the usual ones are some 1e-7 of it. Below these rounding often stops it.
        tight=_all(1e-12, *_CLARABEL),
    ),
    Solver(
        "HIGHS",
        low=_all(1e-4, *_HIGHS),
        high=_all(1e-10, *_HIGHS),
        package="highspy",
        time_limit="time_limit",
        first_use=_first_of_highs,
        nested="highs_options",
        extra="solvers",
    ),
    Solver(
        "OSQP",
        low=_all(1e-4, *_EPS),
        # Its looser proofs that there is no minimum are wrong where prices are small.
        high=_all(1e-9, *_EPS, *_NO_MINIMUM, max_iter=100_000, polishing=True),
        package="osqp",
        time_limit="time_limit",
        needs_signs=True,
    ),
    Solver(
        "PIQP",
        low=_all(1e-4, *_PIQP),
        high=_all(1e-10, *_PIQP),
        package="piqp",
        extra="solvers",
    ),
    Solver(
        "QOCO",
        low=_all(1e-4, *_QOCO),
        high=_all(1e-8, *_QOCO),  # below that it often stops for numerical reasons
        package="qoco",
        needs_signs=True,
        # A minute and a quarter of a gigabyte, both of which grow at least with the square: at
        # 30,000 entries the system ends the process. It has no limit on time.
        largest_cone=2048,
    ),
    Solver(
        "SCS",
        low=_all(1e-4, *_EPS),
        high=_all(1e-10, *_EPS, max_iters=50_000),
        package="scs",
        time_limit="time_limit_secs",
        steps="max_iters",
        needs_signs=True,
    ),
)

SOLVERS: Mapping[str, Solver] = MappingProxyType({solver.name: solver for solver in _KNOWN})
"""The known solvers by name."""


@cache
def installed_solvers() -> tuple[str, ...]:
    """Return the solvers that cvxpy finds on this machine; looked up once per process."""
    import cvxpy as cp

    return tuple(cp.installed_solvers())


def installed(name: str) -> str:
    """Return cvxpy's spelling of a solver's name; an unknown name raises a ``SolverError``."""
    names = installed_solvers()
    wanted = str(name).upper()
    # By what cvxpy finds, not by SOLVERS: solvers without a record here work too.
    if wanted in names:
        return wanted
    # Names are short, so that half of one is in many others: only near ones are suggested.
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.7)
    hint = f": did you mean {near[0]!r}?" if near else ""
    record = SOLVERS.get(wanted)
    extra = ""
    if record is not None and record.extra is not None:
        extra = f"; {wanted} comes with: pip install 'ldpopt[{record.extra}]'"
    here = f"(installed here: {', '.join(names)}{extra})"
    if wanted in _known_to_cvxpy():
        raise SolverError(
            f"the solver {wanted} is not installed {here}: install it, or name another"
        )
    raise SolverError(f"unknown solver {name!r}{hint} {here}")


def _known_to_cvxpy() -> frozenset[str]:
    """Return the names of all solvers that cvxpy has an interface to, installed or not."""
    from cvxpy.reductions.solvers import defines

    return frozenset([*defines.SOLVER_MAP_CONIC, *defines.SOLVER_MAP_QP])


@dataclass(frozen=True)
class Running:
    """How a solver is run, beside its settings.

    Attributes
    ----------
    verbose
        Whether it prints its progress.
    warm_start
        Whether it starts at its last result, if it can; its point then depends on what was solved
        before.
    workers
        In how many processes the trials of a stack are solved; None for one per core.
    progress
        Whether a bar shows how many trials are solved; None if somebody watches.
    """

    verbose: bool = False
    warm_start: bool = False
    workers: int | None = 1
    progress: bool | None = None


COLD = Running()
"""What every solve does unless the caller says otherwise."""


@cache
def hide_its_name(solver: str) -> None:
    """Let a solver print its name where nobody sees it, if it does so at its first use."""
    record = SOLVERS.get(solver)
    if record is None or record.first_use is None:
        return
    with Path(os.devnull).open("wb") as nowhere, printed_to(nowhere.fileno()):
        record.first_use()


def time_limit(solver: str, seconds: float) -> dict[str, Any]:
    """Return the option by which a solver stops after so many seconds.

    Raises
    ------
    SolverError
        If none is known.
    """
    record = SOLVERS.get(solver)
    if record is None or record.time_limit is None:
        limited = ", ".join(one.name for one in _KNOWN if one.time_limit is not None)
        raise SolverError(
            f"{solver} has no time limit that this library knows: leave time_limit out, or use "
            f"one of {limited}"
        )
    return {record.time_limit: seconds}


def by_name(solver: str, options: Settings) -> dict[str, Any]:
    """Return options each by its own name, those of a dictionary among them too.

    cvxpy refuses a dictionary that repeats an option, and settings for an accuracy may be repeated.

    Raises
    ------
    SolverError
        If the options themselves state one of them twice, or the dictionary is none.
    """
    record = SOLVERS.get(solver)
    if record is None or record.nested is None or record.nested not in options:
        return dict(options)
    others = dict(options)
    nested = others.pop(record.nested)
    if not isinstance(nested, Mapping):
        raise SolverError(
            f"{record.nested} must be a dictionary from names of options to values, got {nested!r}"
        )
    for name in nested:
        if name in others:
            raise SolverError(
                f"{solver} gets the option {name} twice: {others[name]!r}, and {nested[name]!r} "
                f"in {record.nested}; state it once"
            )
    return {**others, **nested}


def settings(solver: str, accuracy: Accuracy, options: Settings) -> dict[str, Any]:
    """Return a solver's options at an accuracy; the given ones take precedence."""
    record = SOLVERS.get(solver)
    return {**(record.settings(accuracy) if record is not None else {}), **options}


OTHERS = ("QOCO", "SCS")
"""The solvers for a second try, of which the first that takes a problem gets it: every installation
has both. QOCO is quick; SCS takes every cone, and its method has other weaknesses."""

# Iterations times values per trial of a second try: some ten seconds, for thousands of values too.
# They are counted: what ends after so much time ends elsewhere where other programs run beside it.
_WORK = 15_000_000

# Seconds after which it ends all the same, as iterations on many dense rows take far longer.
_PATIENCE = 120.0


def patient(solver: str, seconds: float | None, d: int) -> dict[str, Any]:
    """Return the options that limit a second try for d values, by ``seconds`` if given."""
    record = SOLVERS.get(solver)
    if record is None or record.time_limit is None:
        return {}
    if seconds is not None:
        return {record.time_limit: seconds}
    options: dict[str, Any] = {record.time_limit: _PATIENCE}
    if record.steps is not None:
        options[record.steps] = min(max(_WORK // d, 100), record.high[record.steps])
    return options
