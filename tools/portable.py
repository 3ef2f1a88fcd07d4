"""Run the tests as other processors would: the last bits of a sum differ, the answers must not.

    python -m tools.portable           # numerical tests, doctests and notebooks, by variant
    python -m tools.portable --short   # doctests and the core of the numerical tests
    python -m tools.portable --only nehalem,numpy -- -x tests/test_priors.py

OpenBLAS, numpy and numba choose their kernels by the processor that they find, and each kernel adds
in another order. A variant sets the choice by environment variables. Before its tests run, a probe
in the same environment states which kernels are in use: a variant that this processor cannot run is
skipped with a line that says so, and one that the libraries ignored is an error. One whose kernels
run by default is left to the ordinary run of the tests, unless ``--only`` names it. Each variant
shows every tenth of its tests. The status is 1 if a variant failed; the failing tests are named at
the end.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tools.runs import Progress, run_tests, without_paths
from tools.texts import ROOT

Probe = dict[str, Any]

MODULE = "tools.portable"

NOT_NUMERICAL = (
    "tests/test_architecture.py",
    "tests/test_bench.py",
    "tests/test_cli.py",
    "tests/test_collection_aggregation.py",
    "tests/test_collection_cli.py",
    "tests/test_collection_files.py",
    "tests/test_collection_layout.py",
    "tests/test_contributing.py",
    "tests/test_dask.py",
    "tests/test_datasets.py",
    "tests/test_environments.py",
    "tests/test_tools.py",
    "tests/test_validate.py",
)
"""Test files that add whole numbers alone, or that test files and commands."""

CORE = ("ldpopt", "tests/test_docs.py", "tests/test_mixture.py", "tests/test_mixture_weights.py")
"""What the short run runs: every doctest, the pages' examples, and what is most sensitive
to rounding, maximum likelihood over a continuum of priors."""


@dataclass(frozen=True)
class Variant:
    """Kernels of another processor: how to choose them, what they need, and whether they run."""

    name: str
    environment: dict[str, str]
    needs: tuple[str, ...]
    in_use: Callable[[Probe], bool]

    def obstacle(self, probe: Probe) -> str | None:
        """Return why this processor cannot run the variant, or None."""
        # A kernel that the processor lacks would end the process, not fail a test.
        missing = [feature for feature in self.needs if feature not in probe["processor"]]
        if missing:
            return f"this processor has no {', '.join(missing)}"
        if "OPENBLAS_CORETYPE" in self.environment and not probe["blas"]:
            return "numpy and scipy are not built with OpenBLAS here"
        return None


def _blas(name: str, core: str, *needs: str) -> Variant:
    environment = {"OPENBLAS_CORETYPE": core}
    # numpy and scipy each load a copy of OpenBLAS: both must have followed.
    return Variant(name, environment, needs, lambda probe: set(probe["blas"]) == {core})


def variants(probe: Probe) -> list[Variant]:
    """Return all variants, given what runs on this machine by default."""
    switched_off = " ".join(probe["numpy"])
    # numpy refuses an empty list; nothing to switch off means that nothing is dispatched.
    no_dispatch = {"NPY_DISABLE_CPU_FEATURES": switched_off} if switched_off else {}
    generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    return [
        _blas("haswell", "Haswell", "AVX2", "FMA3"),
        _blas("skylakex", "SkylakeX", "AVX512_SKX"),
        _blas("nehalem", "Nehalem", "SSE42"),
        Variant("numpy", no_dispatch, (), lambda probe: probe["numpy"] == []),
        Variant("numba", generic, (), lambda probe: probe["numba"] == "generic"),
    ]


def short_variants(probe: Probe) -> list[Variant]:
    """Return the two ends: the oldest processor in all three libraries, and AVX-512."""
    by_name = {variant.name: variant for variant in variants(probe)}
    parts = [by_name[name] for name in ("nehalem", "numpy", "numba")]
    oldest = Variant(
        "oldest",
        {key: value for part in parts for key, value in part.environment.items()},
        by_name["nehalem"].needs,
        lambda probe: all(part.in_use(probe) for part in parts),
    )
    return [oldest, by_name["haswell"], by_name["skylakex"]]


def kernels() -> Probe:
    """Return which kernels this process runs, and what its processor could."""
    import numba
    import scipy.linalg  # noqa: F401 loads its own copy of OpenBLAS
    from threadpoolctl import threadpool_info

    umath = importlib.import_module("numpy._core._multiarray_umath")
    present = [name for name, is_present in umath.__cpu_features__.items() if is_present]
    # As JSON: another process reads it.
    return {
        "blas": [
            library["architecture"]
            for library in threadpool_info()
            if library["internal_api"] == "openblas"
        ],
        "numpy": [name for name in umath.__cpu_dispatch__ if name in present],
        "numba": vars(numba.config).get("CPU_NAME") or "host",
        "processor": present,
    }


class ProbeError(Exception):
    """A process with the variables of a variant does not start; the message is what it printed."""


def _probe(environment: dict[str, str]) -> Probe:
    """Return the kernels of a new process with these variables."""
    command = [sys.executable, "-m", MODULE, "--probe"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ProbeError(without_paths(done.stderr.strip()))
    result: Probe = json.loads(done.stdout)
    return result


@dataclass(frozen=True)
class Result:
    """Whether a variant passed or cannot run here, and what is printed of it."""

    fine: bool
    lines: str


def _run(variant: Variant, here: Probe, arguments: list[str]) -> Result:
    """Run one variant, print what came of it and return it."""
    result = _result(variant, here, arguments)
    print(f"portable: {result.lines}", flush=True)
    return result


def _result(variant: Variant, here: Probe, arguments: list[str]) -> Result:
    obstacle = variant.obstacle(here)
    if obstacle is not None:
        return Result(True, f"{variant.name}: SKIPPED, {obstacle}")
    settings = " ".join(f"{key}={value!r}" for key, value in variant.environment.items())
    name = f"{variant.name} ({settings})"
    try:
        # In a new process, because kernels are chosen when the libraries are loaded.
        probe = _probe(variant.environment)
    except ProbeError as error:
        return Result(False, f"{name}: FAILED to start:\n{error}")
    if not variant.in_use(probe):
        return Result(False, f"{name}: FAILED, not in use; what runs: {kernels_line(probe)}")
    progress = Progress(f"portable: {variant.name}")
    outcome = run_tests(sys.executable, arguments, variant.environment, watch=progress)
    if not outcome.passed:
        # At once and whole, because variants may run beside each other.
        print(f"portable: output of {variant.name}:\n{outcome.output}", flush=True)
    return Result(outcome.passed, f"{name}: {outcome.report()}")


def others(offered: list[Variant], here: Probe) -> list[Variant]:
    """Return the variants whose kernels do not run here by default, and print which do."""
    for variant in offered:
        if variant.in_use(here):
            print(
                f"portable: {variant.name}: not run, these kernels are the default here, under "
                "which `make test` runs all tests",
                flush=True,
            )
    return [variant for variant in offered if not variant.in_use(here)]


def kernels_line(probe: Probe) -> str:
    """Return the kernels in use, as one line."""
    parts = {
        "OpenBLAS": ", ".join(sorted(set(probe["blas"]))) or "none",
        "numpy": ", ".join(probe["numpy"]) or "its baseline",
        "numba": probe["numba"],
    }
    return "; ".join(f"{library} {kernel}" for library, kernel in parts.items())


def _chosen(names: str | None, offered: list[Variant]) -> list[Variant]:
    """Return the variants of these names, separated by commas; all of them by default."""
    if names is None:
        return offered
    by_name = {variant.name: variant for variant in offered}
    unknown = [name for name in names.split(",") if name not in by_name]
    if unknown:
        raise ValueError(f"no variant {unknown[0]!r}, only {', '.join(by_name)}")
    return [by_name[name] for name in names.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {MODULE}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--short", action="store_true", help="the part for every change")
    parser.add_argument("--only", help="names of variants, separated by commas")
    parser.add_argument("--probe", action="store_true", help="print the kernels of this process")
    parser.add_argument("--workers", type=int, default=1, help="variants at a time")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    return parser


def _arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of pytest: those given, or the tests of the short or the full run."""
    if options.pytest:
        return list(options.pytest)
    if options.short:
        return list(CORE)
    # All others, so that a new test file is part of the run without a list to keep.
    return [f"--ignore={path}" for path in NOT_NUMERICAL]


def _run_all(chosen: list[Variant], here: Probe, options: argparse.Namespace) -> int:
    """Run the variants, and return 1 if one of them failed."""
    tests = _arguments(options)
    # Threads suffice, since each of them waits for a process.
    with ThreadPoolExecutor(options.workers) as pool:
        results = list(pool.map(lambda variant: _run(variant, here, tests), chosen))
    failed = [result for result in results if not result.fine]
    if failed and len(results) > 1:
        # Again at the end, where the outputs of several variants do not hide it.
        print("\n".join(["portable: in short", *(result.lines for result in failed)]), flush=True)
    return 1 if failed else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the variants; return 1 if one of them failed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.probe:
        print(json.dumps(kernels()))
        return 0
    try:
        here = _probe({})
    except ProbeError as error:
        print(f"portable: FAILED to start:\n{error}", file=sys.stderr)
        return 1
    try:
        chosen = _chosen(options.only, short_variants(here) if options.short else variants(here))
    except ValueError as error:
        parser.error(str(error))
    print(f"portable: by default {kernels_line(here)}", flush=True)
    if options.only is None:
        chosen = others(chosen, here)
    return _run_all(chosen, here, options)


if __name__ == "__main__":
    sys.exit(main())
