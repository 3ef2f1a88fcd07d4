"""Build the wheel, and try it as users install it: under each Python, without and with extras.

    python -m tools.wheels             # under 3.11, 3.12 and 3.13, if they are installed here
    python -m tools.wheels 3.13

Each environment is new, in a temporary folder, and has the wheel alone: nothing of the repository
can be imported. Without extras the core and the README's example are tried, and that what an extra
brings ends in a sentence; then, with the extra ``all``, the command line, files and pictures. The
status is 1 if something fails.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.environments import UV, interpreter
from tools.texts import ROOT

PYTHONS = ("3.11", "3.12", "3.13")

CORE = """
import sys

import ldpopt
from ldpopt import constraints, losses, oracles
from ldpopt.errors import MissingPackageError

oracle = oracles.OLH(epsilon=1.0, d=8)
reports = oracle.perturb(["a", "b"] * 500, labels=list("abcdefgh"), rng=0)
raw = oracle.estimate(oracle.support_counts(reports), 1000)
simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
solution = ldpopt.Problem(losses.LeastSquares(), simplex).solve(raw)
assert solution.certificate.is_optimal(1e-9)
conic = ldpopt.Problem(losses.LeastSquares(), [*simplex, constraints.Smooth(0.5)]).solve(raw)
assert conic.certificate.is_optimal(1e-6)
assert all(getattr(ldpopt, name) is not None for name in ldpopt.__all__)


def sentence(call):
    try:
        call()
    except MissingPackageError as error:
        return str(error)
    raise AssertionError("nothing is missing")


# Compiled kernels count local hashing: numba runs under this Python.
assert "numba" in sys.modules
assert "ldpopt[plot]" in sentence(raw.plot)
assert "ldpopt[files]" in sentence(lambda: ldpopt.collection.aggregate)
"""

EVERYTHING = """
from pathlib import Path

from ldpopt import collection, oracles

oracle = oracles.OUE(epsilon=1.0, d=8)
collection.write_reports("r.parquet", oracle, oracle.perturb([0, 1] * 500, rng=0))
raw = collection.aggregate("r.parquet").estimate
raw.plot().savefig("p.png")
assert Path("p.png").read_bytes().startswith(b"\\x89PNG")
"""


class TrialError(Exception):
    """A step failed; the message is what it printed."""


def example() -> tuple[str, str]:
    """Return the README's first example, and what it prints."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", text, re.DOTALL)
    if match is None:
        raise TrialError("README.md has no example with its output")
    return match[1], match[2]


def _run(*command: str | Path, folder: Path, status: int = 0, printed: str | None = None) -> str:
    """Return what a command printed on standard error.

    Raises TrialError for another status, or if it printed something else than was stated.
    """
    done = subprocess.run(
        [*map(str, command)], cwd=folder, check=False, capture_output=True, text=True
    )
    is_other = printed is not None and done.stdout != printed
    if done.returncode != status or is_other:
        raise TrialError(f"{' '.join(map(str, command))[:200]}\n{done.stdout}{done.stderr}")
    return done.stderr


def build(folder: Path) -> Path:
    """Return the wheel of this repository, built into a folder."""
    _run(*UV, "build", "--wheel", "-q", "--out-dir", folder, ROOT, folder=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def trial(wheel: Path, python: str, folder: Path) -> None:
    """Try a wheel in new environments; raise TrialError if a step fails."""
    place = folder / "environment"
    _run(*UV, "venv", "-q", "--clear", "--python", python, place, folder=folder)
    target = place / "bin" / "python"
    command = place / "bin" / "ldpopt"
    _run(*UV, "pip", "install", "-q", "--python", target, wheel, folder=folder)
    # Isolated, so that the folder of the call is not searched.
    _run(target, "-I", "-c", CORE, folder=folder)
    code, printed = example()
    _run(target, "-I", "-c", code, folder=folder, printed=printed)
    missing = _run(command, "methods", folder=folder, status=2)
    if missing != "Error: the command ldpopt needs the package typer: pip install 'ldpopt[cli]'\n":
        raise TrialError(f"ldpopt without its extra printed {missing!r}")
    _run(*UV, "pip", "install", "-q", "--python", target, f"{wheel}[all]", folder=folder)
    _run(target, "-I", "-c", EVERYTHING, folder=folder)
    for arguments in (["methods"], ["estimate", "r.parquet", "--out", "e.csv", "--plot", "e.svg"]):
        _run(command, *arguments, folder=folder)


def main(arguments: list[str] | None = None) -> int:
    """Try the wheel under each Python; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.wheels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pythons", nargs="*", default=PYTHONS, help="versions such as 3.12")
    failed = False
    with tempfile.TemporaryDirectory() as name:
        wheel = build(Path(name))
        for version in parser.parse_args(arguments).pythons:
            python = interpreter(version)
            if python is None:
                print(f"wheels: {version}: SKIPPED, it is not installed here", flush=True)
                continue
            folder = Path(name, version)
            folder.mkdir()
            try:
                trial(wheel, python, folder)
            except TrialError as error:
                failed = True
                print(f"wheels: {version}: FAILED: {error}", flush=True)
            else:
                print(f"wheels: {version}: passed", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
