"""How counts vary together where a report is an index and no three values are alike.

In Hadamard response, for example, the counts of two values vary together through the users of a
third one. The variance of a sum then depends on all frequencies; it follows from the law of a
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.covariance import Covariance
from ldpopt.oracles.forms import IndexForm
from ldpopt.protocol import ReportShares

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]


_FACTORED = 3_000  # values up to which a covariance is factored as a matrix, in about a second
_BLOCK = 64  # indices whose supports are written out at a time
_NO_VARIANCE = 1e-100  # the share of all values in Norm's answer has none, and then no skewness


class IndexLaw:
    """The law of one report of a random user, and the variances n Var that follow from it.

    Parameters
    ----------
    form
        The form of the reports, which has the products with S: which index supports which value.
    p
        Probability that a report supports the user's value.
    q
        Probability that it supports any other one.
    frequencies
        How the users' values are distributed, shape (..., d), with sum 1.

    Examples
    --------
    >>> law = IndexLaw(IndexForm(d=2, size=2), 0.75, 0.25, np.array([1.0, 0.0]))
    >>> law.probability
    array([0.75, 0.25])
    """

    def __init__(
        self,
        form: IndexForm,
        p: float,
        q: float,
        frequencies: Array,
    ) -> None:
        self.form = form
        self.q = q
        self.gap = p - q
        self.frequencies = frequencies
        inside, outside = _probabilities(form, p)
        by_support = form.sums(frequencies * (inside - outside))
        common = frequencies @ outside[:, None]
        self.probability: Array = by_support + common

    def set_variance(self, members: csr_array, *, centred: bool) -> Array:
        """Return n Var of the answers to sets, the rows of ``members``: shape (..., m).

        Cost: one ``sums`` per set.
        """
        sets = members.shape[0]
        variance = np.empty((*self.frequencies.shape[:-1], sets))
        for i in range(sets):
            # One set at a time: a dense matrix of all sets would take their number times d.
            weights = members[[i]].toarray()[0]
            # The answers of centred weights do not feel the common shift that Norm takes out.
            if centred:
                weights = weights - weights.mean()
            supported = self.form.sums(weights)
            mean_square = self.probability @ supported**2
            # Of a user of v, a report supports weights with the mean q Σw + (p-q) w_v.
            means = self.q * weights.sum() + self.gap * weights
            square_of_mean = self.frequencies @ means**2
            variance[..., i] = (mean_square - square_of_mean) / self.gap**2
        return variance

    def centred_variance(self) -> Array:
        """Return n Var of f̃_v + (1 - Σf̃)/d for every value at once, shape (..., d)."""
        d = self.form.d
        sizes = self.form.sums(np.ones(d))
        # With B_v = 1 where a report supports v, and S = Σ B_v: the mean of (B_v - S/d)².
        # B_v² = B_v, so that the square of B_v - S/d is linear in B_v.
        cross = self.form.counts(self.probability * (1 - 2 * sizes / d))
        square_of_size = (self.probability @ sizes**2)[..., None]
        mean_square = cross + square_of_size / d**2
        # The mean is (p-q)(1 - 1/d) of users of v, and -(p-q)/d of all others.
        of_users = self.frequencies * (1 - 2 / d)
        return mean_square / self.gap**2 - of_users - 1 / d**2

    def covariance(self) -> Covariance:
        """Return n Cov[f̃] for frequencies of shape (d,).

        It is Sᵀ diag(probability) S less the products of the means, over (p-q)². Given value v
        the supports have the means q + (p-q) e_v; summed over the users their products are q² Σf
        11ᵀ + q (p-q) (f1ᵀ + 1fᵀ) + (p-q)² diag(f).
        """
        f = self.frequencies
        basis = np.stack([np.ones_like(f), f], axis=1)
        ratio = self.q / self.gap
        products = np.array([[ratio * f.sum(), 1.0], [1.0, 0.0]])
        return IndexCovariance(
            -f,
            basis,
            -ratio * products,
            form=self.form,
            law=self.probability / self.gap**2,
        )


def _probabilities(form: IndexForm, p: float) -> tuple[Array, Array]:
    """Return the probability of each index that supports a user's value, and of each other one."""
    # All indices that support a value are alike to its users.
    supporting = form.counts(np.ones(form.size))
    # Exact by the definition of the form: it sends all others with one probability.
    return p / supporting, (1 - p) / (form.size - supporting)


def report_shares(
    form: IndexForm, p: float, q: float, members: csr_array, *, centred: bool
) -> ReportShares:
    """Return what reports add to the answers to sets: see ``PureProtocol.report_shares``.

    Parameters
    ----------
    form, p, q
        As of ``IndexLaw``.
    members
        Sparse (m, d) of zeros and ones.
    centred
        Whether the answers are those of f̃ + (1 - Σf̃)/d.
    """
    inside, outside = _probabilities(form, p)
    columns = []
    # One set at a time: the shares of all sets together would be a dense matrix.
    for i in range(members.shape[0]):
        mean = members[[i]].toarray()[0]  # of a user's share: 1 of a member
        weights = mean - mean.mean() if centred else mean
        supported = form.sums(weights)
        # What each report adds: N Eq. 4 for the set, and its constant part where it is centred.
        constant = (mean - weights)[0]
        share = (supported - q * weights.sum()) / (p - q) + constant
        # Moments of the share given each value: the mean itself is 0 or 1, and so are its powers.
        square = _given_values(form, share**2, inside, outside)
        cube = _given_values(form, share**3, inside, outside)
        variance = square - mean
        third = cube - 3 * mean * square + 2 * mean
        step = _step(form, mean) / (p - q)
        columns.append(_bounds(mean > 0, share, variance, third, step))
    # One row per set, also where there is no set at all.
    table = np.array(columns).reshape(-1, len(ReportShares._fields))
    return ReportShares(*table.T)


def _given_values(form: IndexForm, of_index: Array, inside: Array, outside: Array) -> Array:
    """Return the expectation of a number that the sent index has, given each value: shape (d,)."""
    # All indices with the probability of other ones, then what supporting ones have beyond it.
    moments = (inside - outside) * form.counts(of_index) + outside * of_index.sum()
    return np.asarray(moments)


def _bounds(
    member: NDArray[np.bool_], share: Array, variance: Array, third: Array, step: float
) -> tuple[float, ...]:
    """Return the fields of ``ReportShares`` of one set."""
    # A set without members, or without others, has no such users: any bound will do.
    largest = variance.max()
    smallest = max(variance.min(), _NO_VARIANCE)
    return (
        variance.max(where=member, initial=0.0) if member.any() else largest,
        variance.max(where=~member, initial=0.0) if not member.all() else largest,
        share.min(),
        share.max(),
        np.abs(third).max() / smallest**1.5,
        step,
    )


def _step(form: IndexForm, mean: Array) -> float:
    """Return the largest number of which all differences of an index's members are multiples."""
    sizes = np.rint(form.sums(mean)).astype(np.int64)
    return float(np.gcd.reduce(sizes - sizes.min()))


class IndexCovariance(Covariance):
    """A diagonal, a matrix of low rank, and Sᵀ diag(law) S.

    Parameters
    ----------
    diagonal, basis, core
        The diagonal part and the matrices of low rank, as of ``Covariance``.
    form
        The form of the reports, which has the products with S.
    law
        Non-negative weights of the indices, shape (size,).
    is_centred
        Whether the low rank takes off the mean of all values.
    """

    def __init__(
        self,
        diagonal: Array,
        basis: Array,
        core: Array,
        *,
        form: IndexForm,
        law: Array,
        is_centred: bool = False,
    ) -> None:
        super().__init__(diagonal, basis, core)
        self._form = form
        self._law = law
        self._is_centred = is_centred

    @property
    def diagonal(self) -> Array:
        """The variance of every value, shape (d,)."""
        return super().diagonal + self._form.counts(self._law)

    def scaled(self, factor: float) -> Covariance:
        """Return the matrix scaled by a factor >= 0."""
        return IndexCovariance(
            self._independent * factor,
            self._basis,
            self._core * factor,
            form=self._form,
            law=self._law * factor,
            is_centred=self._is_centred,
        )

    def centred(self) -> Covariance:
        """Return the covariance after the mean of all values is taken from each of them."""
        low = super().centred()
        return IndexCovariance(
            low._independent,
            low._basis,
            low._core,
            form=self._form,
            law=self._law,
            is_centred=True,
        )

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Return normal vectors with this covariance and mean 0, shape (count, d).

        Above a few thousand values, for which no matrix is factored, their variance is a little
        larger, by that of drawing the users themselves: f_v (1 - f_v), beside 4 and more.
        """
        if self.d <= _FACTORED:
            standard = rng.standard_normal((count, self.d))
            return np.asarray(standard @ _root(self.dense()).T)
        standard = rng.standard_normal((count, len(self._law)))
        share = self._law / self._law.sum()
        # Counts of all reports have a fixed sum.
        shifts = standard * np.sqrt(self._law)
        shifts -= share * shifts.sum(axis=-1, keepdims=True)
        drawn = self._form.counts(shifts)
        if self._is_centred:
            drawn = drawn - drawn.mean(axis=-1, keepdims=True)
        return np.asarray(drawn)

    def dense(self) -> Array:
        """Return the matrix, shape (d, d)."""
        # Not by products with d unit vectors: a form may know pairs of values at once.
        low = np.diag(self._independent) + self._basis @ self._core @ self._basis.T
        return np.asarray(low + self._form.together(self._law))

    def variances(self, members: Any) -> Array:
        """Return the diagonal of A Σ Aᵀ for a sparse (m, d) matrix A of zeros and ones, (m,)."""
        result = super().variances(members)
        # One set at a time: a dense matrix of all sets would take their number times d.
        for i in range(members.shape[0]):
            supported = self._form.sums(members[[i]].toarray()[0])
            result[i] += self._law @ supported**2
        return result

    def trace_with(self, derivative: Any) -> float:
        """Return tr(J Σ).

        Cost: as many products with Σ as J has columns besides its diagonal; where it has many, a
        product with J per index, in blocks.
        """
        if derivative.low_rank is not None:
            gain, left, right = derivative.low_rank
            return float(gain @ self.diagonal - np.sum(right * self._product(left)))
        total = super().trace_with(derivative)
        size = len(self._law)
        # In blocks of indices: the supports of all of them would be a dense matrix.
        for first in range(0, size, _BLOCK):
            indices = np.arange(first, min(first + _BLOCK, size))
            chosen = np.zeros((len(indices), size))
            chosen[np.arange(len(indices)), indices] = 1.0
            supports = self._form.counts(chosen)
            moved = (derivative @ supports.T).T
            total += float(self._law[indices] @ np.sum(supports * moved, axis=-1))
        return total

    def _product(self, columns: Array) -> Array:
        """Return the product with the columns of a (d, m) matrix."""
        supported = self._form.sums(columns.T) * self._law
        with_indices = self._form.counts(supported).T
        return super()._product(columns) + with_indices


def _root(matrix: Array) -> Array:
    """Return R with R Rᵀ the symmetric matrix: by Cholesky, or eigenvectors if it is singular."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        # Ten times slower. What has no variance is rounded to below 0.
        sizes, directions = np.linalg.eigh(matrix)
        return np.asarray(directions * np.sqrt(np.maximum(sizes, 0.0)))
