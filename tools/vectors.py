"""Write the test vectors for clients in other languages: ``python -m tools.vectors``.

``clients/vectors.json`` holds, for every protocol, settings that a client must reproduce to the
last bit, reports with the values that they support, and buckets of the hash family.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ldpopt.oracles import ORACLES, FrequencyOracle
from ldpopt.oracles.forms import BitsForm, HashForm
from ldpopt.oracles.hash_family import bucket_of
from ldpopt.storage import write_whole
from tools.texts import ROOT

FILE = ROOT / "clients" / "vectors.json"

# Budgets whose exponentials need all digits, small and large domains, and each rounding.
CASES = (
    *((name, epsilon, d, {}) for name in ORACLES for epsilon, d in ((1.0, 9), (0.3, 64), (3.7, 2))),
    *(("olh", 1.0, 9, {"rounding": rounding}) for rounding in ("nearest", "floor")),
    *(("ss", 1.9, 11, {"rounding": rounding}) for rounding in ("best", "nearest")),
    ("grr", 8.0, 1024, {}),
    ("hr", 1.0, 1000, {}),
)

_REPORTS = 4
_SEED = 2020
_HASHES = 24


def vectors() -> dict[str, Any]:
    """Return the content of the file."""
    return {"protocols": [_protocol(*case) for case in CASES], "hashes": list(_hashes())}


def settings(oracle: FrequencyOracle) -> dict[str, int | str]:
    """Return what a client computes from ε and d: thresholds of 64-bit words as text, and sizes."""
    probabilities = {"p": oracle.exact_p}
    if oracle.name in ("sue", "oue"):
        probabilities["q"] = oracle.exact_q  # the others have one coin
    result: dict[str, int | str] = {}
    for name, probability in probabilities.items():
        result[name] = str(probability * 2**64)
    for size in ("g", "k", "columns"):
        if hasattr(oracle, size):
            result[size] = getattr(oracle, size)
    return result


def _protocol(name: str, epsilon: float, d: int, options: dict[str, str]) -> dict[str, Any]:
    oracle = ORACLES[name](epsilon, d, **options)
    values = np.arange(_REPORTS) * (d - 1) // (_REPORTS - 1)
    reports = oracle.perturb(values, rng=_SEED)
    return {
        "oracle": name,
        "epsilon": epsilon,
        "d": d,
        "options": options,
        "settings": settings(oracle),
        "reports": [
            {
                "report": _plain(oracle, report),
                "supported": np.flatnonzero(oracle.support_counts(reports[i : i + 1])).tolist(),
            }
            for i, report in enumerate(reports)
        ],
    }


def _plain(oracle: FrequencyOracle, report: Any) -> Any:
    """Return a report as JSON holds it: bytes as hexadecimal digits, large numbers as text."""
    match oracle.report_form:
        case HashForm():
            return {"seed": str(report["seed"]), "bucket": int(report["bucket"])}
        case BitsForm():
            return report.tobytes().hex()
    return report.tolist()


def _hashes() -> Iterator[dict[str, int | str]]:
    rng = np.random.default_rng(_SEED)
    for g in (2, 4, 1000):
        seeds = rng.integers(0, 2**64 - 1, size=_HASHES // 3, dtype=np.uint64, endpoint=True)
        values = np.arange(len(seeds), dtype=np.uint64)
        buckets = bucket_of(seeds, values, np.uint64(g))
        for seed, value, bucket in zip(seeds, values, buckets, strict=True):
            yield {"seed": str(seed), "value": int(value), "g": g, "bucket": int(bucket)}


if __name__ == "__main__":
    write_whole(FILE, (json.dumps(vectors(), indent=1) + "\n").encode())
