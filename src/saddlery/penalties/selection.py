"""The m largest of many numbers in one sweep, without sorting and without memory of its own."""

from __future__ import annotations

from saddlery.parts import kernel

__all__ = ["keep_largest", "tied_with_least"]


@kernel
def keep_largest(penalty, heap, count, most, key):
    """Put `key` into a heap that keeps the `most` largest keys, the least of them in front; the new count of its keys.

    With `most` keys inside, one that is not larger than the least changes nothing: a sweep over d keys costs O(d log most) at most.
    """
    if count < most:  # it rises from the end
        at = count
        while at > 0 and heap[(at - 1) // 2] > key:
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = key
        return count + 1
    if key <= heap[0]:
        return count
    at = 0  # it takes the place of the least, and sinks
    while 2 * at + 1 < most:
        child = 2 * at + 1
        if child + 1 < most and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key
    return count


@kernel
def tied_with_least(penalty, heap, count):
    """How many keys of the heap equal the least of them."""
    ties = 0
    for at in range(count):
        ties += heap[at] == heap[0]
    return ties
