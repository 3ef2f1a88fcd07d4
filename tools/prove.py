"""Let Coq check the theorems of ``ldpopt/proofs``, and record what it accepted.

    python -m tools.prove            # compiles all files, writes ldpopt/proofs/theorems.json
    python -m tools.prove --check    # status 1 if the record differs from what Coq accepts

Every file is compiled from scratch in ``build/proofs``. Coq is not a Python package: Debian and
Ubuntu have it as ``coq``.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ldpopt.proofs import FOLDER, LIBRARY, RECORD, content_hash, required, without_comments

BUILD = Path("build/proofs")
MISSING = """\
coqc, the compiler of the proof checker Coq, is not installed. Debian and Ubuntu have it in the
package coq: apt-get install coq. Nothing else of ldpopt needs it: the record of what Coq accepted
is part of the package."""

_THEOREM = re.compile(r"^Theorem (\w+)(.*?)^Proof\.", re.MULTILINE | re.DOTALL)
_PROSE = re.compile(r"\(\*\*((?:(?!\*\)).)*)\*\)\s*\Z", re.DOTALL)


class ProofError(Exception):
    """Coq, or a rule of this folder, refuses a file."""


def in_levels(sources: dict[str, str]) -> list[list[str]]:
    """Return file names in groups: each file imports from earlier groups only.

    Raises
    ------
    ProofError
        If files import one another in a circle, or one that is not there.
    """
    levels: list[list[str]] = []
    waiting = set(sources)
    while waiting:
        ready = {name for name in waiting if waiting.isdisjoint(required(sources[name]))}
        absent = {file for name in ready for file in required(sources[name])} - sources.keys()
        if absent or not ready:
            raise ProofError(f"{', '.join(sorted(waiting))}: an import is missing or circular")
        levels.append(sorted(ready))
        waiting -= ready
    return levels


def theorems_in(file: str, source: str) -> dict[str, dict[str, Any]]:
    r"""Return the theorems of a source with their prose and statements.

    Raises
    ------
    ProofError
        If no comment for readers stands above a theorem.

    Examples
    --------
    >>> text = "(** One is one. *)\nTheorem one : 1 = 1.\nProof. reflexivity. Qed."
    >>> theorems_in("One.v", text)["one"]
    {'file': 'One.v', 'prose': 'One is one.', 'statement': 'one : 1 = 1'}
    """
    theorems = {}
    code = without_comments(source)
    for match in _THEOREM.finditer(code):
        # Comments became blanks: places in the two texts are the same.
        prose = _PROSE.search(source[: match.start()])
        if prose is None:
            raise ProofError(f"{file}: theorem {match[1]} has no prose (** ... *) above it")
        theorems[match[1]] = {
            "file": file,
            "prose": " ".join(prose[1].split()),
            "statement": f"{match[1]}{match[2]}".strip().removesuffix("."),
        }
    return theorems


def axioms_in(printed: str) -> list[str]:
    r"""Return the names in what `Print Assumptions` prints.

    Examples
    --------
    >>> axioms_in("Axioms:\nA.one : forall x,\n  x = x\nB.two\n  : nat")
    ['A.one', 'B.two']
    >>> axioms_in("Closed under the global context")
    []
    """
    if printed.startswith("Closed"):
        return []
    return sorted(re.findall(r"^(?!Axioms:)([\w.']+)", printed, re.MULTILINE))


def compile_all(sources: dict[str, str]) -> dict[str, Any]:
    """Compile the sources in the build folder and return the record of what Coq accepted.

    Raises
    ------
    ProofError
        If Coq refuses a file.
    """
    # From scratch: a compiled file of an earlier source must not stand in for a new one.
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    files: dict[str, dict[str, Any]] = {}
    theorems: dict[str, dict[str, Any]] = {}
    # Coq runs in processes of its own: threads wait for them.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for level in in_levels(sources):
            compiled = pool.map(lambda file: _compiled(file, sources[file]), level)
            for file, (entry, inside) in zip(level, compiled, strict=True):
                if repeated := inside.keys() & theorems.keys():
                    raise ProofError(f"{file}: another file has a theorem {min(repeated)} already")
                files[file] = entry
                theorems |= inside
                print(f"{file}: {len(inside)} theorems accepted", flush=True)
    checker = subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=True)
    return {"checker": checker.stdout.splitlines()[0], "files": files, "theorems": theorems}


def _compiled(file: str, source: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Compile one source; return its entry in the record, and its theorems."""
    (BUILD / file).write_text(source, encoding="utf-8")
    _coqc(file)
    theorems = theorems_in(file, source)
    entry = {
        "sha256": content_hash(BUILD / file),
        "requires": required(source),
        "axioms": _axioms_of(file, list(theorems)),
    }
    return entry, theorems


def _axioms_of(file: str, names: list[str]) -> list[str]:
    """Return what the theorems of a compiled file assume, all of them together."""
    if not names:
        return []
    # Coq walks through the library's proofs for each question, a second each: one per file.
    module = file.removesuffix(".v")
    members = ", ".join(f"{LIBRARY}.{module}.{name}" for name in names)
    question = f"AssumptionsOf{module}.v"
    lines = [
        f"From {LIBRARY} Require {module}.",
        f"Definition theorems := ({members}).",
        "Print Assumptions theorems.",
    ]
    (BUILD / question).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return axioms_in(_coqc(question))


def _coqc(file: str) -> str:
    """Compile one file of the build folder and return what Coq prints."""
    # -w none: the words of warnings differ between versions, and none is about validity.
    command = ["coqc", "-q", "-w", "none", "-Q", ".", LIBRARY, file]
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProofError(f"Coq refuses {file}:\n{done.stderr.strip()}")
    return done.stdout


def main() -> int:
    """Compile, then write or compare the record; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the record, do not write it")
    check = parser.parse_args().check
    if shutil.which("coqc") is None:
        print(MISSING, file=sys.stderr)
        return 2
    sources = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.v")}
    try:
        record = compile_all(sources)
    except ProofError as error:
        print(error, file=sys.stderr)
        return 1
    path = FOLDER / RECORD
    print(f"{len(record['theorems'])} theorems in {len(sources)} files, {record['checker']}")
    if not check:
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return 0
    kept = json.loads(path.read_text(encoding="utf-8"))
    # Another version of Coq accepts the same theorems.
    if (kept["files"], kept["theorems"]) == (record["files"], record["theorems"]):
        return 0
    print(f"{path} differs from what Coq accepts: run `make prove` and commit it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
