"""What is done to an estimate under each name of a study: one method, or several in a row."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ldpopt.errors import LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, Method, method_of, named_methods

Options = tuple[tuple[str, Any], ...]
Step = tuple[Method, Options]


@dataclass(frozen=True)
class Candidate:
    """A name of a study: its label, and the methods with options that it stands for, in turn."""

    name: str
    label: str
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, what: Any, name: str | None = None) -> Candidate:
        """Return what ``method_of`` takes as a candidate, under its own name if none is given."""
        method = method_of(what, name)
        # A built-in method keeps the papers' spelling, unless the caller has another name for it.
        label = method.label if name in (None, method.name) else str(name)
        return cls(name or method.name, label, ((method, ()),))

    @property
    def own_parts(self) -> tuple[Any, ...]:
        """The problems and functions of its methods that this library does not have."""
        users = [m for m, _ in self.steps if METHODS.get(m.name) is not m]
        return tuple(part for m in users for part in (m.stated, m.transform))

    def declaration(self) -> list[Any]:
        """Return the steps as JSON takes them.

        By steps: a name that is redefined must not find the numbers of its old meaning.
        """
        return [[method.name, options] for method, options in self.steps]


def candidates_of(what: Any) -> tuple[Candidate, ...]:
    """Return candidates from what ``named_methods`` takes: one, several, or several by name.

    Examples
    --------
    >>> [candidate.name for candidate in candidates_of({"cut": "base-pos", "all": "base"})]
    ['cut', 'all']
    """
    return tuple(Candidate.of(method, name) for name, method in named_methods(what).items())


def _after_step(
    before: FrequencyEstimate, method: Method, options: Iterable[tuple[str, Any]]
) -> FrequencyEstimate:
    """Return an estimate after one step of a candidate."""
    with warnings.catch_warnings():
        # K cuts Calibrate's output at the noise of raw estimates, knowing that it has less.
        warnings.filterwarnings("ignore", "the noise level is that of raw", LdpoptWarning)
        return method.solve(before, **dict(options))


def apply(
    candidates: Iterable[Candidate], raw: FrequencyEstimate, seconds: dict[str, float]
) -> dict[str, FrequencyEstimate]:
    """Return the raw estimate after each candidate; common first steps are taken once.

    The time of each candidate is added to ``seconds``; a shared step counts for each candidate that
    shares it.
    """
    # By the steps and not by the name: two names may begin alike.
    done: dict[tuple[Step, ...], tuple[FrequencyEstimate, float]] = {(): (raw, 0.0)}
    result = {}
    for candidate in candidates:
        steps = candidate.steps
        # From the shortest beginning on: PowerNS finds what Power has computed already.
        for end in range(1, len(steps) + 1):
            if steps[:end] in done:
                continue
            before, spent = done[steps[: end - 1]]
            start = time.perf_counter()
            after = _after_step(before, *steps[end - 1])
            spent += time.perf_counter() - start
            done[steps[:end]] = after, spent
        result[candidate.name], spent = done[steps]
        seconds[candidate.name] = seconds.get(candidate.name, 0.0) + spent
    return result
