"""`MatrixCompletion`: the missing entries of a matrix from the observed ones, by a bound on the nuclear norm."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from saddlery.errors import InputError
from saddlery.estimators.base import REMEDIES
from saddlery.estimators.parameters import check_number, check_settings, make_loss
from saddlery.penalties.spectral import top_pairs
from saddlery.problems.completion import CompletionProblem, LowRank
from saddlery.solvers.base import Solution, Status
from saddlery.solvers.loop import solve

__all__ = ["MatrixCompletion"]

MOST_CELLS = 100_000_000  # of a filled matrix: 800 MB
CHUNK = 1_000_000  # entries predicted at once
CENTERS = ("none", "global", "rows", "columns", "both")
HELD_OUT = 0.1  # share of the entries on which the radius is chosen
FACTOR = math.sqrt(2.0)  # between the radii tried
AS_GOOD = 0.005  # share by which the loss of a smaller radius may be larger
PATIENCE = 3  # radii that may be worse than the best before the search ends


class Observed(NamedTuple):
    """Observed entries of a matrix."""

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]


def observed_entries(X: Any, shape: Any = None) -> Observed:
    """The observed entries of a sparse matrix (those stored), of a dense one (those that are not NaN), or of triplets.

    Examples
    --------
    >>> observed_entries([[1.0, float("nan")], [2.0, 3.0]]).values
    array([1., 2., 3.])
    """
    if sp.issparse(X):
        found = sp.coo_array(X)
        entries = Observed(found.coords[0], found.coords[1], found.data, found.shape)
    elif isinstance(X, tuple):
        if len(X) != 3:
            raise InputError(f"give triplets as (rows, cols, values), not as a tuple of {len(X)}")
        rows, cols = np.asarray(X[0]), np.asarray(X[1])
        sides = (
            shape
            if shape is not None
            else [int(side.max(initial=0)) + 1 if side.dtype.kind in "iu" else 1 for side in (rows, cols)]
        )
        return Observed(rows, cols, np.asarray(X[2]), tuple(sides))
    else:
        try:
            dense = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X must hold numbers, with NaN for what was not observed ({error})") from error
        if dense.ndim != 2:
            raise InputError(
                f"X must be a matrix (sparse, or dense with NaN), or triplets (rows, cols, values); it has {dense.ndim} dimensions"
            )
        rows, cols = np.nonzero(~np.isnan(dense))
        entries = Observed(rows, cols, dense[rows, cols], dense.shape)
    if shape is not None and tuple(shape) != entries.shape:
        raise InputError(f"X has the shape {entries.shape}, not {tuple(shape)}: give shape for triplets only")
    return entries


class MatrixCompletion(TransformerMixin, BaseEstimator):
    """Low-rank matrix completion with a certificate of how near to the optimum it is.

    Minimises the (weighted) mean of the loss over the observed entries, over all matrices W whose singular values sum to at
    most `radius`. For the squared loss, ``(W_ij - x_ij)^2 / 2``, that is half the mean squared error. The matrix is kept by its
    factors; nothing dense of its shape is ever made, but by `transform`.

    Parameters
    ----------
    radius : float, optional
        Bound on the nuclear norm. Small ones give low ranks. By default it is chosen: growing radii are fitted to nine tenths of
        the entries until the loss on the tenth that was held out has not fallen any more for three of them; of those within half
        a percent of the best the smallest is taken.
    loss : {"squared", "huber", "logistic", "smooth_hinge", "squared_hinge"} or loss, default="squared"
        The last three are for entries that are -1 or +1.
    center : {"none", "global", "rows", "columns", "both"}, default="none"
        Means taken off before the fit and put back by `predict`: of all entries, of each row, of each column, or of rows and
        then of columns. The certificate is about what is left. Not for losses of signs.
    solver : str or solver, default="auto"
        A name, a solver with options, or ``"auto"``.
    tol : float, default=1e-4
        Stop when the relative gap is certified to be at most this; its unit is the objective at W = 0.
    max_epochs : int, default=200
        Budget in rounds of the solver.
    max_seconds : float, optional
        Budget in seconds.
    warm_start : bool, default=False
        Start from the factors of the last fit if the shape is the same.
    random_state : int, Generator or None
        Seed of the solver and of the entries held out.
    verbose : int, default=0
        Show a live table of rounds, values and gaps.

    Attributes
    ----------
    U_, sigma_, V_ : arrays of shapes (n_rows, rank), (rank,), (n_columns, rank)
        The matrix is ``U_ @ diag(sigma_) @ V_.T`` (and the means); columns are orthonormal, singular values fall.
    rank_ : int
    radius_ : float
        The radius given or chosen.
    certificate_ : Certificate
        Objective, lower bound on the optimum, and the gap between them. Its `basis` is "exact" if the smaller side has at most
        5,000 rows or columns; beyond that the bound rests on a randomised test, and `basis` says so.
    dual_coef_ : array of shape (n_entries,)
        Dual point of the certificate, one number for each entry in the order given.
    trace_, status_, solver_, n_iter_
        Certificates during the fit, how it ended, the solver, its rounds.
    offset_, row_offsets_, column_offsets_ : float, arrays
        The means that were taken off.
    shape_, n_features_in_ : tuple, int
        The shape of the matrix, and its columns.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> truth = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    >>> X = truth.copy()
    >>> X[0, 2] = X[3, 1] = np.nan
    >>> model = sd.MatrixCompletion(radius=13.4, tol=1e-6).fit(X)
    >>> model.rank_, model.predict([0, 3], [2, 1]).round(1)
    (1, array([ 2., -4.]))
    """

    def __init__(
        self,
        radius: float | None = None,
        loss: Any = "squared",
        center: str = "none",
        solver: Any = "auto",
        tol: float = 1e-4,
        max_epochs: int = 200,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.radius = radius
        self.loss = loss
        self.center = center
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, shape: Any = None) -> MatrixCompletion:
        """Fit the matrix to its observed entries.

        Parameters
        ----------
        X : sparse matrix, array or (rows, cols, values)
            Of a sparse matrix the *stored* entries count as observed, stored zeros among them. Of a dense one those that are not
            NaN. Triplets give the places of the entries, from 0, and their values. No place may come twice.
        y : ignored
            Only for the interface.
        sample_weight : array of shape (n_entries,), optional
            Weights of the entries, 0 or more, in the order of the triplets, of ``X.tocoo()``, or row by row of a dense matrix.
        shape : (int, int), optional
            Shape of the matrix, for triplets; by default it ends with the last row and column that are named.

        Returns
        -------
        MatrixCompletion
            Itself.
        """
        loss = make_loss(self.loss, "any")
        check_settings(self)
        if self.radius is not None:
            check_number("radius", self.radius)
        if self.center not in CENTERS:
            raise InputError(f"center must be one of {', '.join(CENTERS)}, not {self.center!r}")
        if self.center != "none" and loss.targets == "signs":
            raise InputError("entries that are -1 or +1 have no mean to be taken off: use center='none'")
        found = observed_entries(X, shape)
        problem = CompletionProblem(found.rows, found.cols, found.values, found.shape, self.radius or 1.0, loss, sample_weight)
        self._take_means(problem)
        start = None
        if self.warm_start and getattr(self, "shape_", None) == problem.shape:
            start = (LowRank(self.U_, self.sigma_, self.V_), 0.0, None)
        if self.radius is None:
            radius, start = self._choose_radius(problem)
            problem = problem.with_radius(radius)
        else:
            problem = problem.with_radius(self.radius)
        with self._live_table(problem) as table:
            solution = self._solve(problem, start, self.tol, () if table is None else (table,))
        self._keep(problem, solution)
        if solution.status is not Status.CONVERGED:
            warnings.warn(
                f"MatrixCompletion is not certified to tol={self.tol:g}: a relative gap of "
                f"{solution.certificate.relative_gap:.2e} was reached in {solution.epochs} rounds ({solution.status}); "
                f"{REMEDIES[solution.status]}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, rows: Any, cols: Any) -> np.ndarray:
        """Entries of the completed matrix.

        Parameters
        ----------
        rows, cols : int or arrays of int
            Places of the entries, from 0; the two are broadcast against each other.

        Returns
        -------
        array
            For losses of signs the margins, whose signs are the predictions.
        """
        check_is_fitted(self)
        rows, cols = np.broadcast_arrays(np.asarray(rows), np.asarray(cols))
        self._check_places(rows, cols)
        return self._entries(rows.ravel(), cols.ravel()).reshape(rows.shape)

    def transform(self, X: Any) -> np.ndarray:
        """The matrix X with its missing entries filled, as a dense array; observed entries stay as they are.

        Parameters
        ----------
        X : sparse matrix, array or (rows, cols, values)
            As for `fit`, and of the same shape.

        Returns
        -------
        array of shape (n_rows, n_columns)
            Refused above 100 million cells: ask `predict` for the entries that you need then.
        """
        check_is_fitted(self)
        found = self._of_same_shape(X)
        n, d = self.shape_
        if n * d > MOST_CELLS:
            raise InputError(
                f"a dense matrix of {n:,} x {d:,} cells would take {n * d * 8 / 1e9:.1f} GB: use predict(rows, cols) instead"
            )
        out = (self.U_ * self.sigma_) @ self.V_.T
        out += self.offset_ + self.row_offsets_[:, None] + self.column_offsets_
        out[found.rows, found.cols] = found.values
        return out

    def score(self, X: Any, y: Any = None) -> float:
        """Root mean squared error of the predictions at the observed entries of X: *smaller is better*, unlike other scores.

        Parameters
        ----------
        X : sparse matrix, array or (rows, cols, values)
            Observed entries, as for `fit`, as a rule others than those of the fit.
        y : ignored
            Only for the interface.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        found = self._of_same_shape(X)
        if not len(found.values):
            raise InputError("there are no observed entries to compare with")
        error = self.predict(found.rows, found.cols) - np.asarray(found.values, dtype=np.float64)
        return float(np.sqrt(np.mean(error * error)))

    # -- pieces

    def _check_places(self, rows: np.ndarray, cols: np.ndarray) -> None:
        for name, indices, length in (("row", rows, self.shape_[0]), ("column", cols, self.shape_[1])):
            if indices.size and indices.dtype.kind not in "iu":
                raise InputError(f"the {name}s must be whole numbers, not of type {indices.dtype}")
            outside = indices[(indices < 0) | (indices >= length)]
            if outside.size:
                raise InputError(f"{name} {outside.flat[0]} is not of this matrix: there are only the {name}s 0 to {length - 1}")

    def _entries(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        out = self.offset_ + self.row_offsets_[rows] + self.column_offsets_[cols]
        left = self.U_ * self.sigma_
        for first in range(0, len(out), CHUNK):
            part = slice(first, first + CHUNK)
            out[part] += np.einsum("ij,ij->i", left[rows[part]], self.V_[cols[part]])
        return out

    def _of_same_shape(self, X: Any) -> Observed:
        found = observed_entries(X, self.shape_ if isinstance(X, tuple) else None)
        if tuple(found.shape) != self.shape_:
            raise InputError(f"X has the shape {tuple(found.shape)}, but the model was fitted to one of {self.shape_}")
        self._check_places(found.rows, found.cols)
        return found

    def _solve(self, problem: CompletionProblem, start: Any, tol: float, callbacks: Any = ()) -> Solution:
        return solve(
            problem,
            self.solver,
            tol=tol,
            max_epochs=self.max_epochs,
            max_seconds=self.max_seconds,
            start=start,
            random_state=self.random_state,
            callbacks=callbacks,
        )

    def _live_table(self, problem: CompletionProblem) -> Any:
        if not self.verbose:
            return nullcontext(None)
        from saddlery.report.live import LiveTable  # only those who watch pay for it

        return LiveTable(repr(problem), tol=self.tol)

    def _take_means(self, problem: CompletionProblem) -> None:
        """Take the means that `center` names off the values of the problem, and keep them."""
        rows, cols, s = problem.rows, problem.cols, problem.s
        self.offset_ = float(s @ problem.y) if self.center != "none" else 0.0
        self.row_offsets_, self.column_offsets_ = np.zeros(problem.shape[0]), np.zeros(problem.shape[1])
        problem.y -= self.offset_
        if self.center in ("rows", "both"):
            self.row_offsets_ = _means(rows, s, problem.y, problem.shape[0])
            problem.y -= self.row_offsets_[rows]
        if self.center in ("columns", "both"):
            self.column_offsets_ = _means(cols, s, problem.y, problem.shape[1])
            problem.y -= self.column_offsets_[cols]

    def _choose_radius(self, problem: CompletionProblem) -> tuple[float, Any]:
        """The smallest radius with nearly the least loss on entries held out, and its matrix to start from."""
        rng = np.random.default_rng(self.random_state)
        held = rng.random(problem.size) < HELD_OUT
        if not held.any() or held.all():
            raise InputError(f"{problem.size} entries are too few to choose a radius: give one")
        rows, cols, y, s = problem.rows, problem.cols, problem.y, problem.s
        kept = ~held
        part = CompletionProblem(rows[kept], cols[kept], y[kept], problem.shape, 1.0, problem.loss, s[kept], problem.exact_limit)
        # the largest singular value of the matrix, as the observed entries suggest it
        sigma = top_pairs(part.gradient(part.y))[1]
        radius = float(sigma.max(initial=0.0)) * problem.shape[0] * problem.shape[1] / 2.0
        if radius == 0.0:
            return 1.0, None
        tried: list[tuple[float, float, Any]] = []
        least, worse, start = math.inf, 0, None
        while worse < PATIENCE:
            W: Any = self._solve(part.with_radius(radius), start, max(self.tol, 1e-3)).w
            z = np.einsum("ij,ij->i", (W.U * W.sigma)[rows[held]], W.V[cols[held]])
            loss = float(s[held] @ problem.loss.value(y[held], z))
            start = (W, 0.0, None)
            tried.append((loss, radius, start))
            worse = 0 if loss < least else worse + 1
            least, radius = min(least, loss), FACTOR * radius
        return next((radius, start) for loss, radius, start in tried if loss <= (1.0 + AS_GOOD) * least)

    def _keep(self, problem: CompletionProblem, solution: Solution) -> None:
        self.U_, self.sigma_, self.V_ = solution.w
        self.rank_ = len(self.sigma_)
        self.radius_ = problem.radius
        self.shape_, self.n_features_in_ = problem.shape, problem.shape[1]
        self.loss_, self.penalty_ = problem.loss, problem.penalty
        self.dual_coef_ = problem.as_given(solution.dual)
        self.certificate_, self.trace_, self.status_ = solution.certificate, solution.trace, solution.status
        self.solver_, self.n_iter_ = solution.solver, solution.epochs


def _means(index: np.ndarray, s: np.ndarray, y: np.ndarray, length: int) -> np.ndarray:
    """Weighted means by index; 0 where there is nothing."""
    weights = np.bincount(index, s, length)
    sums = np.bincount(index, s * y, length)
    return np.divide(sums, weights, out=np.zeros(length), where=weights > 0.0)
