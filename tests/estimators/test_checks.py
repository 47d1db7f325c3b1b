"""scikit-learn's own checks, with no expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import saddlery as sd

ESTIMATORS = [
    sd.LinearClassifier(),
    sd.LinearClassifier(loss="squared_hinge", penalty="elasticnet"),
    sd.LinearClassifier(multiclass="joint"),
    sd.LinearClassifier(multiclass="joint", loss="hinge", penalty="elasticnet"),
    sd.LinearRegressor(),
    sd.LinearClassifierCV(n_alphas=5, cv=3),
    sd.LinearRegressorCV(n_alphas=5, cv=3),
    sd.SublinearSVC(),
    sd.FScoreClassifier(),
    sd.RandomBinning(),
    sd.LPBoostClassifier(),
    sd.LPBoostClassifier("features"),
    sd.RandomBinning(n_grids=10, n_columns=64, sparse_output=False),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
