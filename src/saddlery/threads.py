"""One BLAS thread for small problems: handing a product of a few microseconds to a second core costs more than it saves.

On a busy machine it may cost a hundred times more, because the threads wait for each other by spinning. The limit holds while
any small problem is being solved in this process and ends with the last one; concurrent solves in threads are counted.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["products_on_one_thread", "small_products_on_one_thread"]

SMALL = 2_000_000  # entries of X
TINY = 9_000  # entries: with fewer, setting the limit takes longer than it can save
_lock = threading.Lock()
_users: list[Any] = []  # the limiter, once for each solve that wants it


@functools.cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - only libraries that are loaded can be limited

    return ThreadpoolController()


def _is_single() -> bool:
    """Whether BLAS has one thread anyway; asking takes a tenth of the time that setting a limit does."""
    return all(library.get_num_threads() == 1 for library in _controller().lib_controllers if library.user_api == "blas")


def small_products_on_one_thread(entries: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread inside the block if the data hold few entries."""
    return products_on_one_thread() if TINY < entries <= SMALL else nullcontext()


def products_on_one_thread() -> AbstractContextManager[None]:
    """Limit BLAS to one thread inside the block."""
    return nullcontext() if _is_single() else _one_thread()


@contextmanager
def _one_thread() -> Iterator[None]:
    with _lock:
        _users.append(_users[0] if _users else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limiter = _users.pop()
            if not _users:
                limiter.restore_original_limits()
