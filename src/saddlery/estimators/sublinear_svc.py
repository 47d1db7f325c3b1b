"""`SublinearSVC`: a soft-margin SVM that reads a few rows and a few columns of X, and counts them."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from saddlery.errors import InputError, unknown_name
from saddlery.estimators.base import REMEDIES, draw_seeds
from saddlery.estimators.budget import Budget, parse_budget
from saddlery.estimators.callbacks import FitTask, with_callbacks
from saddlery.estimators.classifier import BaseLinearClassifier
from saddlery.estimators.inputs import Rows, check_matrix
from saddlery.estimators.parameters import check_number
from saddlery.matrix import Matrix
from saddlery.problems.slack_classes import OneVsRestSlackSVM
from saddlery.problems.slack_svm import SlackSVMProblem
from saddlery.problems.svm_translations import C_from_alpha
from saddlery.solvers.base import Record, Solution, Status, Trace
from saddlery.solvers.loop import solve
from saddlery.solvers.simba import Simba
from saddlery.solvers.slack_exact import SlackExact

__all__ = ["SublinearSVC"]

LEAST = 10_000_000  # accesses: with the default budget as much is read of small data, too
PASSES = 100  # of the exact solver: smaller data than the budget over this are solved exactly
SAMPLED_SHARE, FEWEST_SAMPLED, MOST_SAMPLED = 0.2, 20, 1000  # of the budget, and rows, for a sampled certificate
ETA = 1.5  # rate of the row weights: with little noise better than smaller ones, else no worse by much
ROOM = 0.9  # of the slack that the classes allow for: at all of it the whole smaller class counts, and b is not unique
POLISH = 0.1  # relative gaps below this are beyond sampling
EXACT_TOL = 1e-11  # relative gap where the exact solver serves small data
MOST_STEPS = 5000  # with the default budget


class Products(NamedTuple):
    """X w and X'(s a), of one class or with a column for each."""

    Xw: np.ndarray
    Xta: np.ndarray


class SublinearSVC(BaseLinearClassifier):
    """A linear SVM from part of the data: rows and columns are drawn, and only those are read.

    It maximises the mean of the smallest margins, a share `slack` of all, over directions of length 1: the nu-SVM, with the same
    path of solutions as scikit-learn's ``SVC(kernel="linear", C=...)``.

    It pays where a feature is dear (computed on demand, remote, or on a disk of more data than memory), X *dense*, noise little,
    with something rare to be learnt (which a subsample of rows would miss). It does not pay for sparse text or for data in
    memory: use `LinearClassifier` there. It learns to a few percent of the optimum, not further; `tol` below 0.1 hands over to
    an exact solver, which reads everything many times. ``docs/sublinear-svm.md`` has figures.

    Parameters
    ----------
    slack : float, default=0.4
        Share of the rows whose mean margin counts, above 0 and at most 1; `nu` of scikit-learn's `NuSVC`. It must be larger than
        twice the share of rows on the wrong side, and much smaller (0.01) if there is little noise. With an intercept it can be at
        most twice the share of the smaller class, and no more than nine tenths of that is used (`slack_`). With
        ``form="budget"`` the paper's nu: mean slack in units of X, 0 or more.
    budget : float or str, optional
        What may be spent: a number of feature accesses, ``"5%"`` of the entries of X, ``"10s"``, ``"2000 steps"``, or several with
        commas between. By default as many accesses as X has entries, ten million at least, and 5000 steps at most.
    form : {"capped", "budget"}, default="capped"
        The capped form has no slacks in its steps and learns faster; ``"budget"`` is the paper's algorithm, for two classes.
    certificate : {"exact", "sampled", None}, default="exact"
        What is known about the result at the end. ``"exact"`` proves a gap, and for that reads all of X twice, outside of the
        budget: not what you want on a store or for features on demand. ``"sampled"`` reads some rows, within the
        budget, and holds with the probability that it states. None reads nothing.
    tol : float, optional
        Stop when the relative gap is at most this; needs ``certificate="exact"``. If it is below 0.1 and the budget was not
        enough, the exact dual solver goes on from there, outside of the budget.
    solver : {"auto", "simba", "exact"}, default="auto"
        ``"auto"`` samples, unless X has less than a hundredth of the entries that the budget allows to read: nothing can be saved
        then, and the exact solver is better in all respects.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    batch_rows, batch_columns : int, optional
        Rows and columns that a step draws. More of both mean fewer requests, but more accesses.
    class_weight : dict, "balanced" or None
        Weights of classes; they multiply the weights of their rows.
    random_state : int, RandomState, Generator or None
        Seed of the draws.
    verbose : int, default=0
        Show a live table.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Directions of length 1, so that decisions are distances.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    feature_accesses_ : dict
        ``total`` and ``distinct`` entries of X that were read (stored ones of sparse data), ``dense`` and ``dense_distinct`` with
        the zeros, ``rows`` and ``columns`` that were drawn, ``share`` of the entries of X that was read (distinct ones), and
        ``certificate`` and ``polish``, the reads of the exact certificate and of the exact solver, which come on top. Rows of a
        sampled certificate are in the total only.
    certificate_ : Certificate
        In the library's orientation: minus the mean margin of the model, and a bound that no direction beats; the sum over classes
        if there are three or more. Values are NaN with ``certificate=None``.
    slack_ : float or array of shape (n_classes,)
        The slack that was used.
    C_ : float, array of shape (n_classes,) or None
        The `C` of scikit-learn's SVC whose solution this approximates, up to the length of `coef_`; None without an exact
        certificate, and infinity where margins are not positive.
    trace_ : Trace
        How it went; ``counts`` of each record holds accesses.
    status_ : Status
        How the fit ended. ``ZERO_VALUE`` says that no direction has a positive mean of the smallest margins: the classes overlap by
        more than `slack` allows, and the model is worth nothing; take more slack.
    solver_ : str
        ``"simba"`` or ``"slack_exact"``, which also stands for a polish.
    n_iter_ : int
        Steps of sampling, or ordinary SVMs that the exact solver solved.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(2000) < 0.5, 1, -1)
    >>> X = 0.1 * rng.standard_normal((2000, 1000)) + 0.1 * y[:, None] * np.sign(rng.standard_normal(1000))
    >>> model = sd.SublinearSVC(budget="5%", certificate=None, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.99, model.feature_accesses_["share"] < 0.06
    (True, True)
    """

    def __init__(
        self,
        slack: float = 0.4,
        budget: Any = None,
        form: str = "capped",
        certificate: str | None = "exact",
        tol: float | None = None,
        solver: str = "auto",
        fit_intercept: bool = True,
        batch_rows: int | None = None,
        batch_columns: int | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.slack = slack
        self.budget = budget
        self.form = form
        self.certificate = certificate
        self.tol = tol  # type: ignore[assignment]
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.batch_rows = batch_rows
        self.batch_columns = batch_columns
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SublinearSVC:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix, store or features on demand, of shape (n_rows, n_features)
            Data. Features on demand are any object with `shape`, `row(i)` and `column(j)`
            (:class:`saddlery.FeaturesOnDemand`).
        y : array-like of shape (n_rows,), optional
            Labels; those of the store if X is one.
        sample_weight : array-like of shape (n_rows,), optional
            Weights, 0 or more. A weight of 2 equals the row twice, 0 equals no row.

        Returns
        -------
        SublinearSVC
            Itself.
        """
        self._check_parameters()
        matrix, rows, codes = self._check_data(X, y, sample_weight)
        budget = (
            Budget(accesses=max(matrix.nnz, LEAST), steps=MOST_STEPS)
            if self.budget is None
            else parse_budget(self.budget, matrix.nnz)
        )
        exact = self.solver == "exact" or (self.solver == "auto" and PASSES * matrix.nnz <= budget.accesses < math.inf)
        problem = self._problem(matrix, rows, codes)
        task = FitTask(self, X, y, sample_weight)
        step, end = task.part(0)
        listeners = [] if step is None else [step]
        with self._live_table(f"SublinearSVC({budget})") as table:
            if table is not None:
                listeners.append(table)
            if exact:
                solution = self._solve_exactly(problem, EXACT_TOL if self.tol is None else self.tol, listeners)
                self.feature_accesses_ = _whole(problem, solution)
                products = None
            else:
                solution, products = self._sample(problem, budget, listeners)
        if exact or self.certificate == "exact":
            if products is None:
                products = Products(problem.margins(solution.w), _product(problem, solution.dual))
            strengths = _strengths(problem, solution, products, matrix.shape[0] if rows.weights is None else rows.weights.sum())
            self.C_: Any = float(strengths[0]) if strengths.size == 1 else strengths
        else:
            self.C_ = None
        self._keep(problem, solution)
        end()
        task.end()
        return self

    # -- pieces of a fit

    def _check_parameters(self) -> None:
        check_number("slack", self.slack)
        if self.form not in ("capped", "budget"):
            raise unknown_name("form", self.form, ["capped", "budget"])
        if self.certificate not in ("exact", "sampled", None):
            raise InputError(f"certificate must be 'exact', 'sampled' or None, not {self.certificate!r}")
        if self.solver not in ("auto", "simba", "exact"):
            raise unknown_name("solver of SublinearSVC", self.solver, ["auto", "simba", "exact"])
        if self.tol is not None:
            check_number("tol", self.tol)
            if not self.tol >= 0.0:
                raise InputError(f"tol must be 0 or more, not {self.tol!r}")
            if self.certificate != "exact":
                raise InputError(f"tol={self.tol!r} needs certificate='exact': nothing else proves a gap")

    def _problem(self, matrix: Matrix, rows: Rows, codes: np.ndarray) -> Any:
        """The game, or one for each class; the slack is at most what the classes allow for."""
        count = self.classes_.size
        if self.form == "budget":
            if count > 2:
                raise InputError(f"form='budget' is for two classes, but y holds {count}: use form='capped'")
            self.slack_: Any = float(self.slack)
        else:
            shares = np.bincount(codes, rows.weights, minlength=count) / (
                codes.size if rows.weights is None else rows.weights.sum()
            )
            most = 2.0 * np.minimum(shares, 1.0 - shares) if self.fit_intercept else np.ones(count)
            slacks = np.minimum(float(self.slack), ROOM * most if self.fit_intercept else most)
            self.slack_ = float(slacks[0]) if count == 2 else slacks
        if count > 2:
            return OneVsRestSlackSVM(matrix, codes, self.slack_, self.fit_intercept, rows.weights)
        signs = np.where(codes == 1, 1.0, -1.0)
        return SlackSVMProblem(matrix, signs, self.slack_, self.form, self.fit_intercept, rows.weights)

    def _sample(self, problem: Any, budget: Budget, listeners: list[Any]) -> tuple[Solution, Products | None]:
        """Steps of `simba` within the budget, then what is to be known about where they led."""
        checked = self.tol is not None and self.tol >= POLISH  # only then can sampling get there, and must look on the way
        seed, sample_seed = draw_seeds(self.random_state, 2)
        judge: Any = "exact" if checked else None
        if self.certificate == "sampled":
            rows = SAMPLED_SHARE * budget.accesses / max(problem.size / problem.n, 1.0)
            judge = problem.sample(sample_seed, rows=int(min(max(rows, FEWEST_SAMPLED), MOST_SAMPLED)))
        listeners = [*listeners, lambda record: record.counts["iterations"] >= budget.steps]
        solution = solve(
            problem,
            Simba(
                rows=self.batch_rows,
                cols=self.batch_columns,
                eta=ETA if self.form == "capped" else None,
                most=None if math.isinf(budget.steps) else int(budget.steps),
            ),
            tol=self.tol if checked else 0.0,
            max_epochs=10**9,
            max_seconds=None if math.isinf(budget.seconds) else budget.seconds,
            max_accesses=None if math.isinf(budget.accesses) else budget.accesses,
            random_state=seed,
            callbacks=listeners,
            certificate=judge,
        )
        counts = solution.trace[-1].counts if solution.trace else {}
        self.feature_accesses_ = _parts(problem, solution, counts)
        if solution.status is Status.CALLBACK and counts.get("iterations", 0.0) >= budget.steps:
            solution.status = Status.MAX_EPOCHS
        if self.certificate == "exact" and not checked:
            solution, products = _certified(problem, solution)
            self.feature_accesses_["certificate"] = 2.0 * problem.size
            if self.tol is not None and solution.certificate.relative_gap > self.tol:
                return self._polish(problem, solution, listeners[:-1]), None
            if self.tol is not None:
                solution.status = Status.CONVERGED
            return solution, products
        return solution, None

    def _polish(self, problem: Any, solution: Solution, listeners: list[Any]) -> Solution:
        """The exact solver, where a gap is asked for that sampling does not reach."""
        polished = self._solve_exactly(problem, float(self.tol or 0.0), listeners)
        self.feature_accesses_["polish"] = _whole(problem, polished)["total"]
        polished.trace[:0] = solution.trace
        return polished

    def _solve_exactly(self, problem: Any, tol: float, listeners: list[Any]) -> Solution:
        seed = draw_seeds(self.random_state, 1)[0]
        return solve(problem, SlackExact(), tol=tol, max_epochs=10**9, random_state=seed, callbacks=listeners)

    def _keep(self, problem: Any, solution: Solution) -> None:
        """What stays of a solution."""
        W = solution.w[:, None] if solution.w.ndim == 1 else solution.w
        b = np.atleast_1d(np.asarray(solution.b, dtype=np.float64))
        norms = np.linalg.norm(W, axis=0)
        scale = np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 0.0)
        self._set_weights(np.ascontiguousarray((W * scale).T), b * scale)
        self._row_weights = None  # a model file has no use for them
        self.certificate_, self.trace_ = solution.certificate, solution.trace
        self.status_, self.solver_ = solution.status, solution.solver
        last = solution.trace[-1].counts if solution.trace else {}
        self.n_iter_ = max(1, int(last.get("iterations", solution.epochs)))
        if solution.solver == SlackExact.name and (solution.certificate.primal >= 0.0 or not norms.all()):
            self.status_ = Status.ZERO_VALUE
        if self.tol is not None and solution.status not in (Status.CONVERGED, Status.ZERO_VALUE):
            warnings.warn(
                f"SublinearSVC is not certified to tol={self.tol:g}: a relative gap of {solution.certificate.relative_gap:.2e} was "
                f"reached ({solution.status}); {REMEDIES[solution.status].replace('max_epochs', 'budget')}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _margins(self, X: Any) -> np.ndarray:
        """X coef' + intercept, read in parts where X is."""
        check_is_fitted(self)
        matrix = check_matrix(self, X, reset=False)
        return matrix.matvec(np.ascontiguousarray(self.coef_.T)) + self.intercept_


def _parts(problem: Any, solution: Solution, counts: Any) -> dict[str, float]:
    """What sampling read, from the counters of the solver."""
    sample = counts.get("certificate_accesses", 0.0)
    return {
        "total": counts.get("accesses", 0.0) + sample,
        "distinct": counts.get("distinct_accesses", 0.0),
        "dense": counts.get("dense_accesses", 0.0),
        "dense_distinct": counts.get("dense_distinct_accesses", 0.0),
        "rows": counts.get("rows", 0.0),
        "columns": counts.get("columns", 0.0),
        "share": counts.get("distinct_accesses", 0.0) / problem.size,
        "certificate": 0.0,
        "polish": 0.0,
    }


def _whole(problem: Any, solution: Solution) -> dict[str, float]:
    """What the exact solver read: everything, many times."""
    passes, size = solution.passes, float(problem.size)
    dense = float(problem.n) * problem.d
    return {
        "total": passes * size,
        "distinct": size,
        "dense": passes * dense,
        "dense_distinct": dense,
        "rows": passes * problem.n,
        "columns": 0.0,
        "share": 1.0,
        "certificate": 2.0 * size,
        "polish": 0.0,
    }


def _product(problem: Any, a: np.ndarray) -> np.ndarray:
    """X'(s a)."""
    return problem.matrix.rmatvec((problem.s if a.ndim == 1 else problem.s[:, None]) * a)


def _certified(problem: Any, solution: Solution) -> tuple[Solution, Products]:
    """The last point with its best intercept, and its exact certificate: two passes over the data."""
    point = problem.complete(problem.as_point(solution.w, solution.b, solution.dual))
    primal, dual = problem.evaluate(point)
    certificate = problem.certificate(primal, dual.value, dual.a)
    last = solution.trace[-1]
    values = (certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap)
    record = Record(last.epoch, last.seconds, last.passes, *values, last.nonzeros, last.counts)
    trace = Trace([*solution.trace[:-1], record])
    return replace(solution, w=point.w, b=point.b, dual=dual.a, certificate=certificate, trace=trace), Products(point.Xw, dual.Xta)


def _strengths(problem: Any, solution: Solution, products: Products, weight: float) -> np.ndarray:
    """C of the ordinary SVM that each game stands for: alpha = share * level * ||X'(s a)||, as in `svm_translations`."""
    classes = getattr(problem, "classes", [problem])
    Xw, Xta, a = (values.reshape(len(values), -1) for values in (*products, solution.dual))
    b = np.atleast_1d(solution.b)
    out = np.full(len(classes), math.inf)
    for c, each in enumerate(classes):
        level = each.level(np.ascontiguousarray(Xw[:, c]), float(b[c]))
        share = each.slack if each.form == "capped" else 1.0 / float(np.abs(a[each.s > 0.0, c]).max())
        alpha = share * level * float(np.linalg.norm(Xta[:, c]))
        if alpha > 0.0:
            out[c] = C_from_alpha(alpha, weight)
    return out
