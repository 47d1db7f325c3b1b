"""scikit-learn estimators on top of the solvers. scikit-learn is imported only here."""
