"""The tables and figures of the papers, computed again: one file for each, and a harness that runs, keeps and shows them.

`base.py` says what an experiment is, `harness.py` runs them, `records.py` keeps what was computed, `data.py` finds the data files.
"""
