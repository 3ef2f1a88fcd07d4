"""The ledger's test of itself: errors are planted, claims notice them, a missed one is reported."""

import signal
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ldpopt import closed_form
from ldpopt.claims import LEDGER, Claim, Finding, Verdict, planted
from ldpopt.claims.figures import run as figures_run
from ldpopt.claims.planted import catalogue, closed_forms, oracles, priors, proofs, run
from ldpopt.claims.planted.error import (
    PlantedError,
    Sighting,
    replace_attribute,
    replace_function,
)
from ldpopt.claims.planted.error import planted as make_error
from ldpopt.closed_form import simplex, thresholds
from ldpopt.oracles import HadamardResponse
from tests.commands import run as command

KEPT_RUN = Path(__file__).parent.parent / "experiments" / "results"


# --- the catalogue --------------------------------------------------------------------------------


def test_there_are_62_errors_and_their_claims_exist():
    assert len(planted.ERRORS) == planted.NUMBER == 68
    assert len(planted.TABLE_ERRORS) == planted.TABLE_NUMBER == 8
    for error in planted.ERRORS.values():
        assert error.claims, error.id
        assert set(error.claims) <= set(LEDGER), error.id


def blocked_signals(*_):
    return signal.pthread_sigmask(signal.SIG_BLOCK, set())


def interrupt(_):
    # Where the tests run in the background, a shell may have Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def test_interruptions_of_a_self_test_end_calls_and_print_nothing(monkeypatch, capfd):
    # Before a call no process sees one, though that which forks them was started for others.
    other = run._context().Process(target=int)
    other.start()
    other.join()
    with monkeypatch.context() as patch:
        patch.setattr(run, "interruptible", blocked_signals)
        (blocked,) = planted.self_test(1, identifiers=[planted.NOTHING])
    assert signal.SIGINT in blocked
    monkeypatch.setattr(run, "look_for", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(planted.self_test(1, identifiers=[planted.NOTHING]))
    assert capfd.readouterr().err == ""


def test_every_error_says_what_it_is_in_words_of_its_own():
    descriptions = [error.what for error in planted.ERRORS.values()]
    assert len(set(descriptions)) == len(descriptions)


def test_two_errors_of_one_id_are_refused():
    module = ModuleType("toy")
    module.first = make_error("same", "toy", "first", "oue-flip")(lambda: None)
    module.second = make_error("same", "toy", "second", "oue-flip")(lambda: None)
    with pytest.raises(TypeError, match="there is an error 'same' already"):
        catalogue.collect(module)


# --- planting -------------------------------------------------------------------------------------


def test_a_function_is_replaced_wherever_it_was_imported(monkeypatch):
    right = simplex.norm_sub
    holders = [
        (module, name)
        for key, module in sys.modules.items()
        if key.startswith("ldpopt")
        for name, value in list(vars(module).items())
        if value is right
    ]
    assert (thresholds, "norm_sub") in holders
    for module, name in holders:
        monkeypatch.setattr(module, name, right)  # restored after the test
    replace_function(right, np.sort)
    assert all(getattr(module, name) is np.sort for module, name in holders)


def test_an_error_is_never_planted_where_nothing_looks():
    with pytest.raises(AttributeError):
        replace_attribute(thresholds, "norm_subtract", np.sort)
    with pytest.raises(LookupError, match="no module of the package holds"):
        replace_function(lambda: None, np.sort)


# --- searches -------------------------------------------------------------------------------------


def toy(claims, *, verdict=Verdict.HOLDS, error=None):
    """Return a ledger of toy claims that note when they run; ``flip`` has this verdict."""

    def check(name):
        def run_it(instances):
            claims.append(name)
            if name == "flip" and error is not None:
                raise error
            return Finding(name != "flip" or verdict is Verdict.HOLDS, 1, {})

        return run_it

    names = ("first", "flip", "last")
    return {n: Claim(n, "toy", "toy", Verdict.HOLDS, check(n)) for n in names}


def look(monkeypatch, ledger, *claims):
    error = PlantedError("toy", "toy", "nothing", claims, lambda: None)
    monkeypatch.setattr(run, "LEDGER", ledger)
    monkeypatch.setattr(run, "ERRORS", {"toy": error})
    return planted.look_for("toy")


def test_the_named_claims_run_first_and_the_search_ends_with_the_first_red(monkeypatch):
    ran = []
    sighting = look(monkeypatch, toy(ran, verdict=Verdict.FAILS), "last")
    assert ran == ["last", "first", "flip"]
    assert (sighting.claim, sighting.how, sighting.claims_run) == ("flip", "fails", 3)
    assert sighting.is_seen


def test_an_exception_is_a_sighting(monkeypatch):
    sighting = look(monkeypatch, toy([], error=ZeroDivisionError()), "flip")
    assert sighting.claim == "flip"
    assert sighting.how.startswith("raised ZeroDivisionError (test_planted_errors.py, line ")


def test_an_error_that_no_claim_sees_is_missed(monkeypatch):
    ran = []
    sighting = look(monkeypatch, toy(ran), "flip")
    assert ran == ["flip", "first", "last"]
    assert (sighting.claim, sighting.claims_run, sighting.is_seen) == ("", 3, False)


def test_without_an_error_all_claims_that_errors_name_run(monkeypatch):
    ran = []
    ledger = toy(ran)
    look(monkeypatch, ledger, "last", "first")
    ran.clear()
    assert not planted.look_for(planted.NOTHING).is_seen
    assert ran == ["last", "first"]


def test_a_handful_of_errors_in_processes_of_their_own():
    """Errors that the ledger once missed, and quick ones: each process meets one alone."""
    chosen = ("fast-path-filter", "olh-g", "power-noise-1", "sum-multiplier-sign", "sigma-scale")
    sightings = {s.error: s for s in planted.self_test(2, identifiers=chosen)}
    for identifier in chosen:
        assert sightings[identifier].claim == planted.ERRORS[identifier].claims[0]
        assert sightings[identifier].how == "fails"
    # Nothing of it has reached this process.
    assert simplex.norm_sub(np.array([0.75, 0.5])).tolist() == [0.625, 0.375]


@pytest.fixture
def plant(monkeypatch):
    """Plant an error in this process, until the test ends; return the names that it replaces."""
    names = []

    def attribute(owner, name, replacement):
        # Without such an attribute this is an error, as it is for the ledger.
        monkeypatch.setattr(owner, name, replacement)
        names.append(name)

    def function(right, wrong):
        modules = [m for name, m in list(sys.modules.items()) if name.startswith("ldpopt")]
        for module in modules:
            for name, value in list(vars(module).items()):
                if value is right:
                    attribute(module, name, wrong)

    for module in (closed_forms, oracles, priors, proofs):
        monkeypatch.setattr(module, "replace_attribute", attribute)
        if hasattr(module, "replace_function"):
            monkeypatch.setattr(module, "replace_function", function)

    def plant(identifier):
        planted.ERRORS[identifier].plant()
        return names

    return plant


@pytest.mark.parametrize("identifier", planted.ERRORS)
def test_every_error_has_a_place_to_be_planted(plant, identifier):
    assert plant(identifier)


def test_a_lower_threshold_keeps_what_lies_between(plant):
    plant("base-cut-below")
    # Nine tenths of 0.1 are 0.09.
    assert closed_form.base_cut(np.array([0.5, 0.095, 0.085]), 0.1).tolist() == [0.5, 0.095, 0.0]


def test_the_constant_row_is_owned_in_stacks_too(plant):
    plant("hr-rows")
    form = HadamardResponse(epsilon=1.0, d=3).report_form
    stack = np.array([[0.5, 0.25, 0.25], [0.125, 0.0, 0.875]])
    assert np.array_equal(form.sums(stack), [form.sums(f) for f in stack])
    # Every index supports the value that owns the constant row.
    assert np.array_equal(form.sums(np.array([1.0, 0.0, 0.0])), np.ones(form.size))


def test_without_an_error_the_kept_tables_are_as_expected():
    sighting = planted.look_at_tables(planted.NOTHING, KEPT_RUN)
    assert (sighting.claim, sighting.claims_run) == ("", 126)


@pytest.mark.parametrize("identifier", planted.TABLE_ERRORS)
def test_errors_in_the_tables_of_the_figures_are_noticed(monkeypatch, identifier):
    for name in ("STATEMENTS", "judge"):
        monkeypatch.setattr(figures_run, name, getattr(figures_run, name))  # restored afterwards
    sighting = planted.look_at_tables(identifier, KEPT_RUN)
    assert sighting.is_seen
    # A table that is missing leaves statements open, or is named itself.
    assert sighting.how not in ("", "holds") or identifier == "figures-verdict"


# --- the command ----------------------------------------------------------------------------------


def sightings_of(*unseen):
    """Return a self-test in which these errors go unnoticed."""

    def self_test(workers, figures=None):
        yield Sighting(planted.NOTHING, "", "", 20, 1.0)
        for identifier in [*planted.ERRORS, *(planted.TABLE_ERRORS if figures else ())]:
            claim = "" if identifier in unseen else "cls-norm-sub"
            yield Sighting(identifier, claim, "fails", 1, 1.0)

    return self_test


def test_the_command_prints_which_claim_notices_each_error(monkeypatch):
    monkeypatch.setattr(planted, "self_test", sightings_of())
    result = command("verify", "--self-test")
    assert result.status == 0
    assert all(identifier in result.out for identifier in planted.ERRORS)
    assert result.err.splitlines()[-1] == "68 of 68 planted errors noticed."


def test_the_command_plants_errors_in_tables_too(monkeypatch):
    monkeypatch.setattr(planted, "self_test", sightings_of("figures-mse"))
    result = command("verify", "--self-test", "--figures", KEPT_RUN)
    assert result.status == 1
    assert "75 of 76 planted errors noticed; no claim sees: figures-mse" in result.err


def test_the_command_fails_where_the_catalogue_has_lost_an_error(monkeypatch):
    kept = dict(list(planted.ERRORS.items())[1:])
    monkeypatch.setattr(planted, "ERRORS", kept)
    monkeypatch.setattr(planted, "self_test", sightings_of())
    result = command("verify", "--self-test")
    assert result.status == 1
    assert "There are 67 errors to plant, and not 68." in result.err


def test_a_folder_without_tables_is_no_sighting(tmp_path):
    result = command("verify", "--self-test", "--figures", tmp_path)
    assert result.status == 2
    assert "has no tables of the figures" in result.err


def test_the_command_fails_where_an_error_goes_unnoticed(monkeypatch):
    monkeypatch.setattr(planted, "self_test", sightings_of("gap-0", "olh-p"))
    result = command("verify", "--self-test")
    assert result.status == 1
    assert "66 of 68 planted errors noticed; no claim sees: olh-p, gap-0" in result.err


def test_the_command_fails_where_a_claim_is_red_without_an_error(monkeypatch):
    def self_test(workers, figures=None):
        yield from sightings_of()(workers)
        yield Sighting(planted.NOTHING, "norm-cls", "fails", 3, 1.0)

    monkeypatch.setattr(planted, "self_test", self_test)
    result = command("verify", "--self-test")
    assert result.status == 1
    assert "Without a planted error the claim norm-cls is not as expected." in result.err
