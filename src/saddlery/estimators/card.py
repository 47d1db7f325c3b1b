"""The certificate of a fitted estimator as a small HTML card, shown below scikit-learn's diagram in notebooks."""

from __future__ import annotations

import html
import math
from typing import Any

from sklearn import get_config
from sklearn.utils import estimator_html_repr

from saddlery.matrix import count_nonzero
from saddlery.solvers.base import Status

__all__ = ["CertificateCard", "certificate_card"]

STYLE = "margin:.4em 0;padding:.5em .8em;border-left:4px solid {colour};font-family:monospace;font-size:.9em;line-height:1.5"


def certificate_card(estimator: Any) -> str:
    """HTML that says what a fitted estimator is proved to be, or nothing if it is not fitted.

    Parameters
    ----------
    estimator : estimator
        One of this library.

    Returns
    -------
    str
    """
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return ""
    done = estimator.status_ is Status.CONVERGED
    several = len(getattr(estimator, "certificates_", [])) > 1
    asked = "" if estimator.tol is None else f"<b>{'certified' if done else 'not certified'} to tol={estimator.tol:g}</b>: "
    lines = [
        f"{asked}{html.escape(str(estimator.status_))}",
        f"objective {certificate.primal:.8g}, optimum at least {certificate.dual:.8g}",
        f"gap {certificate.gap:.2e}, relative gap {certificate.relative_gap:.2e}" + (" (worst class)" if several else ""),
        f"{count_nonzero(estimator.coef_)} of {math.prod(estimator.coef_.shape)} coefficients are not zero",
    ]
    return f'<div class="saddlery-card" style="{STYLE.format(colour="#2e7d32" if done else "#e65100")}">{"<br>".join(lines)}</div>'


class CertificateCard:
    """Adds the card to the HTML representation of an estimator."""

    def _html_repr(self) -> str:
        return estimator_html_repr(self) + certificate_card(self)

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        output = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            output["text/html"] = self._html_repr()
        return output
