"""Which columns a round works on, and in which shape: the support and the worst violators, and a copy of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.solvers.gram_pool import PooledBlock
from saddlery.solvers.growing_block import GrowingBlock, grows
from saddlery.solvers.model_care import sweeps_ahead
from saddlery.solvers.small_rounds import FEW, is_tiny
from saddlery.solvers.streamed_block import make_block, trim
from saddlery.solvers.thinned_block import ThinnedBlock, worth_thinning
from saddlery.solvers.working_block import MAX_GRAM, gram_is_cheaper
from saddlery.solvers.working_set import choose_columns, expected_level, lacking_share, level, nearly, takes_near_ones

__all__ = ["choose_block"]

SMALL = 128  # columns: a copy of so few serves on even if it holds too many
# Relative gap above which a block of wide data that grows takes only columns that exceed the threshold by so much, and below which
# those that nearly reach it: to add a column later costs little, but a round more does (5000 x 2000, logistic at 0.1: 53 -> 38 ms).
SURE = 0.1, 1.2, 0.95
LIKELY = 0.8  # of the least product in a working set: columns from there on may be in the next one
RISE_UP = 0.5  # how expectations change when columns were missing
GENEROUS = 0.6  # share of the threshold from which on columns are taken after a start that is not zero: few will be missing later


def choose_block(problem: Any, state: Any) -> Any:
    """The support and the worst violators, and a compact copy of them (the old one if it still serves)."""
    wanted, above, threshold = state.Xta, None, problem.penalty.threshold
    if state.followed and state.rounds == 1:  # bounds made for another threshold say nothing of this one
        wanted, above = state.products.centres, expected_level(problem, state.threshold_before, state.rise)
    elif isinstance(state.block, GrowingBlock):
        far = state.relative_gap > SURE[0] and problem.d > problem.n / 4
        above = SURE[1] * threshold if far else min(level(problem), SURE[2] * threshold)
    elif _crawls(state):
        above = SURE[2] * threshold
    elif state.rounds == 1 and state.w.any() and worth_thinning(problem, problem.matrix.nnz, problem.d, few=False):
        above = GENEROUS * threshold
    state.lacking = math.inf
    if state.rounds > 1 and takes_near_ones(problem):
        wanted = state.products.centres
        state.lacking = lacking_share(problem, state.w, wanted)
        above = nearly(state.lacking) * threshold
    if is_tiny(problem) and not state.followed and problem.d <= FEW:
        above = -1.0
    W = trim(problem, choose_columns(problem, state.w, wanted, state.relative_gap, above), state.w, wanted)
    old, epochs = state.block, state.epochs if state.followed else sweeps_ahead(problem, state)
    within = old is not None and bool(state.inside[W].all())
    if state.followed and state.rounds == 2 and not within:
        state.rise = min(1.0, state.rise + RISE_UP)
    if within and old.m <= max(1.5 * len(W), SMALL) and not isinstance(old, GrowingBlock):
        if old.gram_form or not _gram_is_cheaper(problem, state, old.W, old.entries, epochs):
            state.fresh = 0.0
            return old
        W = old.W
    state.fresh = 1.0 - float(np.count_nonzero(state.inside[W])) / len(W)
    entries = problem.matrix.count_entries(W)
    gram_form = _gram_is_cheaper(problem, state, W, entries, epochs)
    grown = gram_form and grows(problem, entries, len(W))
    if problem.matrix.compiled and threshold > 0.0 and not (grown and problem.matrix.is_sparse):
        _foresee(problem, W, wanted)
    if gram_form and state.pool is not None:
        state.block = PooledBlock(problem, W, entries, state.pool)
    elif gram_form and worth_thinning(problem, entries, len(W)):
        state.draws = state.rng.random(problem.n, dtype=np.float32) if state.draws is None else state.draws
        state.block = ThinnedBlock(problem, W, entries, state.draws, old)
    elif grown:
        state.block = _grown(problem, state, W)
        W = state.block.W
    else:
        state.block = make_block(problem, W, gram_form, exact=False, copies=state.copies)
    state.inside[:] = False
    state.inside[W] = True
    state.accesses += entries
    return state.block


def _foresee(problem: Any, W: np.ndarray, wanted: np.ndarray) -> None:
    """Have columns that come near to those of W copied from rows together with them: to look through all rows again costs more."""
    size = np.abs(wanted)
    problem.matrix.foresee(W, np.flatnonzero(size > LIKELY * float(size[W].min(initial=math.inf))))


def _grown(problem: Any, state: Any, W: np.ndarray) -> GrowingBlock:
    """A block that holds W: the last one with what it lacks, and without what is not wanted if that is much."""
    block = state.block
    if not isinstance(block, GrowingBlock):
        return GrowingBlock(problem, W)
    new = W[~state.inside[W]]
    union = block.m + len(new)
    keeps = not block.worth_forming(state.h, union, block.sampled)
    if union > (max(1.5 * len(W), SMALL) if keeps else len(W)):
        wanted = np.zeros(problem.d, dtype=bool)
        wanted[W] = True
        block.shrink(np.flatnonzero(wanted[block.W]), keeps)
    if len(new):
        block.grow(new)
    return block


def _gram_is_cheaper(problem: Any, state: Any, W: np.ndarray, entries: int, epochs: int) -> bool:
    if state.pool is not None:
        return state.pool.is_cheaper(problem, W, entries, state.swept, epochs, lasting=state.followed)
    return gram_is_cheaper(problem, entries, len(W), state.swept, epochs, _crawls(state))


def _crawls(state: Any) -> bool:
    """Whether rounds gain little, or did until a large Gram matrix was formed."""
    return state.slow or (state.block is not None and state.block.gram_form and state.block.m > MAX_GRAM)
