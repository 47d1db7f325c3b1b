"""What is computed when first asked for, and kept: `functools.cached_property` with a lock for each object.

Before Python 3.12 that class holds one lock for all objects while it computes, so that two folds in two threads wait for each other
wherever both make their first products (on a busy machine for 1 to 8 % of the time of a cross-validation). Since then it holds
none, and two threads that fit the same data make the same copy of them twice.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

__all__ = ["kept"]

_MISSING = object()
_locks: dict[tuple[int, str | None], Any] = {}  # of what is being computed

if TYPE_CHECKING:
    kept = cached_property
else:

    class kept(cached_property):
        """See the top of the file.

        Examples
        --------
        >>> class Circle:
        ...     radius = 2.0
        ...
        ...     @kept
        ...     def area(self):
        ...         print("computed")
        ...         return 3.0 * self.radius**2
        >>> circle = Circle()
        >>> circle.area, circle.area
        computed
        (12.0, 12.0)
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """The value, which is found in the object itself from then on, before this is asked."""
            if instance is None:
                return self
            name, values = self.attrname, instance.__dict__
            key = (id(instance), name)
            try:
                with _locks.setdefault(key, threading.RLock()):
                    value = values.get(name, _MISSING)  # of another thread that was first
                    if value is _MISSING:
                        value = values[name] = self.func(instance)
            finally:
                _locks.pop(key, None)
            return value
