"""`RandomBinning`: sparse features whose inner products approximate the Laplacian kernel (Rahimi and Recht, 2007).

A grid cuts every coordinate into bins of a random width with a random offset; two rows meet in a grid if they fall into the same
bin in every coordinate. For widths drawn from Gamma(2, scale), the probability of that is exp(-||x - x'||_1 / scale): with
width t, the coordinates of two rows at distance u share a bin with probability max(0, 1 - u / t), and the mean of that over
t ~ Gamma(2, scale) is exp(-u / scale).

=========  ==================================================================
here       meaning
=========  ==================================================================
widths     bin widths, one for each grid and coordinate
offsets    offsets, uniform on [0, width)
keys       odd random numbers: a bin (c_1, ..., c_d) has the hash sum_j key_j c_j mod 2^64
=========  ==================================================================
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from saddlery.errors import InputError
from saddlery.estimators.inputs import check_matrix
from saddlery.estimators.parameters import check_number
from saddlery.matrix import Matrix
from saddlery.parts import kernel

__all__ = ["RandomBinning"]


@kernel
def hash_bins(vectors, widths, offsets, keys, origin, out):
    """out_i += sum_j key_j (bin of x_ij - bin of 0): the hash is linear, so only stored entries are read."""
    for i in range(out.shape[0]):
        total = origin
        for p in range(vectors.first(i), vectors.last(i)):
            j = vectors.position(i, p)
            shift = math.floor((vectors.entry(p) - offsets[j]) / widths[j]) - math.floor(-offsets[j] / widths[j])
            total += keys[j] * np.int64(shift)
        out[i] = total


class RandomBinning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random binning features: a linear model on them approximates one with the kernel ``exp(-||x - x'||_1 / scale)``.

    Every row has one entry of ``1 / sqrt(n_grids)`` for each grid, so that the inner product of two rows is the share of grids in
    which they meet, and its mean the kernel. The output has many columns and is sparse, which suits an l1 penalty.

    Parameters
    ----------
    n_grids : int, default=100
        Number of grids. The error of the kernel is about ``0.5 / sqrt(n_grids)`` at most.
    scale : float, default=1.0
        Width of the kernel, in the unit of the features: scale them to similar sizes first.
    n_columns : int, optional
        By default each occupied bin of the training rows has a column, and a row that falls into a new bin has no entry for that
        grid. With a number, bins are hashed to so many columns; new bins then have columns too, at the price of collisions,
        whose entries add up.
    sparse_output : bool, default=True
        Whether to return a CSR array. A dense one is needed for ``set_output(transform="pandas")``.
    random_state : int, RandomState or None
        Seed of the grids.

    Attributes
    ----------
    widths_, offsets_ : arrays of shape (n_grids, n_features)
        The grids.
    keys_ : array of shape (n_features,)
        Odd numbers that hash bins to 64 bits.
    bins_ : list of arrays, or None
        Sorted hashes of the occupied bins of each grid; None with `n_columns`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> X = np.array([[0.0], [1.0]])
    >>> Z = sd.RandomBinning(n_grids=20_000, random_state=0).fit_transform(X)
    >>> bool(abs((Z @ Z.T)[0, 1] - np.exp(-1.0)) < 0.02)
    True
    """

    def __init__(
        self,
        n_grids: int = 100,
        scale: float = 1.0,
        n_columns: int | None = None,
        sparse_output: bool = True,
        random_state: Any = None,
    ):
        self.n_grids = n_grids
        self.scale = scale
        self.n_columns = n_columns
        self.sparse_output = sparse_output
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: Any, y: Any = None) -> RandomBinning:
        """Draw the grids and, without `n_columns`, find the occupied bins.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.
        y : ignored
            Only for the interface.

        Returns
        -------
        RandomBinning
            Itself.
        """
        self._fit_hashes(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and transform the same rows, with the bins computed once.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.
        y : ignored
            Only for the interface.

        Returns
        -------
        CSR array or array of shape (n_rows, n_columns)
        """
        return self._features(self._fit_hashes(X))

    def transform(self, X: Any) -> Any:
        """Random binning features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        CSR array or array of shape (n_rows, n_columns)
        """
        check_is_fitted(self)
        return self._features(self._hashes(check_matrix(self, X, reset=False, accept_sparse="csr")))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_columns or 0) if self.bins_ is None else sum(len(found) for found in self.bins_)

    def _fit_hashes(self, X: Any) -> np.ndarray:
        self._check_parameters()
        matrix = check_matrix(self, X, reset=True, accept_sparse="csr")
        shape = (self.n_grids, matrix.shape[1])
        rng = check_random_state(self.random_state)
        self.widths_ = rng.gamma(2.0, self.scale, size=shape)
        self.offsets_ = rng.uniform(size=shape) * self.widths_
        self.keys_ = rng.randint(-(2**62), 2**62, size=shape[1], dtype=np.int64) * 2 + 1
        hashes = self._hashes(matrix)
        self.bins_ = None if self.n_columns is not None else [np.unique(column) for column in hashes]
        return hashes

    def _check_parameters(self) -> None:
        check_number("n_grids", self.n_grids, Integral)
        check_number("scale", self.scale)
        if self.n_columns is not None:
            check_number("n_columns", self.n_columns, Integral)
        if self.n_grids < 1 or (self.n_columns is not None and self.n_columns < 1):
            raise InputError("n_grids and n_columns must be 1 or more")
        if not 0.0 < self.scale < math.inf:
            raise InputError(f"scale must be a positive number, not {self.scale!r}: it is the width of the kernel")

    def _hashes(self, matrix: Matrix) -> np.ndarray:
        """The hash of the bin of each row, in each grid: (n_grids, n_rows)."""
        out = np.empty((self.widths_.shape[0], matrix.shape[0]), dtype=np.int64)
        with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
            for widths, offsets, row in zip(self.widths_, self.offsets_, out, strict=True):
                origin = np.sum(self.keys_ * np.floor(-offsets / widths).astype(np.int64), dtype=np.int64)
                hash_bins(matrix.rows, widths, offsets, self.keys_, origin, row)
        return out

    def _features(self, hashes: np.ndarray) -> Any:
        grids, n = hashes.shape
        if self.bins_ is None:
            salt = np.arange(grids, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)  # another hash for each grid
            columns = np.remainder(_mixed(hashes.view(np.uint64) ^ salt), np.uint64(self._n_features_out)).astype(np.int64)
            known = np.ones((grids, n), dtype=bool)
        else:
            columns, known = np.empty((grids, n), dtype=np.int64), np.empty((grids, n), dtype=bool)
            first = 0
            for g, found in enumerate(self.bins_):
                at = np.minimum(np.searchsorted(found, hashes[g]), len(found) - 1)
                columns[g], known[g] = first + at, found[at] == hashes[g]
                first += len(found)
        counts = known.sum(axis=0)
        starts = np.concatenate([[0], np.cumsum(counts)])
        values = np.full(int(starts[-1]), 1.0 / math.sqrt(grids))
        out = sp.csr_array((values, columns.T[known.T], starts), shape=(n, self._n_features_out))
        out.sum_duplicates()
        return out if self.sparse_output else out.toarray()


def _mixed(h: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: spreads every bit of h over all bits."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))
