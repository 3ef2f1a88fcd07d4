"""Run the tests as other processors would: the last bits of a sum differ, the answers must not.

    python -m tools.portable           # numerical tests, doctests and notebooks, by variant
    python -m tools.portable --short   # doctests and the core of the numerical tests
    python -m tools.portable --only nehalem,numpy -- -x tests/test_priors.py

OpenBLAS, numpy and numba choose their kernels by the processor that they find, and each kernel adds
in another order. A variant sets the choice by environment variables. Before its tests run, a probe
in the same environment states which kernels are in use: a variant that this processor cannot run is
skipped with a line that says so, and one that the libraries ignored is an error.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tools.texts import ROOT

Probe = dict[str, Any]

NOT_NUMERICAL = (
    "tests/test_architecture.py",
    "tests/test_bench.py",
    "tests/test_cli.py",
    "tests/test_collection_aggregation.py",
    "tests/test_collection_cli.py",
    "tests/test_collection_dask.py",
    "tests/test_collection_files.py",
    "tests/test_collection_layout.py",
    "tests/test_contributing.py",
    "tests/test_datasets.py",
    "tests/test_tools.py",
    "tests/test_validate.py",
)
"""Test files that add whole numbers alone, or that test files and commands."""

CORE = ("ldpopt", "tests/test_docs.py", "tests/test_mixture.py", "tests/test_mixture_weights.py")
"""What the short run runs: every doctest, the README, and what is most sensitive to rounding,
maximum likelihood over a continuum of priors."""


@dataclass(frozen=True)
class Variant:
    """Kernels of another processor: how to choose them, what they need, and whether they run."""

    name: str
    environment: dict[str, str]
    needs: tuple[str, ...]
    in_use: Callable[[Probe], bool]

    def obstacle(self, probe: Probe) -> str | None:
        """Return why this processor cannot run the variant, or None."""
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


def _probe(environment: dict[str, str]) -> Probe:
    """Return the kernels of a new process with these variables."""
    command = [sys.executable, "-m", "tools.portable", "--probe"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    result: Probe = json.loads(done.stdout)
    return result


def _run(variant: Variant, arguments: list[str]) -> tuple[int, str]:
    """Return the exit status and the output of the tests under a variant."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | variant.environment,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def _report(variant: Variant, here: Probe, arguments: list[str]) -> bool:
    """Run one variant and print what came of it; return whether it is fine."""
    settings = " ".join(f"{key}={value!r}" for key, value in variant.environment.items())
    obstacle = variant.obstacle(here)
    if obstacle is not None:
        print(f"portable: {variant.name}: SKIPPED, {obstacle}", flush=True)
        return True
    # In a new process, because kernels are chosen when the libraries are loaded.
    probe = _probe(variant.environment)
    if not variant.in_use(probe):
        print(f"portable: {variant.name}: NOT IN USE with {settings}; running: {probe}", flush=True)
        return False
    start = time.monotonic()
    status, output = _run(variant, arguments)
    seconds = time.monotonic() - start
    lines = output.strip().splitlines() or ["no output"]
    print(f"portable: {variant.name} ({settings}): {lines[-1]} [{seconds:.0f} s]", flush=True)
    if status != 0:
        print(output, flush=True)
    return status == 0


def main(arguments: list[str] | None = None) -> int:
    """Run the variants; return 1 if a test fails under one of them."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.portable",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--short", action="store_true", help="the part for every change")
    parser.add_argument("--only", help="names of variants, separated by commas")
    parser.add_argument("--probe", action="store_true", help="print the kernels of this process")
    parser.add_argument("--workers", type=int, default=1, help="variants at a time")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args(arguments)
    if options.probe:
        print(json.dumps(kernels()))
        return 0
    here = _probe({})
    chosen = short_variants(here) if options.short else variants(here)
    if options.only:
        names = options.only.split(",")
        chosen = [variant for variant in chosen if variant.name in names]
    print(f"portable: by default OpenBLAS {here['blas']}, numpy {here['numpy']}", flush=True)
    full = [f"--ignore={path}" for path in NOT_NUMERICAL]
    tests = options.pytest or (list(CORE) if options.short else full)
    with ThreadPoolExecutor(options.workers) as pool:
        fine = list(pool.map(lambda variant: _report(variant, here, tests), chosen))
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
