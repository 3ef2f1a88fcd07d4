"""Claims about many settings notice one wrong setting: the worst counts, and no other one.

A claim that took the best case in place of the worst one, or "any" in place of "all", would pass
where everything is right and where everything is wrong. Here a single case is wrong.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from ldpopt.claims import LEDGER, InstanceSet, Verdict
from ldpopt.claims.topics import equivalences, protocols, variances
from ldpopt.oracles import OUE
from ldpopt.oracles.forms import HashForm


@pytest.fixture(scope="module")
def instances():
    """The quick set, for claims that keep nothing on it."""
    return InstanceSet(quick=True)


def verdict(identifier, instances):
    return LEDGER[identifier].check(instances).verdict


# --- protocols ------------------------------------------------------------------------------------


def test_one_oracle_whose_outcomes_reveal_more_than_its_reports_is_noticed(monkeypatch, instances):
    right = protocols.channel
    stated = iter([0.5])  # a part of the privacy loss of the first oracle, and all of the others'

    def understated(oracle):
        law = right(oracle)
        loss = law.privacy_loss * next(stated, 1.0)
        return SimpleNamespace(
            supports=law.supports, probability=law.probability, privacy_loss=loss
        )

    monkeypatch.setattr(protocols, "channel", understated)
    assert verdict("post-processing-private", instances) is Verdict.FAILS


def test_one_outcome_that_reveals_more_than_a_report_is_noticed(monkeypatch, instances):
    # Two reports speak for a value, eight for none: an outcome without the two has the ratio 1.
    law = np.array([[0.4, 0.1], [0.1, 0.4], *[[0.0625, 0.0625]] * 8])
    # Together with two of the eight a report has the ratio 0.525/0.225 > 2.
    stated = SimpleNamespace(supports=law > 0, probability=law, privacy_loss=math.log(2))
    monkeypatch.setattr(protocols, "channel", lambda oracle: stated)
    assert verdict("post-processing-private", instances) is Verdict.FAILS


def test_one_pair_of_values_that_hashes_together_is_noticed(monkeypatch, instances):
    right = HashForm.buckets

    def buckets(self, seeds, values):
        # Of the six pairs one has the value 42,177: its bucket is always the first.
        return right(self, seeds, values) * (values != 42_177)

    monkeypatch.setattr(HashForm, "buckets", buckets)
    assert verdict("hash-uniform", instances) is Verdict.FAILS


def of_oue(monkeypatch, p=None, q=None, at=2.0):
    """Change OUE's coins where ε is the first budget above ``at``, and leave the others."""
    first = []

    def make(epsilon, d):
        right = OUE(epsilon=epsilon, d=d)
        if epsilon > at and epsilon in (first or [epsilon]):
            first.append(epsilon)
            return SimpleNamespace(p=p or right.p, q=right.q if q is None else q)
        return right

    monkeypatch.setattr(variances, "OUE", make)


def test_a_bolder_encoding_at_one_budget_has_not_the_fewest_ones(monkeypatch, instances):
    # p = 0.6 and the same q: 0.1 more 1's than with p = 1/2, which the grid has too.
    of_oue(monkeypatch, p=0.6)
    assert verdict("oue-ones", instances) is Verdict.FAILS


def test_one_budget_at_which_another_encoding_has_fewer_ones_refutes_that_oue_has_the_fewest(
    monkeypatch, instances
):
    # An encoding that sends hardly any 1 is beaten by none, except where OUE is left as it is.
    budgets = variances._budgets(instances, quick=20, full=200)

    def make(epsilon, d):
        if epsilon == budgets[7]:
            return OUE(epsilon=epsilon, d=d)
        return SimpleNamespace(p=0.001, q=0.0)

    monkeypatch.setattr(variances, "OUE", make)
    assert verdict("oue-ones", instances) is Verdict.FAILS


@pytest.mark.parametrize("lost", ["nearest", "floor"])
def test_one_rounding_that_costs_variance_at_one_budget_refutes_that_olh_has_that_of_oue(
    monkeypatch, instances, lost
):
    budget = variances._budgets(instances, quick=100, full=2_000)[60]

    def excess(epsilon, rounding="nearest"):
        return 0.01 if epsilon == budget and rounding == lost else 0.0

    monkeypatch.setattr(variances, "_olh_over_oue", excess)
    # As corrected: up to 2 % where e^ε is no whole number.
    assert verdict("olh-oue", instances) is Verdict.CORRECTED


def test_the_nearest_number_of_buckets_may_cost_two_percent_at_no_budget(monkeypatch, instances):
    budget = variances._budgets(instances, quick=100, full=2_000)[60]

    def excess(epsilon, rounding="nearest"):
        return 0.03 if epsilon == budget else 0.0

    monkeypatch.setattr(variances, "_olh_over_oue", excess)
    assert verdict("olh-oue", instances) is Verdict.FAILS


def test_the_floor_alone_refutes_that_both_roundings_are_the_best(monkeypatch, instances):
    def make(epsilon, d, rounding):
        e = math.exp(epsilon)
        variance = min(variances._hashing_variance(h, e) for h in range(1, int(e) + 4))
        g = 1 + next(
            h for h in range(1, 200) if variances._hashing_variance(h, e) <= variance * (1 + 1e-15)
        )
        if rounding == "floor":
            g += 1
        return SimpleNamespace(a=variances._hashing_variance(g - 1, e), g=g)

    # With "nearest" the best number, nothing is left to correct.
    monkeypatch.setattr(variances, "OLH", make)
    assert verdict("olh-best-g", instances) is Verdict.FAILS


def test_one_budget_at_which_an_encoding_beats_oue_is_noticed(monkeypatch, instances):
    budgets = variances._budgets(instances, quick=20, full=200)

    def make(epsilon, d):
        right = OUE(epsilon=epsilon, d=d)
        return SimpleNamespace(a=right.a * (1 + 1e-6 * (epsilon == budgets[3])))

    monkeypatch.setattr(variances, "OUE", make)
    # SUE's ratio to it would differ too: it is compared with the formula at every budget.
    monkeypatch.setattr(
        variances,
        "SUE",
        lambda epsilon, d: SimpleNamespace(a=make(epsilon, d).a * math.cosh(epsilon / 4) ** 2),
    )
    assert verdict("sue-oue", instances) is Verdict.FAILS


# --- equivalences ---------------------------------------------------------------------------------


def test_one_vector_whose_sum_stays_the_same_beside_delta_is_noticed(monkeypatch, instances):
    right = equivalences._lifted
    for flat in (np.minimum, np.maximum):  # above δ, and below it

        def lifted(raw, shift, flat=flat):
            sums = right(raw, shift)
            # In stacks: a vector by itself is all and any of its kind.
            if len(sums) > 1:
                sums[0] = flat(sums[0], 1.0)
            return sums

        monkeypatch.setattr(equivalences, "_lifted", lifted)
        assert verdict("norm-sub-delta", instances) is Verdict.FAILS


@pytest.mark.parametrize("constant", [True, False])
def test_one_vector_beyond_a_bound_on_the_distance_is_noticed(monkeypatch, instances, constant):
    right = equivalences.multiplier

    def too_small(solution, raw, kappa):
        t = right(solution, raw, kappa)
        if len(t) > 1 and (kappa == 0) == constant:
            t[0] = 0.0
        return t

    monkeypatch.setattr(equivalences, "multiplier", too_small)
    assert verdict("mle-cls-bound", instances) is Verdict.FAILS
