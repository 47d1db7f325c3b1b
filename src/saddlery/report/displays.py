"""Pictures in the manner of scikit-learn's displays. Matplotlib is imported only when something is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.report.runs import Run, runs_of

__all__ = ["ConvergenceDisplay", "PathDisplay"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6bb1", "#555555")  # told apart by all eyes
COSTS = {"seconds": "seconds", "passes": "passes over the data", "epoch": "epochs"}
FLOOR = 1e-17  # gaps of exactly 0 have no place on a log axis


def _axes(ax: Any) -> Any:
    """The given axes, or new ones; says which extra is missing if there is no matplotlib."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib, which is an extra: pip install 'saddlery[plot]'") from error
    return plt.subplots(layout="constrained")[1]


def _log_cost(ax: Any) -> None:
    """A log axis with the labels 1, 2, 5, 10, ... instead of powers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _tidy(ax: Any) -> None:
    ax.grid(True, which="major", color="#999999", alpha=0.3, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)


class ConvergenceDisplay:
    """How the certified gap fell, against seconds, passes over the data, or epochs.

    The solid line is the relative gap as it was known at the time. The dashed line is a sharper bound in hindsight: what the
    objective at that time lacks at most, measured from the best dual value at the end.

    Parameters
    ----------
    runs : list of Run
        What to draw; made by the ``from_`` constructors.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Set by :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The solid lines, one for each run.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 20))
    >>> problem = sd.LinearProblem(X, np.sign(X[:, 0]), penalty=sd.penalties.L1(0.01))
    >>> display = sd.ConvergenceDisplay.from_solution(sd.solve(problem))
    >>> display.ax_.get_yscale()
    'log'
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(self, runs: list[Run]):
        self.runs = [run for run in runs if run.trace]
        if not self.runs:
            raise InputError("there is nothing to draw: the trace is empty")

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str = "", ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw the trace of a fitted estimator; one line for each class of a one-vs-rest classifier."""
        return cls(runs_of(estimator, name)).plot(ax=ax, **options)

    @classmethod
    def from_solution(cls, solution: Any, *, name: str = "", ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw the trace of what :func:`saddlery.solve` returned."""
        return cls(runs_of(solution, name)).plot(ax=ax, **options)

    @classmethod
    def from_solutions(
        cls, solutions: Mapping[str, Any] | Sequence[Any], *, same_problem: bool = True, ax: Any = None, **options: Any
    ) -> ConvergenceDisplay:
        """Draw several traces, by default of the same problem, so that the best dual value of any bounds all."""
        return cls(runs_of(solutions, same_problem=same_problem)).plot(ax=ax, **options)

    @classmethod
    def from_trace(cls, trace: Any, *, name: str = "", ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw a trace, or any list of records."""
        return cls(runs_of(trace, name)).plot(ax=ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        x: str = "seconds",
        hindsight: bool = True,
        tol: float | None = None,
        xscale: str = "linear",
        **line_options: Any,
    ) -> ConvergenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; new axes by default.
        x : {"seconds", "passes", "epoch"}
            Cost on the horizontal axis.
        hindsight : bool
            Whether to draw the dashed bounds.
        tol : float, optional
            Draw a thin line at the tolerance that was asked for.
        xscale : {"linear", "log"}
            Scale of the horizontal axis; ``"log"`` leaves out what cost nothing.
        **line_options
            For the solid lines, as in ``ax.plot``.

        Returns
        -------
        ConvergenceDisplay
            Itself.
        """
        if x not in COSTS:
            raise InputError(f"x must be one of {', '.join(COSTS)}, not {x!r}")
        if xscale not in ("linear", "log"):
            raise InputError(f"xscale must be 'linear' or 'log', not {xscale!r}")
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        self.lines_ = []
        for number, run in enumerate(self.runs):
            cost, gap = run.column(x), np.maximum(run.column("relative_gap"), FLOOR)
            shown = cost > 0.0 if xscale == "log" else np.full(cost.shape, True)
            look = {"color": COLOURS[number % len(COLOURS)], "marker": "o", "markersize": 3.5, "linewidth": 1.8, **line_options}
            label = run.label or "certified relative gap"
            self.lines_ += ax.plot(cost[shown], gap[shown], label=label, zorder=3, **look)
            if hindsight:
                bound = np.maximum(run.column("suboptimality"), FLOOR)
                ax.plot(cost[shown], bound[shown], color=look["color"], linestyle="--", linewidth=1.1, alpha=0.8)
        if hindsight:
            ax.plot([], [], color="#777777", linestyle="--", linewidth=1.1, label="suboptimality, at most (in hindsight)")
        if tol is not None and tol > 0.0:
            ax.axhline(tol, color="#777777", linewidth=0.8, linestyle=":", label=f"tol = {tol:g}", zorder=1)
        ax.set(yscale="log", xlabel=COSTS[x], ylabel="relative gap")
        if xscale == "log":
            _log_cost(ax)
        else:
            ax.set_xlim(left=0)
        _tidy(ax)
        ax.legend(frameon=False, fontsize="small")
        return self


class PathDisplay:
    """Coefficients against the strength of the penalty, and how near to the optimum each of them provably is.

    Parameters
    ----------
    alphas : array of shape (m,)
        Strengths.
    coefs : array of shape (m, d)
        Coefficients, one row for each strength.
    relative_gaps : array of shape (m,)
        Certified relative gaps.
    feature_names : list of str, optional
        Names of the d features.

    Attributes
    ----------
    ax_, gap_ax_, figure_ : matplotlib objects
        Axes of the coefficients, axes of the gaps below them (None if only one axes was given), and their figure.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> X = np.random.default_rng(0).standard_normal((40, 6))
    >>> problem = sd.LinearProblem(X, X[:, 0] - X[:, 1], loss="squared", penalty=sd.penalties.L1(1.0))
    >>> display = sd.PathDisplay.from_path(sd.path(problem, n_alphas=5))
    >>> display.ax_.get_xscale()
    'log'
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(self, alphas: Any, coefs: Any, relative_gaps: Any, feature_names: Sequence[str] | None = None):
        self.alphas, self.coefs = np.asarray(alphas, dtype=float), np.asarray(coefs, dtype=float)
        self.relative_gaps = np.asarray(relative_gaps, dtype=float)
        if self.coefs.ndim != 2 or self.coefs.shape[0] != self.alphas.shape[0] or self.relative_gaps.shape != self.alphas.shape:
            raise InputError("a path needs one row of coefficients and one gap for each alpha")
        if feature_names is not None and len(feature_names) != self.coefs.shape[1]:
            raise InputError(f"{len(feature_names)} feature names were given for {self.coefs.shape[1]} features")
        self.feature_names = feature_names

    @classmethod
    def from_path(cls, path: Any, *, feature_names: Sequence[str] | None = None, ax: Any = None, **options: Any) -> PathDisplay:
        """Draw what :func:`saddlery.path` returned."""
        gaps = [certificate.relative_gap for certificate in path.certificates]
        return cls(path.alphas, path.coefs, gaps, feature_names).plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, top: int = 8, **line_options: Any) -> PathDisplay:
        """Draw the coefficients, the `top` largest with their names, and the certified gaps below them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw the coefficients; the gaps are drawn only on a figure of our own.
        top : int
            Number of features that have a colour and a label.
        **line_options
            For the coefficient lines, as in ``ax.plot``.
        """
        self.gap_ax_ = None
        if ax is None:
            first = _axes(None)
            self.figure_ = first.figure
            first.remove()
            self.ax_, self.gap_ax_ = self.figure_.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        else:
            self.ax_, self.figure_ = ax, ax.figure
        self._draw_coefficients(top, line_options)
        if self.gap_ax_ is not None:
            self.gap_ax_.plot(self.alphas, np.maximum(self.relative_gaps, FLOOR), "o-", color="#555555", markersize=3, linewidth=1)
            self.gap_ax_.set(yscale="log", ylabel="relative gap")
            _tidy(self.gap_ax_)
        bottom = self.ax_ if self.gap_ax_ is None else self.gap_ax_
        bottom.set(xscale="log", xlabel="alpha")
        if not bottom.xaxis_inverted():
            bottom.invert_xaxis()  # from the empty model on the left to the full one
        return self

    def _draw_coefficients(self, top: int, line_options: dict[str, Any]) -> None:
        sizes = np.max(np.abs(self.coefs), axis=0, initial=0.0)
        order = [int(j) for j in np.argsort(-sizes, kind="stable") if sizes[j] > 0.0]
        for j in order[top:]:
            self.ax_.plot(self.alphas, self.coefs[:, j], color="#aaaaaa", linewidth=0.7, zorder=1)
        for rank, j in enumerate(order[:top]):
            name = self.feature_names[j] if self.feature_names is not None else f"feature {j}"
            look = {"color": COLOURS[rank % len(COLOURS)], "linewidth": 1.6, **line_options}
            self.ax_.plot(self.alphas, self.coefs[:, j], label=name, zorder=3, **look)
        self.ax_.axhline(0.0, color="#777777", linewidth=0.8)
        self.ax_.set(xscale="log", ylabel="coefficient")
        told = f"{len(order)} of {len(sizes)} features enter; largest relative gap {_largest(self.relative_gaps)}"
        self.ax_.set_title(told, fontsize="medium")
        _tidy(self.ax_)
        if order:  # beside the lines, which leave no room
            self.ax_.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _largest(gaps: np.ndarray) -> str:
    top = float(np.max(gaps, initial=0.0))
    return f"{top:.1e}" if math.isfinite(top) else "unknown"
