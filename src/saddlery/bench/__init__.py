"""Time to a certified gap beside the time of every peer to the same accuracy, on anybody's data.

A *cell* is data and an objective (``tasks``). *Rivals* are small adapters of the peers (``rivals``, ``sklearn_rivals``,
``other_rivals``); their answers are judged by formulas in plain NumPy that share no code with the library (``objectives``). Workers
measure (``measure``, ``ours``, ``worker``), and a parent outlives what crashes or hangs in them (``supervise``, ``probe``).
``compare`` is all of that for arrays, ``report`` and ``pictures`` tell what came out.

``saddlery bench`` and ``benchmarks/peers.py`` use it; nothing else of the library does.
"""
