"""The report: one self-contained HTML page, without scripts and without network."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.report.markup import Markup, element, join
from saddlery.report.runs import runs_of
from saddlery.report.sections import (
    Table,
    certificate_section,
    coefficient_section,
    convergence_section,
    joined,
    settings_section,
    status_badge,
    table_section,
)
from saddlery.report.svg import Mark
from saddlery.solvers.base import Solution

__all__ = ["Mark", "Table", "write_report"]

MOST_WEIGHTS = 20_000_000  # weights of a model that a page can be made of
PACKAGES = ("saddlery", "numpy", "scipy", "numba", "scikit-learn")
# The page may hold styles and nothing else: no script runs and nothing is fetched, whatever a feature is called.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(
    path: str | os.PathLike[str],
    fitted: Any,
    *,
    title: str | None = None,
    feature_names: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    tol: float | None = None,
    tables: Sequence[Table] = (),
    marks: Sequence[Mark] = (),
    top: int = 20,
) -> Path:
    """Write a page with the certificate, the convergence curve and the largest coefficients.

    Parameters
    ----------
    path : path-like
        File to write; it appears whole or not at all.
    fitted : fitted estimator or Solution
        What to report.
    title : str, optional
        Heading of the page.
    feature_names : sequence of str, optional
        Names of the features; by default those that the estimator saw, or x0, x1, ...
    settings : mapping, optional
        What to list as settings; by default the parameters of the estimator, or the cost of the solve.
    tol : float, optional
        Tolerance that was asked for; by default the estimator's.
    tables : sequence of Table
        Extra tables, after the convergence curve.
    marks : sequence of Mark
        Single points to compare with in the curve.
    top : int
        Number of coefficients to show.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile, numpy as np, saddlery as sd
    >>> X = np.random.default_rng(0).standard_normal((40, 5))
    >>> problem = sd.LinearProblem(X, X[:, 0], loss="squared", penalty=sd.penalties.L1(0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(folder + "/page.html", sd.solve(problem), title="A lasso")
    ...     "<h1>A lasso</h1>" in page.read_text(encoding="utf-8")
    True
    """
    runs = runs_of(fitted)
    coefs, intercepts = _coefficients(fitted)
    names = _feature_names(fitted, feature_names, coefs.shape[1])
    tol = getattr(fitted, "tol", None) if tol is None else tol
    labels = [run.label or "coefficients" for run in runs]
    if len(labels) != coefs.shape[0]:
        labels = [f"class {label}" for label in getattr(fitted, "classes_", range(coefs.shape[0]))]
    title = title or _title(fitted)
    now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    body = joined(
        element("header", element("h1", title), element("p", f"Written by saddlery, {now}.", class_="sub"), status_badge(runs)),
        Markup("<main>"),
        certificate_section(runs, tol),
        convergence_section(runs, tol, marks),
        *[table_section(table) for table in tables],
        coefficient_section(coefs, names, labels, intercepts, top),
        settings_section(_settings(fitted) if settings is None else settings, _versions()),
        Markup("</main>"),
        element("footer", "The gap is primal minus dual; both are computed from the data alone, so anyone can recompute them."),
    )
    return _write(Path(path), _page(title, body))


def _page(title: str, body: Markup) -> str:
    style = Markup((files("saddlery.report") / "page.css").read_text(encoding="utf-8"))
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", style),
    )
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}</body>\n</html>\n'


def _write(path: Path, text: str) -> Path:
    from saddlery.files import write_atomically

    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"cannot write the report to {path}: give a file name in a directory that exists")
    write_atomically(path, text.encode())
    return path


# --------------------------------------------------------------------------- what is read off the fitted object


def _coefficients(fitted: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of coefficients with their intercepts, for one or several outputs."""
    w, b = (fitted.w.T, fitted.b) if isinstance(fitted, Solution) else (fitted.coef_, fitted.intercept_)
    if hasattr(w, "toarray"):
        if w.shape[0] * w.shape[1] > MOST_WEIGHTS:
            raise InputError(
                f"the report lists the weights of all features, and {w.shape[0]} x {w.shape[1]} are too many for a page"
            )
        w = w.toarray()
    coefs = np.atleast_2d(np.asarray(w, dtype=float))
    return coefs, np.broadcast_to(np.ravel(np.asarray(b, dtype=float)), (coefs.shape[0],))


def _feature_names(fitted: Any, given: Sequence[str] | None, d: int) -> list[str]:
    names = getattr(fitted, "feature_names_in_", None) if given is None else given
    if names is None:
        return [f"x{j}" for j in range(d)]
    if len(names) != d:
        raise InputError(f"{len(names)} feature names were given for {d} features")
    return [str(name) for name in names]


def _title(fitted: Any) -> str:
    if isinstance(fitted, Solution):
        return f"A linear model, solved by {fitted.solver}"
    return f"{type(fitted).__name__}: {getattr(fitted, 'loss', '')} loss, {getattr(fitted, 'penalty', '')} penalty"


def _settings(fitted: Any) -> dict[str, Any]:
    if isinstance(fitted, Solution):
        cost = {"epochs": fitted.epochs, "seconds": f"{fitted.seconds:.3f}", "passes over the data": f"{fitted.passes:.1f}"}
        return {"solver": fitted.solver, **cost}
    return dict(fitted.get_params(deep=False))


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # running from a checkout that is not installed
            found[name] = "not installed"
    return {**found, "platform": platform.platform(terse=True)}
