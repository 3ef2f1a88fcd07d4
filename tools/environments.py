"""Run the tests in other environments than the developer's.

    python -m tools.environments oldest      # the oldest versions that pyproject.toml allows
    python -m tools.environments newest      # the newest that exist, beyond its upper bounds too
    python -m tools.environments 3.12 3.13   # other versions of Python, if they are installed here

Each environment is built by uv in ``build/environments`` and kept. Arguments after ``--`` go to
pytest. A Python that is not installed is skipped with a line that says so. The status is 1 if a
test fails, if an environment cannot be built, or if a lower bound of pyproject.toml is lower than
what can be installed, and so was never tested. "newest" also lists what differs from
``constraints.txt``, the versions of continuous integration: run it every week.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.runs import run_tests, show, without_paths
from tools.texts import ROOT

PLACE = ROOT / "build" / "environments"
CONSTRAINTS = ROOT / "constraints.txt"
OLDEST = "oldest"
NEWEST = "newest"
OLDEST_PYTHON = "3.11"
UV = (sys.executable, "-m", "uv")

# Old releases call each other's, and new indirect dependencies', deprecated functions.
_OLD_WARNINGS = ("-W", "ignore::DeprecationWarning", "-W", "ignore::PendingDeprecationWarning")

_BOUND = re.compile(r"^([\w.-]+)(?:\[.*\])?>=([\d.]+)(?:,<[\d.]+)?$")
_UPPER_BOUND = re.compile(r",?<[\d.]+")


class BuildError(Exception):
    """An environment could not be built; the message is that of uv."""


def candidates(version: str) -> Iterator[str]:
    """Yield commands and paths that may be a Python of this version."""
    # The one that runs needs no search, and may lie outside the search path.
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        yield sys.executable
    yield f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python")))


def interpreter(version: str) -> str | None:
    """Return an installed Python of this version, or None."""
    question = "import sys; print(*sys.version_info[:2], sep='.')"
    for candidate in candidates(version):
        path = shutil.which(candidate)
        if path is not None:
            # A shim of pyenv is found but does not run if its version is not selected.
            answer = subprocess.run(
                [path, "-c", question], check=False, capture_output=True, text=True
            )
            if answer.stdout.strip() == version:
                return path
    return None


def _uv(*arguments: str | Path) -> str:
    """Return what a command of uv printed; an error with its message if it failed."""
    done = subprocess.run(
        [*UV, *arguments],
        cwd=ROOT,
        # A missing Python is skipped with a line that says so, and not fetched.
        env=os.environ | {"UV_PYTHON_DOWNLOADS": "never"},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise BuildError(without_paths(done.stderr.strip()))
    return done.stdout


def build(name: str, python: str) -> Path:
    """Return the Python of an environment with the package and what develops it.

    Raises
    ------
    BuildError
        If uv cannot build it.
    """
    place = PLACE / name
    target = place / "bin" / "python"
    if not target.exists():
        # What is left of an environment whose Python is gone is in the way.
        shutil.rmtree(place, ignore_errors=True)
        _uv("venv", "-q", "--python", python, place)
    # Of direct requirements alone, which are those that pyproject.toml states bounds for.
    resolution = ["--resolution", "lowest-direct"] if name == OLDEST else []
    if name == NEWEST:
        overrides = place / "overrides.txt"
        overrides.write_text("\n".join(without_upper_bounds(_requirements())), encoding="utf-8")
        resolution = ["--overrides", str(overrides)]
    # Every time and anew: requirements may have changed, and uv keeps what still satisfies them.
    _uv("pip", "install", "-q", "--upgrade", "--python", target, *resolution, "-e", ".[dev]")
    return target


def without_upper_bounds(requirements: list[str]) -> list[str]:
    """Return those requirements that have an upper bound, without it."""
    return [_UPPER_BOUND.sub("", each) for each in requirements if "<" in each]


def changes(constraints: str, installed: dict[str, str]) -> list[str]:
    """Return what is installed in another version than a constraints file states.

    Parameters
    ----------
    constraints
        The text of the file, with lines ``name==version``: several where it depends on the Python.
    installed
        Versions by the names of packages, in any spelling.
    """
    stated: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", constraints, flags=re.MULTILINE):
        stated.setdefault(_canonical(name), []).append(version)
    present = {_canonical(name): version for name, version in installed.items()}
    return [
        f"{name} {' or '.join(versions)} -> {present[name]}"
        for name, versions in stated.items()
        # Packages for other systems are stated and not installed.
        if name in present and present[name] not in versions
    ]


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without trailing zeros: 1.15 is 1.15.0."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    # Releases are compared as tuples, in which (1, 15) and (1, 15, 0) would differ.
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def untested_bounds(requirements: list[str], installed: dict[str, str]) -> list[str]:
    """Return a sentence for each lower bound that is not the version installed.

    Parameters
    ----------
    requirements
        As pyproject.toml states them; those without a lower bound are passed over, and those that
        are not installed.
    installed
        Versions by the names of packages, in any spelling.
    """
    versions = {_canonical(name): version for name, version in installed.items()}
    sentences = []
    for requirement in requirements:
        match = _BOUND.match(requirement)
        if match is not None:
            name, bound = match.groups()
            version = versions.get(_canonical(name))
            # The environments install the extra dev: what only the site needs is not among it.
            if version is None:
                continue
            if release(version) != release(bound):
                sentences.append(
                    f"{requirement} was tested from {version} alone, the oldest that can be "
                    "installed beside the others: raise the bound to it"
                )
    return sentences


def _canonical(name: str) -> str:
    """Return a package's name in the spelling that all its spellings share (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements() -> list[str]:
    """Return all requirements of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # A copy: what follows would otherwise change the parsed file.
    requirements = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        requirements += extra
    return requirements


def _installed(target: Path) -> dict[str, str]:
    """Return the versions in an environment by the names of packages."""
    listed = json.loads(_uv("pip", "list", "--format", "json", "--python", target))
    return {package["name"]: package["version"] for package in listed}


def _check_bounds(target: Path) -> list[str]:
    return untested_bounds(_requirements(), _installed(target))


def _list_changes(target: Path) -> None:
    for change in changes(CONSTRAINTS.read_text(encoding="utf-8"), _installed(target)):
        print(f"environments: {NEWEST}: {change}", flush=True)


def run(name: str, arguments: list[str]) -> bool:
    """Run the tests in the environment of this name; return whether it passed or is missing."""
    # The newest under the Python that runs: `make pythons` is about the others.
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    version = {OLDEST: OLDEST_PYTHON, NEWEST: this}.get(name, name)
    python = interpreter(version)
    if python is None:
        print(f"environments: {name}: SKIPPED, Python {version} is not installed here", flush=True)
        return True
    try:
        target = build(name, python)
        # Elsewhere the newest versions are installed, which bound nothing from below.
        untested = _check_bounds(target) if name == OLDEST else []
    except BuildError as error:
        print(f"environments: {name}: FAILED, uv could not build it:\n{error}", flush=True)
        return False
    if name == NEWEST:
        _list_changes(target)
    warnings = _OLD_WARNINGS if name == OLDEST else ()
    outcome = run_tests(target, [*warnings, *arguments], watch=show)
    print(f"environments: {name}: {outcome.report()}", flush=True)
    for sentence in untested:
        print(f"environments: {name}: FAILED, {sentence}", flush=True)
    return outcome.passed and not untested


def _name(text: str) -> str:
    if text not in (OLDEST, NEWEST) and re.fullmatch(r"3\.\d+", text) is None:
        raise argparse.ArgumentTypeError(
            f'"oldest", "newest" or a version such as 3.12, got {text!r}'
        )
    return text


def main(arguments: list[str] | None = None) -> int:
    """Run the tests in each environment; return 1 if one of them failed, 2 if uv is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.environments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="+", type=_name, help='"oldest", "newest" or versions of Python'
    )
    words = sys.argv[1:] if arguments is None else arguments
    # What follows is for pytest: argparse would take its options for its own.
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    if importlib.util.find_spec("uv") is None:
        print("environments: uv, which builds them, is missing: pip install uv", file=sys.stderr)
        return 2
    passed_on = words[split + 1 :] or ["-n", "logical", "--dist", "worksteal"]
    failed = [name for name in options.names if not run(name, passed_on)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
