"""Time one peer library inside its own environment: settings on stdin, JSON on stdout.

Every peer is called as its documentation shows. This file imports nothing of ldpopt, which is not
installed there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.bench.timing import measure

WARM_UP_USERS = 200  # enough to compile every kernel and to start every pool of processes


class Peer(NamedTuple):
    """One protocol of one library: the client alone, and the whole way from values to estimates."""

    perturb: Callable[[Iterable[int]], Any]
    collect: Callable[[Iterable[int]], Any]
    first_value: int = 0  # pure-ldp numbers its domain from 1 by default


def pure_ldp(protocol: str, d: int, epsilon: float) -> Peer:
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.hadamard_response import (
        HadamardResponseClient,
        HadamardResponseServer,
    )
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    # Hash functions are shared between the two sides of Hadamard response above ε = 1 only.
    make_client, make_server = {
        "GRR": (DEClient, DEServer),
        "SUE": (UEClient, UEServer),
        "OUE": (partial(UEClient, use_oue=True), partial(UEServer, use_oue=True)),
        "OLH": (partial(LHClient, use_olh=True), partial(LHServer, use_olh=True)),
        "HadamardResponse": (
            partial(HadamardResponseClient, hash_funcs=None),
            HadamardResponseServer,
        ),
    }[protocol]
    client = make_client(epsilon, d)

    def perturb(values):
        for value in values:
            client.privatise(value)

    def collect(values):
        server = make_server(epsilon, d)
        for value in values:
            server.aggregate(client.privatise(value))
        return server.estimate_all(range(1, d + 1))

    return Peer(perturb, collect, first_value=1)


def multi_freq_ldpy(protocol: str, d: int, epsilon: float) -> Peer:
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    client, server = {
        "GRR": (
            lambda value: GRR_Client(value, d, epsilon),
            lambda reports: GRR_Aggregator_MI(reports, d, epsilon),
        ),
        "SUE": (
            lambda value: UE_Client(value, d, epsilon, False),
            lambda reports: UE_Aggregator_MI(reports, epsilon, False),
        ),
        "OUE": (
            lambda value: UE_Client(value, d, epsilon),
            lambda reports: UE_Aggregator_MI(reports, epsilon),
        ),
        "OLH": (
            lambda value: LH_Client(value, d, epsilon),
            lambda reports: LH_Aggregator_MI(reports, d, epsilon),
        ),
        "SubsetSelection": (
            lambda value: SS_Client(value, d, epsilon),
            lambda reports: SS_Aggregator_MI(reports, d, epsilon),
        ),
    }[protocol]
    return _listed(client, server)


def ldp_toolbox(protocol: str, d: int, epsilon: float) -> Peer:
    from ldp_toolbox.protocols.frequency.grr import GeneralizedRandomizedResponse
    from ldp_toolbox.protocols.frequency.lh import LocalHashing
    from ldp_toolbox.protocols.frequency.ss import SubsetSelection
    from ldp_toolbox.protocols.frequency.ue import UnaryEncoding

    make = {
        "GRR": GeneralizedRandomizedResponse,
        "SUE": partial(UnaryEncoding, optimal=False),
        "OUE": UnaryEncoding,
        "OLH": LocalHashing,
        "SubsetSelection": SubsetSelection,
    }[protocol]
    both_sides = make(d, epsilon)
    return _listed(both_sides.obfuscate, both_sides.estimate)


def _listed(client: Callable[[int], Any], server: Callable[[list[Any]], Any]) -> Peer:
    """Return the peer whose server takes the list of all reports at once."""

    def perturb(values):
        return [client(value) for value in values]

    def collect(values):
        return server(perturb(values))

    return Peer(perturb, collect)


LIBRARIES = {"pure-ldp": pure_ldp, "multi-freq-ldpy": multi_freq_ldpy, "ldp-toolbox": ldp_toolbox}


def main() -> None:
    task = json.load(sys.stdin)
    values = np.load(task["values"])
    d = task["d"]
    repeats = task["repeats"]
    peer = LIBRARIES[task["library"]](task["protocol"], d, task["epsilon"])
    users = values + peer.first_value
    few = users[:WARM_UP_USERS]

    def perturb():
        # The reports are dropped: kept, they would make the next repeat pay for fresh memory.
        peer.perturb(users)

    client = measure(perturb, repeats=repeats, warm_up=lambda: peer.perturb(few))
    total = measure(lambda: peer.collect(users), repeats=repeats, warm_up=lambda: peer.collect(few))

    # A wrong call may be fast, so the estimates must follow the truth. Some peers clip and
    # rescale, hence the correlation; a shift of the domain by one would halve it.
    correlation = float(np.corrcoef(total.value, np.bincount(values, minlength=d))[0, 1])
    required = task["correlation_at_least"]
    if not correlation > required:
        raise SystemExit(
            f"estimates do not follow the truth: correlation {correlation:.3f}, "
            f"at least {required:.3f} expected"
        )
    json.dump(
        {
            "client": client.median,
            "total": total.median,
            "first": total.first,
            "correlation": correlation,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
