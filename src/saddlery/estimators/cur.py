"""`CURDecomposition`: a matrix from a few of its own columns and rows, chosen by a convex problem with a certificate."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_array, check_is_fitted

from saddlery.errors import InputError
from saddlery.estimators.inputs import check_matrix
from saddlery.estimators.one_fit import OneFit
from saddlery.estimators.parameters import check_number, check_settings
from saddlery.problems.cur import CURProblem

__all__ = ["CURDecomposition"]

DEFAULT_UNITS = 3.0


class CURDecomposition(OneFit, SelectorMixin, BaseEstimator):
    """Approximate a matrix by some of its columns and rows, ``X ~ C U R`` with ``C = X[:, columns]`` and ``R = X[rows]``.

    The weights W (features x rows) minimise ``||X W X - X||_F^2 / (2 n d)`` with both ``sum_i max_j |W_ij|`` and
    ``sum_j max_i |W_ij|`` at most `radius`. A row of W that is not zero selects a column of X, a column of W selects a row of X;
    the certificate proves how near W is to the best one. `U_` is then fitted anew, without the budget, to what was selected.

    Parameters
    ----------
    radius : float, optional
        Budget of the weights, in units of 1 / X: a larger one selects more and approximates better. By default 3 divided by the
        largest singular value of X; a factor from 0.1 to 100 of that is what makes a difference.
    n_columns, n_rows : int, optional
        Keep at most so many columns and rows, the most important ones.
    threshold : float, default=0.01
        Columns and rows whose importance is at most this share of the largest are not selected.
    refit : bool, default=True
        Whether `U_` is the best one for the columns and rows selected. Otherwise it is the part of W that belongs to them.
    solver : str or Solver, default="auto"
        "cur_hybrid" (the default), "cur_splitting" or "cur_corrective".
    tol : float, default=1e-4
        Bound on the relative gap of the weights: 1 is the objective of W = 0.
    max_epochs : int, default=1000
        Budget of the solver.
    max_seconds : float, optional
        Budget in seconds.
    verbose : int, default=0
        Whether to show the certificates while it runs.

    Attributes
    ----------
    columns_, rows_ : arrays of int
        Columns and rows selected, in rising order.
    column_importances_, row_importances_ : arrays of shape (n_features,), (n_rows,)
        Share of the radius that each takes: the largest weight in the row or column of W, divided by the radius.
    C_, U_, R_ : arrays
        The decomposition: the columns, the matrix between them, the rows.
    weights_ : array of shape (n_features, n_rows)
        W, of which the certificate speaks.
    reconstruction_error_ : float
        ``||X - C U R||_F / ||X||_F``.
    weights_error_ : float
        ``||X - X W X||_F / ||X||_F``, the error that was minimised under the budget.
    radius_ : float
        The radius used.
    certificate_, trace_, status_, solver_, n_iter_
        What is proved of W, and how it came about.
    dual_ : array of shape (n_rows, n_features)
        The dual point of the certificate.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> rng = np.random.default_rng(0)
    >>> X = 0.01 * rng.standard_normal((8, 6))
    >>> X[[1, 5]] += [[1, 0, 0, 2, 0, 0], [0, 0, 0, 1, 0, 3]]  # two rows and three columns matter
    >>> model = sd.CURDecomposition(radius=1.0).fit(X)
    >>> model.columns_, model.rows_, model.transform(X).shape
    (array([0, 3, 5]), array([1, 5]), (8, 3))
    >>> bool(model.reconstruction_error_ < 0.05 and model.certificate_.relative_gap <= 1e-4)
    True
    """

    def __init__(
        self,
        radius: float | None = None,
        *,
        n_columns: int | None = None,
        n_rows: int | None = None,
        threshold: float = 0.01,
        refit: bool = True,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        max_seconds: float | None = None,
        verbose: int = 0,
    ):
        self.radius = radius
        self.n_columns = n_columns
        self.n_rows = n_rows
        self.threshold = threshold
        self.refit = refit
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None) -> CURDecomposition:
        """Select columns and rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The matrix. A sparse one is made dense: the weights have as many entries.
        y : ignored
            Only for the interface.

        Returns
        -------
        CURDecomposition
            Itself.
        """
        self._check_parameters()
        problem = CURProblem(check_matrix(self, X, reset=True), 1.0)
        problem = problem.with_radius(DEFAULT_UNITS * problem.unit if self.radius is None else self.radius)
        solution = self._solve_problem(problem, self.verbose)
        self.radius_ = problem.penalty.radius
        self.weights_, self.dual_ = solution.w, solution.dual
        self._select(problem)
        self._keep(solution, "fit again, or accept this by a larger tol")
        return self

    def _check_parameters(self) -> None:
        check_settings(self)
        check_number("threshold", self.threshold)
        if not 0.0 <= self.threshold < 1.0:
            raise InputError(f"threshold must be at least 0 and less than 1, not {self.threshold!r}")
        if self.radius is not None:
            check_number("radius", self.radius)
        for name in ("n_columns", "n_rows"):
            count = getattr(self, name)
            if count is not None:
                check_number(name, count, Integral)
                if count < 1:
                    raise InputError(f"{name} must be 1 or more, not {count!r}")

    def _select(self, problem: CURProblem) -> None:
        """Columns and rows from the weights, and the matrix between them."""
        M, W = problem.M, self.weights_
        self.column_importances_, self.row_importances_ = (np.abs(W).max(axis=axis) / self.radius_ for axis in (1, 0))
        self.columns_ = _most_important(self.column_importances_, self.threshold, self.n_columns)
        self.rows_ = _most_important(self.row_importances_, self.threshold, self.n_rows)
        self.C_, self.R_ = M[:, self.columns_], M[self.rows_]
        self.U_ = np.linalg.pinv(self.C_) @ M @ np.linalg.pinv(self.R_) if self.refit else W[np.ix_(self.columns_, self.rows_)]
        size = float(np.linalg.norm(M)) or 1.0
        self.reconstruction_error_ = float(np.linalg.norm(M - self.reconstruct())) / size
        self.weights_error_ = float(np.linalg.norm(M - problem.margins(W))) / size

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.columns_] = True
        return mask

    def transform(self, X: Any) -> Any:
        """The selected columns of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data with the columns of the matrix fitted.

        Returns
        -------
        array or sparse matrix of shape (n_rows, n_columns selected)
        """
        return super().transform(X)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """All columns from the selected ones: ``X U R``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns selected)
            Selected columns, as :meth:`transform` gives them.

        Returns
        -------
        array of shape (n_rows, n_features)
        """
        check_is_fitted(self)
        X = check_array(X, accept_sparse="csr", dtype=(np.float64, np.float32))
        if X.shape[1] != self.columns_.size:
            raise InputError(f"X has {X.shape[1]} columns, but {self.columns_.size} were selected: give what transform returns")
        return np.asarray(X @ (self.U_ @ self.R_))

    def reconstruct(self) -> np.ndarray:
        """The approximation ``C U R`` of the matrix fitted."""
        check_is_fitted(self)
        return self.C_ @ self.U_ @ self.R_


def _most_important(importances: np.ndarray, threshold: float, count: int | None) -> np.ndarray:
    """Indices, in rising order, of what exceeds a share of the largest, at most `count` of them."""
    chosen = np.flatnonzero(importances > threshold * importances.max())
    if count is not None and chosen.size > count:
        chosen = chosen[np.argsort(-importances[chosen], kind="stable")[:count]]
    return np.sort(chosen)
