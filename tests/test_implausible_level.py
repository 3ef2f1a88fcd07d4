"""A confidence of 0.05 where 0.95 is meant, or a significance of 0.95, is noticed."""

import warnings

import numpy as np
import pytest

from ldpopt import Problem, compare_risk, oracles, rounds
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.errors import ImplausibleLevelWarning
from ldpopt.losses import LeastSquares
from ldpopt.priors import PowerLaw
from ldpopt.studies.audit import audit_oracle

ORACLE = oracles.OUE(epsilon=1.0, d=4)
RAW = ORACLE.estimate([3870, 3360, 3010, 2680], n=10_000)
ROUNDS = rounds([RAW, RAW], independent=True)
PROBLEM = Problem(LeastSquares(), [NonNegative(), SumsTo(1)])

BORDERS = {
    "interval": lambda level: RAW.interval(level),
    "of a solution": lambda level: PROBLEM.solve(RAW).interval(level),
    "of a problem": lambda level: PROBLEM.interval(RAW, level),
    "of a prior": lambda level: PowerLaw(1.5, 1000).interval([30.0], 100.0, level),
    "of rounds": lambda level: ROUNDS.plot([0], level),
    "shown": lambda level: RAW.shown(2, level=level),
    "risk": lambda level: compare_risk(RAW, ["norm", "norm-sub"], level=level, probes=2),
    "audit of an oracle": lambda level: audit_oracle(ORACLE, reports=1000, confidence=level),
}


@pytest.mark.parametrize("border", BORDERS)
def test_a_confidence_below_one_half_is_noticed_in_the_callers_line(border):
    with pytest.warns(ImplausibleLevelWarning, match=r" is 0\.95 for 95 %, and") as record:
        BORDERS[border](0.05)
    message = str(record[0].message)
    assert message.endswith("0.05 stands for 5 %: pass 0.95 if 0.05 is the probability of a miss")
    assert record[0].filename == __file__


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_other_levels_pass(border, level):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImplausibleLevelWarning)
        BORDERS[border](level)


def test_the_level_keeps_its_meaning():
    with pytest.warns(ImplausibleLevelWarning):
        narrow = RAW.interval(0.05)
    assert np.all(narrow[1] - narrow[0] < 0.01)


def test_a_confidence_in_place_of_a_significance_is_noticed():
    with pytest.warns(ImplausibleLevelWarning, match=r"level is 0\.05 for a test .* pass 0\.05 if"):
        PROBLEM.audit(RAW, level=0.95, trials=19)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImplausibleLevelWarning)
        PROBLEM.audit(RAW, level=0.05, trials=19)
