"""Perturb and aggregate against the other libraries, each in a virtual environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.row import Row
from experiments.bench.timing import measure
from ldpopt import datasets, oracles

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "build" / "peers"

# xxhash 4 hashes bytes only and all three pass it text; pure-ldp imports scikit-learn and
# statsmodels without declaring them.
REQUIREMENTS = {
    "pure-ldp": ("pure-ldp==1.2.0", "xxhash<4", "scikit-learn", "statsmodels"),
    "multi-freq-ldpy": ("multi-freq-ldpy==0.2.5", "xxhash<4"),
    "ldp-toolbox": ("ldp-toolbox==0.1.3", "xxhash<4"),
}

PROTOCOLS = {
    "GRR": ("pure-ldp", "multi-freq-ldpy", "ldp-toolbox"),
    "SUE": ("pure-ldp", "multi-freq-ldpy", "ldp-toolbox"),
    "OUE": ("pure-ldp", "multi-freq-ldpy", "ldp-toolbox"),
    "OLH": ("pure-ldp", "multi-freq-ldpy", "ldp-toolbox"),
    "SubsetSelection": ("multi-freq-ldpy", "ldp-toolbox"),
    "HadamardResponse": ("pure-ldp",),
}

TARGET_AGAINST_PURE_LDP = {"OLH": 100.0}
TARGET_AGAINST_BEST = {"OUE": 3.0, "SubsetSelection": 3.0, "HadamardResponse": 3.0}


class PeerError(RuntimeError):
    """A peer that could not be installed or did not estimate what it was given."""


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return a row for every protocol and peer, then ours with the operating system's entropy."""
    n, d, epsilon, repeats = (settings[key] for key in ("n", "d", "epsilon", "repeats"))
    # One file for all peers: each gets the same users in the same order.
    values = sample(datasets.load("zipf").counts, n, np.random.default_rng(0))
    truth_sd = float(np.std(np.bincount(values, minlength=d) / n))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.npy"
        np.save(path, values)
        for protocol, libraries in PROTOCOLS.items():
            oracle = getattr(oracles, protocol)(epsilon, d)
            # Noise of sd σ on frequencies of sd s: correlation s/√(s²+σ²); we require half.
            expected = truth_sd / np.hypot(truth_sd, oracle.sd(n))
            task = {
                "values": str(path),
                "protocol": protocol,
                "d": d,
                "epsilon": epsilon,
                "repeats": repeats,
            }
            task["correlation_at_least"] = expected / 2
            peers = {library: ask(library, task) for library in libraries}
            rows += rows_of(oracle, values, peers, repeats)
    return rows


def rows_of(
    oracle: oracles.FrequencyOracle,
    values: np.ndarray,
    peers: Mapping[str, Mapping[str, float]],
    repeats: int,
) -> list[Row]:
    """Return our times for one protocol beside each peer's; targets name their peers."""
    protocol = type(oracle).__name__
    n = len(values)
    rng = np.random.default_rng(1)
    client = measure(lambda: oracle.perturb(values, rng=rng), repeats=repeats)
    server = measure(
        lambda: oracle.estimate(oracle.support_counts(client.value), n), repeats=repeats
    )
    # Without a generator: what a deployed client does.
    secure = measure(lambda: oracle.perturb(values), repeats=repeats)
    ours = client.median + server.median
    # Targets are set against the fastest one; the others would be easier to beat.
    fastest = min(peers, key=lambda library: peers[library]["total"])
    rows = []
    for library, peer in peers.items():
        target = TARGET_AGAINST_BEST.get(protocol) if library == fastest else None
        if library == "pure-ldp":
            target = TARGET_AGAINST_PURE_LDP.get(protocol, target)
        rows.append(
            Row(
                what=protocol,
                seconds=ours,
                measure="speed-up",
                against=REQUIREMENTS[library][0].replace("==", " ")
                + (" (fastest peer)" if library == fastest else ""),
                against_seconds=peer["total"],
                target=target,
                first_seconds=client.first + server.first,
                detail=f"client: {client.median:.3g} s of ours, {peer['client']:.3g} s of theirs",
            )
        )
    rows.append(
        Row(
            what=f"{protocol}, operating system's entropy",
            seconds=secure.median + server.median,
            measure="speed-up",
            against=f"{REQUIREMENTS[fastest][0].replace('==', ' ')} (fastest peer)",
            against_seconds=peers[fastest]["total"],
            detail=f"client {secure.median:.3g} s; the peers' randomness is not cryptographic",
        )
    )
    return rows


def sample(counts: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the values of ``n`` of the users, drawn without replacement, in random order."""
    return rng.choice(np.repeat(np.arange(len(counts)), counts), n, replace=False)


def ask(library: str, task: Mapping[str, Any]) -> dict[str, float]:
    """Return what the worker measured of ``library`` in its environment."""
    output = _run(
        [str(environment(library)), "-m", "experiments.bench.peer_worker"],
        f"{library} failed on {task['protocol']}",
        stdin=json.dumps({"library": library, **task}),
    )
    result: dict[str, float] = json.loads(output)
    return result


def environment(library: str) -> Path:
    """Return the Python of the peer's environment, which is built when it or its pins are new."""
    folder = ENVIRONMENTS / library
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = "\n".join(REQUIREMENTS[library])
    # Written last: an installation that was interrupted is begun anew.
    ready = folder / "installed.txt"
    if not ready.exists() or ready.read_text("utf-8") != wanted:
        _run(
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            f"no virtual environment for {library}",
        )
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *REQUIREMENTS[library]], f"{library} could not be installed")
        ready.write_text(wanted, encoding="utf-8")
    return python


def _run(command: Sequence[str], failure: str, stdin: str | None = None) -> str:
    """Return the output of ``command``, or raise ``failure`` with the last lines of its errors."""
    # Run in the repository's root: the worker imports the stopwatch of the other benchmarks.
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=ROOT, check=False
    )
    if done.returncode:
        raise PeerError(f"{failure}:\n" + "\n".join(done.stderr.strip().splitlines()[-3:]))
    return done.stdout
