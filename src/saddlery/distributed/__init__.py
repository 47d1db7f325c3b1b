"""The linear problem on row partitions that Dask holds or reads: same objective, same certificate, same meaning of `tol`.

Dask is imported only inside functions, so that importing this package is free of it.
"""

from __future__ import annotations

from saddlery.distributed.problem import DaskLinearProblem

__all__ = ["DaskLinearProblem"]
