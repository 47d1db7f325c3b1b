"""Behind ``benchmarks/fit_auto.py``: the problems, their times, and the fit of the rules."""
