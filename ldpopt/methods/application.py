"""From whatever names or states a method to the method, and to the estimate after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods.method import Method
from ldpopt.methods.own_function import OwnFunction
from ldpopt.methods.table import METHODS
from ldpopt.solve.composition import Composition
from ldpopt.solve.problem import Problem


@dataclass(frozen=True, eq=False)
class _Stated:
    """A problem of the user as the function that states it."""

    problem: Problem | Composition

    def __call__(self) -> Problem | Composition:
        return self.problem


def method_of(what: Any, name: str | None = None) -> Method:
    """Return a method: one of ``METHODS`` by its name, or one of the user's own.

    Parameters
    ----------
    what
        A name in ``METHODS``, a Method, a Problem, or a function from an estimate of shape (d,) to
        frequencies of that shape. Its keyword-only arguments are options of the method.
    name
        Of a method of one's own; by default the function's, or the problem in words.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name is unknown, or ``what`` is none of these.

    Examples
    --------
    >>> def halved(estimate, *, factor=0.5):
    ...     return factor * estimate.frequencies
    >>> method_of(halved).options
    {'factor': 0.5}
    >>> method_of(halved).solve(FrequencyEstimate([0.5, 0.25]), factor=0.1).frequencies
    array([0.05 , 0.025])
    """
    if isinstance(what, str):
        return METHODS[what]
    if isinstance(what, Method):
        return what
    # Before functions: a problem is no function, and has a name of its own.
    if isinstance(what, Problem | Composition):
        stated = what.statement if isinstance(what, Problem) else what.name
        return _users_method(name or stated, what.formula, stated=_Stated(what))
    if callable(what) and not isinstance(what, type):
        label = name or str(getattr(what, "__name__", type(what).__name__))
        return _users_method(label, "", transform=OwnFunction(label, what))
    raise InvalidTypeError(
        "a method is a name such as 'norm-sub', a Problem, or a function from an estimate to "
        f"frequencies, got {what!r}"
    )


def named_methods(what: Any) -> dict[str, Method]:
    """Return methods by name: one of what ``method_of`` takes, several, or several by name.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is none, one of them is no method, or two have one name.

    Examples
    --------
    >>> list(named_methods({"ours": lambda estimate: estimate.frequencies, "theirs": "norm"}))
    ['ours', 'theirs']
    """
    methods: dict[str, Method] = {}
    if isinstance(what, Mapping):
        methods = {str(name): method_of(method, str(name)) for name, method in what.items()}
    else:
        # A text is iterable too: its letters are no methods.
        is_single = isinstance(what, str | Method | Composition) or not np.iterable(what)
        for place, item in enumerate([what] if is_single else what):
            method = method_of(item)
            if method.name in methods:
                raise InvalidInputError(
                    f"candidates must be distinct, got {method.name!r} again at position {place}: "
                    "pass a dictionary from distinct names to candidates"
                )
            methods[method.name] = method
    if not methods:
        raise InvalidInputError("candidates must hold at least one method, got none")
    return methods


def _users_method(name: str, description: str, **how: Any) -> Method:
    """Return a method of the user, of which nothing is guaranteed."""
    return Method(
        name=name,
        label=name,
        description=description or "a function of your own",
        source="your own",
        complexity="",
        nonnegative="no",
        sums_to_one="no",
        preserves_order=False,
        **how,
    )


def postprocess(
    estimate: FrequencyEstimate | ArrayLike,
    method: str | Method | Problem | Composition | Callable[..., Any],
    **options: Any,
) -> FrequencyEstimate:
    """Apply a method of Table I, or your own, to an estimate or a stack of trials.

    Parameters
    ----------
    estimate
        A FrequencyEstimate; a plain array of shape (..., d) is enough for methods that need no
        noise.
    method
        A name in ``METHODS``, a Problem, or a function from an estimate of shape (d,) to
        frequencies, which is called trial by trial: see ``method_of``.
    **options
        Options of the method: ``groups`` for ``npmle-ns``, ``mixture-ns`` and ``auto-ns``
        (disjoint sets of values, such as categories, whose totals a prior alone would shrink: they
        are means of the raw ones and of the values' sums, by precision); ``alpha`` (expected false
        positives, 2)
        and ``top_k`` (number of values of interest, if known) for ``base-cut`` and ``norm-hyb``;
        ``beta`` (expected false positives, .05) for ``base-zero``. Three more give what the code
        that drew N's figures computes: ``crossing="keep"`` for ``norm-cut`` (it keeps the value
        that crosses the sum of 1, and rescales), ``zero_first=True`` for ``norm-sub`` (values that
        are not positive stay 0), ``binned=True`` for ``power`` and ``power-ns`` (posterior means
        at estimates in bins of ten counts).

    Returns
    -------
    FrequencyEstimate with the same noise and labels, named after the method, which keeps the raw
    one for intervals. A further method starts from its frequencies: the clipping of answers by
    ``post-pos`` does not carry over.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the method or an option is unknown, a number is not finite, the noise is needed and
        not known, or the method has no answer (``norm-mul`` and ``zero_first`` with no positive
        estimate, ``crossing="keep"`` where all estimates are kept and sum to 0 or less). If a
        function of yours changes its input, takes it for an array, or returns another shape or
        numbers that are not finite.

    Warns
    -----
    LdpoptWarning
        If a method that uses the noise (``base-cut`` and ``norm-hyb`` without ``top_k``,
        ``base-zero``, ``mle-apx``, and those with a prior) gets a processed estimate: it is
        made for raw ones.

    Notes
    -----
    Cost: Table I, for all trials at once. The frequencies are those of
    ``METHODS[method].problem.solve(estimate)``, where the method has a problem.

    Examples
    --------
    >>> postprocess([0.5, 0.2, -0.01], "norm-sub").frequencies.round(3)
    array([0.603, 0.303, 0.093])
    >>> postprocess([0.5, -0.1], lambda estimate: abs(estimate.frequencies)).frequencies
    array([0.5, 0.1])
    """
    # A problem of the user may state a total of its own, in whose unit the numbers are.
    read = method.start_of if isinstance(method, Problem) else FrequencyEstimate.of
    return method_of(method).solve(read(estimate), **options)
