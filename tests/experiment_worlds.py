"""A small world for the tests of the experiments: every population is a hundredth of itself."""

from dataclasses import replace
from unittest import mock

import numpy as np

from experiments.cells import populations
from experiments.figures import FIGURES
from experiments.run import plan
from ldpopt.datasets import Dataset
from ldpopt.datasets.dataset import apportion
from ldpopt.studies.engine.moments import dumps
from ldpopt.studies.engine.store import Store

D = 48
N = 30_000


def small(name, n=None):
    """Return Zipf-like counts on 48 values with every family of sets that a figure asks for."""
    counts = apportion(np.arange(1, D + 1) ** -1.5, n or N)
    sets = [np.arange(i, D, 6) for i in range(6)]
    families = dict.fromkeys(("subcategory", "state", "division"), sets)
    return Dataset(
        name,
        counts,
        tuple(map(str, range(D))),
        "made up",
        families,
        dict.fromkeys(families, tuple("abcdef")),
    )


def few_tasks():
    """Return the cells of one figure by key: 20 trials at 5 budgets of two small populations."""
    figure = FIGURES["ndss-fig4"]
    experiment = replace(
        figure.experiment,
        methods=("base", "norm-sub", "power-ns"),
        epsilons=(0.2, 0.5, 1, 2, 4),
        trials=20,
    )
    with mock.patch.object(populations, "load", small):
        return plan([replace(figure, experiment=experiment)]).distinct


def bits(path, tasks):
    """Return what a store holds of the tasks, to the last bit."""
    with Store(path) as store:
        return {key: dumps(outcome.measured) for key, outcome in store.get(tasks).items()}


class Bomb:
    """Kills the process that unpickles it."""

    def __reduce__(self):
        import os

        return os._exit, (1,)
