"""SublinearSVC: what it reads is what it says, budgets hold, small data are solved exactly, and it learns from part of the data."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, NuSVC

import saddlery as sd
from saddlery.errors import InputError
from saddlery.estimators.budget import Budget, parse_budget
from saddlery.experiments.topics import Topics, rare_shares

TOPICS = Topics(600, 400, rare_shares(2, 2, 0.1), seed=0)
SAMPLING = {"solver": "simba", "slack": 0.1, "random_state": 0}


class Counted:
    """Features on demand that count the calls."""

    dtype = np.dtype(np.float32)

    def __init__(self, X=TOPICS):
        self.X, self.shape, self.rows_given, self.columns_given = X, X.shape, [], []

    def row(self, i):
        self.rows_given.append(i)
        return self.X.row(i)

    def column(self, j):
        self.columns_given.append(j)
        return self.X.column(j)

    @property
    def entries(self):
        return len(self.rows_given) * self.shape[1] + len(self.columns_given) * self.shape[0]

    @property
    def distinct(self):
        seen = np.zeros(self.shape, dtype=bool)
        seen[self.rows_given] = True
        seen[:, self.columns_given] = True
        return seen.sum()


# --------------------------------------------------------------------------- what is read


@pytest.mark.parametrize("form", ["capped", "budget"])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_read_is_counted(form, intercept):
    """The solver's count is that of the source, which knows nothing of the solver; no entry more is read."""
    source = Counted()
    model = sd.SublinearSVC(
        slack=0.1, form=form, solver="simba", budget="40%", certificate=None, fit_intercept=intercept, random_state=0
    )
    model.fit(sd.FetchedMatrix(source, cache_bytes=0), TOPICS.y)
    told = model.feature_accesses_
    assert told["total"] == told["dense"] == source.entries
    assert told["distinct"] == told["dense_distinct"] == source.distinct
    assert told["share"] == pytest.approx(source.distinct / 240_000)
    assert (told["rows"], told["columns"]) == (len(source.rows_given), len(source.columns_given))
    assert told["certificate"] == told["polish"] == 0.0
    assert 0.4 * 240_000 <= told["total"] < 0.4 * 240_000 + 40 * 1000


def test_sampled_certificates_are_within_the_budget_and_exact_ones_come_on_top():
    source = Counted()
    model = sd.SublinearSVC(**SAMPLING, budget="50%", certificate="sampled").fit(sd.FetchedMatrix(source, cache_bytes=0), TOPICS.y)
    assert model.feature_accesses_["total"] == source.entries
    assert model.certificate_.basis.startswith("sampled")
    assert model.certificate_.gap >= 0.0
    source = Counted()
    model = sd.SublinearSVC(**SAMPLING, budget="50%").fit(sd.FetchedMatrix(source, cache_bytes=0), TOPICS.y)
    told = model.feature_accesses_
    assert source.entries == told["total"] + told["certificate"]
    assert told["certificate"] == 2 * 240_000


def test_exact_certificate_is_that_of_the_problem():
    model = sd.SublinearSVC(**SAMPLING, budget="50%").fit(TOPICS, TOPICS.y)
    problem = sd.SlackSVMProblem(TOPICS.array(), TOPICS.y, model.slack_)
    again = problem.certify(model.coef_[0], None, model.intercept_[0])
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-6)
    best = sd.solve(problem, tol=1e-4).certificate
    assert model.certificate_.dual <= best.primal + 1e-9
    assert model.certificate_.primal >= best.dual - 1e-9
    assert model.trace_[-1].gap == model.certificate_.gap
    assert np.isnan(model.trace_[0].gap)


def test_the_same_from_memory_and_on_demand():
    options = {**SAMPLING, "budget": "30%", "certificate": None}
    one = sd.SublinearSVC(**options).fit(TOPICS, TOPICS.y)
    for X in (TOPICS.array(), Counted(), sd.FetchedMatrix(Counted(), cache_bytes=20_000)):
        other = sd.SublinearSVC(**options).fit(X, TOPICS.y)
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-5, atol=1e-7)
        assert other.feature_accesses_ == one.feature_accesses_
    fresh = TOPICS.test(500)
    np.testing.assert_array_equal(one.predict(fresh), one.predict(fresh.array()))
    assert one.score(fresh, fresh.y) > 0.9


def test_store(tmp_path):
    """A store in place of X, with its own targets."""
    X, y = TOPICS.array(), np.where(TOPICS.y > 0, "yes", "no")
    store = sd.open_store(sd.convert((X, y), tmp_path / "store"), load=False)
    options = {**SAMPLING, "budget": "30%", "certificate": None}
    model = sd.SublinearSVC(**options).fit(store)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(model.coef_, sd.SublinearSVC(**options).fit(X, y).coef_, rtol=1e-6)
    assert np.mean(model.predict(store) == y) > 0.9


def test_it_learns_a_rare_topic_that_a_subsample_misses():
    """With the same reads, on data where sampling should win."""
    X = Topics(3000, 3000, rare_shares(2, 6, 0.01), seed=1)
    errors = []
    for seed in range(3):
        model = sd.SublinearSVC(slack=0.005, budget="10%", fit_intercept=False, certificate=None, random_state=seed).fit(X, X.y)
        rows = np.random.default_rng(seed).permutation(3000)[:300]
        rival = sd.LinearClassifier(loss="hinge", penalty="l2", alpha=1e-4, fit_intercept=False, tol=1e-3, random_state=0)
        rival.fit(X.rows(rows), X.y[rows])
        errors.append((X.error(model.coef_[0]), X.error(rival.coef_[0])))
    ours, theirs = np.mean(errors, axis=0)
    assert ours < 0.5 * theirs


# --------------------------------------------------------------------------- budgets


def test_budgets_in_words():
    assert parse_budget(1e6, 100) == Budget(accesses=1e6)
    assert parse_budget("5%", 1000) == Budget(accesses=50.0)
    assert parse_budget(" 2.5 s ", 1000) == Budget(seconds=2.5)
    assert parse_budget("2000 steps", 1000) == Budget(steps=2000.0)
    assert parse_budget("1e-1%, 3e4 accesses, 1 step", 10**9) == Budget(accesses=3e4, steps=1.0)
    assert str(parse_budget("10s, 200 steps", 1)) == "10 seconds and 200 steps"
    for bad in ("much", "5 parsecs", "", "-3", 0, -1.0, "0%", True, [3], "1e", "nan"):
        with pytest.raises(InputError, match="budget"):
            parse_budget(bad, 100)


def test_budgets_hold():
    options = {**SAMPLING, "certificate": None}
    model = sd.SublinearSVC(**options, budget="37 steps").fit(TOPICS, TOPICS.y)
    assert model.n_iter_ == 37
    assert model.status_ is sd.Status.MAX_EPOCHS
    model = sd.SublinearSVC(**options, budget="0.2s").fit(TOPICS, TOPICS.y)
    assert model.status_ is sd.Status.MAX_SECONDS
    model = sd.SublinearSVC(**options, budget=50_000, batch_rows=1, batch_columns=1).fit(TOPICS, TOPICS.y)
    assert model.status_ is sd.Status.MAX_ACCESSES
    assert 50_000 <= model.feature_accesses_["total"] < 51_000
    assert model.n_iter_ == pytest.approx(51, abs=2)  # 1000 entries each, and the first has no column


# --------------------------------------------------------------------------- exact on small data


def small(n=60, d=4, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.argmax(X[:, :classes] + 0.6 * rng.standard_normal((n, classes)), axis=1)


def test_small_data_are_solved_exactly():
    """The direction and the intercept are those of scikit-learn's NuSVC, and of its SVC with C_."""
    X, y = small()
    model = sd.SublinearSVC(slack=0.4).fit(X, y)
    assert model.solver_ == "slack_exact"
    assert model.status_ is sd.Status.CONVERGED
    assert model.feature_accesses_["share"] == 1.0
    for rival in (NuSVC(nu=0.4, kernel="linear", tol=1e-10), SVC(C=model.C_, kernel="linear", tol=1e-10)):
        rival.fit(X, y)
        size = np.linalg.norm(rival.coef_)
        np.testing.assert_allclose(model.coef_, rival.coef_ / size, atol=2e-4)
        np.testing.assert_allclose(model.intercept_, rival.intercept_ / size, atol=2e-4)


def test_slack_is_at_most_what_the_classes_allow():
    X, y = small()
    y[:] = np.arange(60) < 6
    model = sd.SublinearSVC(slack=0.9).fit(X + 3.0 * y[:, None], y)
    assert model.slack_ == pytest.approx(0.18)
    assert sd.SublinearSVC(slack=0.9, fit_intercept=False).fit(X + 3.0 * y[:, None], y).slack_ == 0.9


def test_overlap_is_told():
    X, y = small()
    y = np.random.default_rng(0).permutation(y)
    assert sd.SublinearSVC(slack=0.02).fit(X, y).status_ is sd.Status.ZERO_VALUE


def test_polish_reaches_a_small_gap():
    X, y = small(100, 5)
    model = sd.SublinearSVC(slack=0.5, solver="simba", budget="200%", tol=1e-4, random_state=0).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-4
    assert model.solver_ == "slack_exact"
    assert model.feature_accesses_["polish"] > 0.0
    assert model.feature_accesses_["total"] < 5 * 500
    coarse = sd.SublinearSVC(slack=0.5, solver="simba", budget=1e6, tol=0.2, random_state=0).fit(X, y)
    assert coarse.solver_ == "simba"
    assert coarse.certificate_.relative_gap <= 0.2
    with pytest.warns(ConvergenceWarning, match=r"not certified to tol=0.1.*budget"):
        sd.SublinearSVC(slack=0.5, solver="simba", budget="3 steps", tol=0.1, random_state=0).fit(X, y)


# --------------------------------------------------------------------------- classes and weights


@pytest.mark.parametrize("solver", ["exact", "simba"])
def test_several_classes(solver):
    X, y = small(300, 6, 3)
    labels = np.array(["a", "b", "c"])[y]
    model = sd.SublinearSVC(slack=0.5, solver=solver, budget=500_000, random_state=0).fit(X, labels)
    assert model.coef_.shape == (3, 6)
    np.testing.assert_allclose(np.linalg.norm(model.coef_, axis=1), 1.0)
    assert model.decision_function(X).shape == (300, 3)
    assert model.score(X, labels) > 0.65
    assert model.slack_.shape == model.C_.shape == (3,)


def test_classes_share_their_columns():
    """Three classes read as many columns in a step as two."""
    y = TOPICS.topics % 3
    options = {"slack": 0.05, "solver": "simba", "budget": "20 steps", "certificate": None, "random_state": 0}
    sizes = {"batch_rows": 2, "batch_columns": 3}
    two = sd.SublinearSVC(**options, **sizes).fit(TOPICS, y > 0).feature_accesses_
    three = sd.SublinearSVC(**options, **sizes).fit(TOPICS, y).feature_accesses_
    assert two["columns"] == three["columns"] == 19 * 3
    assert (two["rows"], three["rows"]) == (40, 120)


def test_sparse_data_count_stored_entries():
    X = sp.random_array((400, 300), density=0.05, rng=np.random.default_rng(0), format="csr")
    y = np.where(X @ np.random.default_rng(1).standard_normal(300) > 0, 1, -1)
    model = sd.SublinearSVC(slack=0.3, solver="simba", budget="200%", certificate=None, random_state=0).fit(X, y)
    told = model.feature_accesses_
    assert told["distinct"] <= X.nnz < told["total"] < told["dense"]
    assert model.score(X, y) > 0.6


def test_class_weight():
    X, y = small(200, 3)
    y[:] = X[:, 0] + 0.4 * np.random.default_rng(3).standard_normal(200) > 0.9
    plain = sd.SublinearSVC(slack=0.5).fit(X, y)
    balanced = sd.SublinearSVC(slack=0.5, class_weight="balanced").fit(X, y)
    assert plain.slack_ == pytest.approx(min(0.5, 1.8 * np.mean(y == 1)))
    assert balanced.slack_ == 0.5
    weights = np.where(y == 1, 0.5 / np.mean(y == 1), 0.5 / np.mean(y == 0))
    same = sd.SublinearSVC(slack=0.5).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(same.coef_, balanced.coef_, atol=1e-6)


# --------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slack": "much"}, "slack must be a number"),
        ({"slack": 0.0}, "slack"),
        ({"form": "capp"}, "did you mean 'capped'"),
        ({"certificate": "sample"}, "certificate must be"),
        ({"solver": "liblinear"}, "unknown solver"),
        ({"tol": 0.1, "certificate": None}, "needs certificate='exact'"),
        ({"tol": -1.0}, "tol must be 0 or more"),
        ({"budget": "some"}, "cannot be read"),
        ({"batch_rows": 0, "solver": "simba"}, "rows and cols must be"),
    ],
)
def test_bad_parameters(options, message):
    X, y = small()
    with pytest.raises(InputError, match=message):
        sd.SublinearSVC(**options).fit(X, y)


def test_the_form_of_the_paper_has_two_classes():
    X, y = small(90, 4, 3)
    with pytest.raises(InputError, match="two classes"):
        sd.SublinearSVC(form="budget").fit(X, y)


def test_cards_and_tables_work_without_a_tolerance(capsys):
    X, y = small()
    model = sd.SublinearSVC(slack=0.6, verbose=1).fit(X, y)
    assert "SublinearSVC(10,000,000 accesses" in capsys.readouterr().err
    assert "certified to the tolerance" in model._repr_mimebundle_()["text/html"]
    assert "tol=" not in model._repr_mimebundle_()["text/html"].split("saddlery-card")[1]


@pytest.mark.parametrize("classes", [2, 3])
def test_model_files(tmp_path, classes):
    from saddlery.model_file import read_model

    X, y = small(90, 4, classes)
    model = sd.SublinearSVC(slack=0.6, random_state=0).fit(X, y)
    sd.save(model, tmp_path / "model.saddle")
    again = sd.load(tmp_path / "model.saddle")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_
    assert again.feature_accesses_ == model.feature_accesses_
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.C_, model.C_)
    with pytest.raises(InputError, match="SlackSVMProblem"):
        read_model(tmp_path / "model.saddle").objective()
