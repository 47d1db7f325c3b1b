"""`MatrixCompletion`: ways to give the entries, predictions, means, choice of the radius, refusals."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import saddlery as sd
from saddlery.errors import InputError

RNG = np.random.default_rng(0)
TRUTH = RNG.standard_normal((30, 2)) @ RNG.standard_normal((2, 20))
NUCLEAR = np.linalg.norm(TRUTH, "nuc")
SEEN = RNG.random(TRUTH.shape) < 0.6
SEEN[4], SEEN[:, 7] = False, False
DENSE = np.where(SEEN, TRUTH + 0.05 * RNG.standard_normal(TRUTH.shape), np.nan)
ROWS, COLS = np.nonzero(SEEN)
VALUES = DENSE[SEEN]


def inputs():
    sparse = sp.coo_array((VALUES, (ROWS, COLS)), shape=DENSE.shape)
    mixed = np.random.default_rng(1).permutation(len(VALUES))
    return {
        "dense": DENSE,
        "csr": sparse.tocsr(),
        "csc": sparse.tocsc(),
        "matrix": sp.csr_matrix(sparse),
        "triplets": (ROWS, COLS, VALUES),
        "shuffled": (ROWS[mixed], COLS[mixed], VALUES[mixed]),
    }


@pytest.mark.parametrize("kind", inputs())
def test_all_ways_to_give_the_entries_are_the_same(kind):
    options = {"shape": DENSE.shape} if kind in ("triplets", "shuffled") else {}
    one = sd.MatrixCompletion(NUCLEAR, tol=1e-6, random_state=0).fit(DENSE)
    two = sd.MatrixCompletion(NUCLEAR, tol=1e-6, random_state=0).fit(inputs()[kind], **options)
    np.testing.assert_allclose(two.transform(DENSE), one.transform(DENSE), rtol=1e-12)
    assert two.certificate_ == one.certificate_
    assert two.score(inputs()[kind]) == pytest.approx(one.score(DENSE))
    rows, cols, _ = inputs()["shuffled"]
    if kind == "shuffled":
        grid = np.full(DENSE.shape, np.nan)
        grid[rows, cols] = two.dual_coef_
        np.testing.assert_array_equal(grid[SEEN], one.dual_coef_)


def test_attributes_and_predictions():
    model = sd.MatrixCompletion(NUCLEAR, tol=1e-6, random_state=0).fit(DENSE)
    assert model.status_ is sd.Status.CONVERGED
    assert model.certificate_.relative_gap <= 1e-6
    assert model.certificate_.basis == "exact"
    assert (model.shape_, model.n_features_in_, model.radius_, model.solver_) == ((30, 20), 20, NUCLEAR, "low_rank")
    assert model.rank_ == len(model.sigma_) == model.U_.shape[1] == model.V_.shape[1]
    assert model.n_iter_ == model.trace_[-1].epoch
    whole = (model.U_ * model.sigma_) @ model.V_.T
    np.testing.assert_allclose(model.predict(ROWS, COLS), whole[SEEN], rtol=1e-12)
    np.testing.assert_allclose(model.predict(3, np.arange(20)), whole[3], rtol=1e-12)
    assert model.predict(3, 4).shape == ()
    filled = model.transform(DENSE)
    np.testing.assert_array_equal(filled[SEEN], VALUES)
    np.testing.assert_allclose(filled[~SEEN], whole[~SEEN])
    assert model.score(DENSE) == pytest.approx(np.sqrt(np.mean((whole[SEEN] - VALUES) ** 2)))
    hidden = ~SEEN
    hidden[4], hidden[:, 7] = False, False
    error = np.sqrt(np.mean((whole - TRUTH)[hidden] ** 2))
    assert error < 0.2 * TRUTH.std()
    np.testing.assert_allclose(whole[4], 0.0, atol=1e-12)  # nothing is known of an empty row
    np.testing.assert_allclose(sd.MatrixCompletion(NUCLEAR, tol=1e-6, random_state=0).fit_transform(DENSE), filled)


def test_the_certificate_can_be_recomputed():
    model = sd.MatrixCompletion(10.0, loss=sd.losses.Huber(0.5), tol=1e-5).fit(DENSE)
    problem = sd.CompletionProblem(ROWS, COLS, VALUES, DENSE.shape, 10.0, sd.losses.Huber(0.5))
    again = sd.certify(problem, sd.LowRank(model.U_, model.sigma_, model.V_), model.dual_coef_)
    assert again.primal == pytest.approx(model.certificate_.primal)
    assert again.dual == pytest.approx(model.certificate_.dual)


def test_stored_zeros_are_observed():
    X = sp.coo_array(([0.0, 2.0, 2.0], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    model = sd.MatrixCompletion(3.0).fit(X)
    assert len(model.dual_coef_) == 3
    assert len(sd.MatrixCompletion(3.0).fit(X.tocsr()).dual_coef_) == 3


@pytest.mark.parametrize("center", ["none", "global", "rows", "columns", "both"])
def test_means(center):
    """With means taken off, constants of rows, columns or all cost no norm."""
    add = {"none": 0.0, "global": 5.0, "rows": np.arange(30.0)[:, None], "columns": np.arange(20.0)}.get(center, 0.0)
    add = np.arange(30.0)[:, None] + np.arange(20.0) if center == "both" else add
    full = np.where(np.isnan(DENSE), 0.0, DENSE)  # all observed: the means are then independent of what is missing
    plain = sd.MatrixCompletion(8.0, center=center, tol=1e-7, random_state=0).fit(full)
    moved = sd.MatrixCompletion(8.0, center=center, tol=1e-7, random_state=0).fit(full + add)
    np.testing.assert_allclose(moved.predict(*np.indices(full.shape)), plain.predict(*np.indices(full.shape)) + add, atol=1e-3)
    assert moved.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)


def test_weights():
    s = np.random.default_rng(0).integers(0, 3, len(VALUES)).astype(float)
    kept = s > 0
    one = sd.MatrixCompletion(10.0, center="global", tol=1e-8, random_state=0).fit(DENSE, sample_weight=s)
    two = sd.MatrixCompletion(10.0, center="global", tol=1e-8, random_state=0).fit(
        (ROWS[kept], COLS[kept], VALUES[kept]), sample_weight=s[kept], shape=DENSE.shape
    )
    assert one.certificate_.primal == pytest.approx(two.certificate_.primal, rel=1e-7)
    assert one.offset_ == pytest.approx(two.offset_)


def test_signs():
    model = sd.MatrixCompletion(40.0, loss="logistic").fit(np.sign(DENSE))
    hidden = ~SEEN
    hidden[4], hidden[:, 7] = False, False
    right = np.sign(model.predict(*np.nonzero(hidden))) == np.sign(TRUTH[hidden])
    assert right.mean() > 0.85


def test_the_radius_is_chosen():
    one, two = (sd.MatrixCompletion(random_state=0).fit(DENSE) for _ in range(2))
    assert one.radius_ == two.radius_
    assert 0.5 * NUCLEAR < one.radius_ < 3 * NUCLEAR
    hidden = ~SEEN
    hidden[4], hidden[:, 7] = False, False
    error = one.predict(*np.nonzero(hidden)) - TRUTH[hidden]
    assert np.sqrt(np.mean(error**2)) < 0.3 * TRUTH.std()
    assert sd.MatrixCompletion(random_state=0).fit(np.zeros((20, 10))).rank_ == 0


def test_scikit_learn_manners():
    model = sd.MatrixCompletion(radius=7.0, center="rows", tol=1e-3)
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again.set_params(radius=9.0).radius == 9.0
    with pytest.raises(NotFittedError):
        model.predict(0, 0)
    with pytest.raises(NotFittedError):
        model.transform(DENSE)
    fitted = model.fit(DENSE)
    assert fitted is model
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(ROWS, COLS), model.predict(ROWS, COLS))
    assert loaded.certificate_ == model.certificate_


def test_warm_start():
    model = sd.MatrixCompletion(10.0, warm_start=True, tol=1e-6, random_state=0).fit(DENSE)
    assert model.n_iter_ >= 1
    assert model.fit(DENSE).n_iter_ == 0


def test_warns_if_not_certified(capsys):
    with pytest.warns(ConvergenceWarning, match="not certified to tol=1e-12"):
        sd.MatrixCompletion(10.0, tol=1e-12, max_epochs=1).fit(DENSE)
    sd.MatrixCompletion(10.0, verbose=1).fit(DENSE)
    assert "CompletionProblem" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({}, np.full((3, 3), np.nan), "no observed entries"),
        ({}, np.array([[1.0, np.inf]]), r"the entry \(0, 1\) is inf"),
        ({}, sp.csr_array(np.array([[1.0, np.nan]])), r"the entry \(0, 1\) is nan"),
        ({}, sp.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2)), r"the entry \(0, 1\) is given twice"),
        ({}, np.zeros(3), "must be a matrix"),
        ({}, [["a", "b"]], "must hold numbers"),
        ({}, ([0], [0]), "give triplets as"),
        ({}, ([0, -1], [0, 1], [1.0, 2.0]), "entry 1 is in row -1"),
        ({}, ([0.5], [0], [1.0]), "must be whole numbers"),
        ({"radius": -1.0}, DENSE, "radius must be a positive number"),
        ({"radius": "large"}, DENSE, "radius must be a number"),
        ({"radius": 0}, DENSE, "radius must be a positive number"),
        ({"loss": "hinge"}, np.sign(DENSE), "smooth loss"),
        ({"loss": "logistic"}, DENSE, "-1 and"),
        ({"loss": "logistic", "center": "rows"}, np.sign(DENSE), "no mean"),
        ({"center": "means"}, DENSE, "center must be one of"),
        ({"tol": -1.0}, DENSE, "tol must be 0 or more"),
        ({"solver": "sdca"}, DENSE, "sdca cannot solve a completion problem"),
    ],
)
def test_bad_input_is_refused(options, X, message):
    with pytest.raises(InputError, match=message):
        sd.MatrixCompletion(**{"radius": 2.0, **options}).fit(X)


def test_bad_questions_are_refused(monkeypatch):
    model = sd.MatrixCompletion(2.0).fit(DENSE)
    with pytest.raises(InputError, match="row 30 is not of this matrix"):
        model.predict([0, 30], 0)
    with pytest.raises(InputError, match="column -1 is not of this matrix"):
        model.predict(0, [-1])
    with pytest.raises(InputError, match="whole numbers"):
        model.predict([0.5], [1])
    with pytest.raises(InputError, match=r"shape \(30, 19\), but the model was fitted to one of \(30, 20\)"):
        model.transform(DENSE[:, :19])
    with pytest.raises(InputError, match="row 40 is not of this matrix"):
        model.transform(([40], [0], [1.0]))
    with pytest.raises(InputError, match="no observed entries to compare"):
        model.score(np.full_like(DENSE, np.nan))
    with pytest.raises(InputError, match="give shape for triplets only"):
        sd.MatrixCompletion(2.0).fit(DENSE, shape=(3, 3))
    with pytest.raises(InputError, match="too few to choose a radius"):
        sd.MatrixCompletion(random_state=0).fit([[1.0]])
    monkeypatch.setattr("saddlery.estimators.completion.MOST_CELLS", 100)
    with pytest.raises(InputError, match=r"use predict\(rows, cols\) instead"):
        model.transform(DENSE)
    assert math.isfinite(model.score((np.array([0]), np.array([1]), np.array([2.0]))))
