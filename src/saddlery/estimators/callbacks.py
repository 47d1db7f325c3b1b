"""scikit-learn's callback protocol (1.9 and later) on top of the records of the loop.

A fit is a task. Its subtasks are the certificates of the run, in order; for one-vs-rest there is a task for each class in
between, and for cross-validation one for each fold and then one for each strength. The number of certificates is not known in
advance, so their progress bars pulse until the task ends. With an older scikit-learn nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from saddlery.solvers.base import Record

__all__ = ["CallbackSupportMixin", "FitTask", "with_callbacks"]

if TYPE_CHECKING:

    class CallbackSupportMixin:
        """Adds ``set_callbacks`` to an estimator."""

        def _init_callback_context(self, **options: Any) -> Any: ...

    def with_callbacks(method: Any) -> Any: ...

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9 has no callbacks

        class CallbackSupportMixin:
            """Stands in for scikit-learn's class of the same name, without the method ``set_callbacks``."""

        def with_callbacks(method: Any) -> Any:
            """The method as it is: there are no callbacks to tear down."""
            return method


class FitTask:
    """The task of one fit, which tells the callbacks of an estimator what goes on.

    Parameters
    ----------
    estimator : estimator
        Whose callbacks to call; without any, all methods do nothing.
    X, y, sample_weight
        What the estimator is fitted on.
    parts : sequence of str
        Names of the parts, if the fit has several (classes, folds); else its subtasks are the certificates.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, parts: Sequence[str] = ()):
        self.estimator, self.parts, self.context = estimator, parts, None
        if not getattr(estimator, "_skl_callbacks", None):
            return
        self.data = {"X": X, "y": y, "metadata": None if sample_weight is None else {"sample_weight": sample_weight}}
        shape = {"max_subtasks": len(parts), "sequential_subtasks": False} if parts else {"max_subtasks": None}
        self.context = estimator._init_callback_context(**shape)
        self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def part(
        self, index: int, steps: int | None = None, step_name: str = "certificate"
    ) -> tuple[Callable[..., bool] | None, Callable[[], Any]]:
        """Begin a part: what to call after each of its steps (None if nobody listens), and what at its end."""
        if self.context is None:
            return None, lambda: None
        if not self.parts:
            return self._recorder(self.context, step_name), lambda: None
        context = self.context.subcontext(task_name=self.parts[index], task_id=index, max_subtasks=steps)
        context.call_on_fit_task_begin(estimator=self.estimator)
        return self._recorder(context, step_name), lambda: context.call_on_fit_task_end(estimator=self.estimator)

    def _recorder(self, context: Any, name: str) -> Callable[..., bool]:
        def callback(record: Record | None = None) -> bool:
            leaf = context.subcontext(task_name=name)
            leaf.call_on_fit_task_begin(estimator=self.estimator)
            return bool(leaf.call_on_fit_task_end(estimator=self.estimator))

        return callback

    def silent(self) -> FitTask:
        """A task that tells nobody, for what should not show as a part."""
        return FitTask(None, None, None)

    def end(self) -> None:
        """Say that the estimator is fitted."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes={}, **self.data)
