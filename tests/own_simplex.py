"""A set that states bounds and a total in one constraint."""

import numpy as np

from ldpopt.constraints import SumsTo


class Simplex(SumsTo):
    """A constraint of somebody else that states bounds and a total at once."""

    def violation(self, f):
        return np.maximum(super().violation(f), np.maximum(-f.min(axis=-1), 0.0))

    def box(self, d):
        return np.zeros(d), np.full(d, np.inf)

    total = SumsTo.total
    rows = SumsTo.rows
    cone_form = SumsTo.cone_form
