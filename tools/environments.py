"""Run the tests in other environments than the developer's.

    python -m tools.environments oldest      # the oldest versions that pyproject.toml allows
    python -m tools.environments 3.12 3.13   # other versions of Python, if they are installed here

Each environment is built by uv in ``build/environments`` and kept. Arguments after ``--`` go to
pytest.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.texts import ROOT

PLACE = ROOT / "build" / "environments"
OLDEST_PYTHON = "3.11"

# Old releases call each other's, and new indirect dependencies', deprecated functions.
_OLD_WARNINGS = ("-W", "ignore::DeprecationWarning", "-W", "ignore::PendingDeprecationWarning")


def candidates(version: str) -> Iterator[str]:
    """Yield commands and paths that may be a Python of this version."""
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


def build(name: str, python: str, *options: str) -> Path:
    """Return the Python of an environment with the package and what develops it."""
    place = PLACE / name
    uv = [sys.executable, "-m", "uv"]
    # A missing Python is skipped with a line that says so, and not fetched.
    environment = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    if not (place / "bin" / "python").exists():
        subprocess.run([*uv, "venv", "-q", "--python", python, place], env=environment, check=True)
    target = place / "bin" / "python"
    # Every time, since requirements may have changed.
    install = [*uv, "pip", "install", "-q", "--python", str(target), *options, "-e", ".[dev]"]
    subprocess.run(install, cwd=ROOT, env=environment, check=True)
    return target


def run(name: str, arguments: list[str]) -> int:
    """Run the tests in the environment of this name; return the exit status, 0 if it is missing."""
    version = OLDEST_PYTHON if name == "oldest" else name
    python = interpreter(version)
    if python is None:
        print(f"environments: {name}: SKIPPED, Python {version} is not installed here", flush=True)
        return 0
    oldest = name == "oldest"
    # Of direct requirements alone, which are those that pyproject.toml states bounds for.
    resolution = ["--resolution", "lowest-direct"] if oldest else []
    target = build(name, python, *resolution)
    warnings = _OLD_WARNINGS if oldest else ()
    command = [target, "-m", "pytest", "-q", "-p", "no:cacheprovider", *warnings, *arguments]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"environments: {name}: {'passed' if status == 0 else 'FAILED'}", flush=True)
    return status


def main(arguments: list[str] | None = None) -> int:
    """Run the tests in each environment; return the worst exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.environments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", help='"oldest" or versions of Python')
    words = sys.argv[1:] if arguments is None else arguments
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    passed_on = words[split + 1 :] or ["-n", "logical", "--dist", "worksteal"]
    return max([run(name, passed_on) for name in options.names])


if __name__ == "__main__":
    sys.exit(main())
