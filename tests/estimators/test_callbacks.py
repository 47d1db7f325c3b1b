"""scikit-learn's callback protocol."""

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import saddlery as sd

callback = pytest.importorskip("sklearn.callback")


class Listener:
    """Writes down what it hears, and asks to stop at a certificate if told so."""

    max_propagation_depth = None

    def __init__(self, stop_at=None):
        self.stop_at, self.heard, self.fitted = stop_at, [], None

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.heard.append(f"end {context.task_name}")
        if context.task_name == "fit":
            self.fitted = fitted_estimator
        return context.task_name == "certificate" and context.task_id == self.stop_at


def test_tasks_of_a_fit(two_classes):
    listener = Listener()
    model = sd.LinearClassifier().set_callbacks(listener).fit(*two_classes)
    assert listener.heard[:2] == ["setup", "begin fit"]
    assert listener.heard[-2:] == ["end fit", "teardown"]
    assert listener.heard.count("end certificate") == len(model.trace_)
    assert (listener.fitted.coef_ == model.coef_).all()


def test_tasks_of_several_classes(three_classes):
    listener = Listener()
    model = sd.LinearClassifier(n_jobs=2).set_callbacks(listener).fit(*three_classes)
    assert {"begin class setosa", "begin class versicolor", "end class virginica"} <= set(listener.heard)
    assert listener.heard.count("end certificate") == sum(map(len, model.traces_))


def test_a_callback_can_stop(numbers):
    listener = Listener(stop_at=1)
    with pytest.warns(ConvergenceWarning, match="stopped by a callback"):
        model = sd.LinearRegressor(loss="huber", alpha=0.01, tol=1e-14).set_callbacks(listener).fit(*numbers)
    assert model.status_ is sd.Status.CALLBACK
    assert len(model.trace_) == 2


def test_folds_are_tasks(numbers):
    listener = Listener()
    sd.LinearRegressorCV(n_alphas=4, cv=3, n_jobs=2).set_callbacks(listener).fit(*numbers)
    assert listener.heard.count("end strength") == 12
    assert {"begin fold 0", "end fold 2"} <= set(listener.heard)


def test_callbacks_come_down_from_a_search(two_classes):
    listener = Listener()
    GridSearchCV(sd.LinearClassifier(), {"alpha": [0.1, 0.01]}, cv=2).set_callbacks(listener).fit(*two_classes)
    assert listener.heard.count("setup") == listener.heard.count("teardown") == 1
    assert "end certificate" in listener.heard


def test_progress_bar(three_classes, capsys):
    sd.LinearClassifier().set_callbacks(callback.ProgressBar()).fit(*three_classes)
    assert "class setosa" in capsys.readouterr().out
