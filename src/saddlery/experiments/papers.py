"""The five papers, and in a few sentences what came out when they were computed again.

No numbers stand here: those are in the tables, where each has its record.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OTHERS", "PAPERS", "Paper"]


class Paper(NamedTuple):
    """A paper: experiments belong to it whose `paper` begins with the citation."""

    citation: str
    holds: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()


DOUBLY_GREEDY = Paper(
    "Lei, Yen, Wu, Dhillon and Ravikumar 2017, Doubly greedy primal-dual coordinate descent",
    holds=(
        "At the strengths of the paper both the primal and the dual variables are sparse, and coordinate ascent on both "
        "active sets, row by row, is the first to arrive.",
    ),
    fails=(
        "With the updates of (13), which move all active dual numbers at once, plain coordinate ascent over all rows is "
        "faster: a safe step for all is far shorter than a step for one.",
        "The rate of Theorem 4.2 cannot hold: it does not contain the number of non-zeros of the dual solution, and one "
        "step changes one of them.",
        "The strengths of the experiments make sense for the sum of the losses, not for the mean that the paper writes: "
        "with the mean the zero model would be optimal.",
    ),
    errata=(
        "The smooth hinge jumps as printed; the dual step lacks 1/n before the conjugate, and goes to a wrong point; rows are "
        "chosen by a derivative that is not projected, and most steps then move nothing. All are in the errata page, with a "
        "test for each.",
    ),
    instead=(
        "Proximal Newton with working sets, and dual coordinate ascent on active sets where l2 is strong: chosen by facts of "
        "the problem, with a certificate.",
    ),
)
FRANK_WOLFE = Paper(
    "Lu and Freund 2020, Generalized stochastic Frank-Wolfe with substitute gradient",
    holds=(
        "The counts of GSFW agree with Table 3 about as well as seeds agree with each other, those of plain Frank-Wolfe to "
        "the printed digits; SCGM, whose step is not stated, differs more.",
        "Of the stochastic methods of the paper GSFW needs the fewest sample gradients in the long run, and it proves its gap "
        "as it goes.",
    ),
    fails=("A fully corrective method with Newton steps needs a small share of the sample gradients of any of them.",),
    errata=("The step of Remark 3.4 for mini-batches must grow with the batch; as printed it does not reduce to Algorithm 1.",),
    instead=("Fully corrective Frank-Wolfe with Newton steps over the atoms found so far.",),
)
SUBLINEAR = Paper(
    "Babichev, Ostrovskii and Bach 2019, Efficient primal-dual algorithms for large-scale multiclass classification",
    holds=("A step of the sublinear algorithm costs O(n + d + k): its time doubles when all three double.",),
    fails=(
        "Such steps are cheap, but many are needed: methods that read all of the data at every step prove any gap worth having "
        "earlier on problems that fit in memory.",
    ),
    errata=("UPDATEDUAL as printed does not keep the dual point that the text describes; a replay with dense arrays shows it.",),
    instead=(
        "An exact working-set method for softmax, and restarted primal-dual hybrid gradient or coordinate ascent for the hinge.",
    ),
)
SIMBA = Paper(
    "Hazan, Koren and Srebro 2011, Beating SGD: learning SVMs in sublinear time",
    holds=("On dense data with little noise and a large margin, fewer features are read than by stochastic gradient descent.",),
    fails=("On sparse text the claim of a hundred times fewer accesses is not reproduced, whichever way accesses are counted.",),
    errata=(
        "The weights are used before they are set, the first sample divides zero by zero, and the factor 1 - z + z^2 is not "
        "monotone; the slack is recomputed here, never averaged.",
    ),
    instead=("The capped simplex in place of the slack, exponential updates, and batches of rows and columns.",),
)
BREGMAN = Paper(
    "Shi, Zhang and Yu 2017, Bregman divergence for stochastic variance reduction",
    holds=(
        "The reformulation of the F-score game by tables of marginals is exact: values agree with a search over all labellings.",
        "For the F-score game the entropy needs fewer steps than the Euclidean distance, and each of its steps is cheaper.",
    ),
    fails=(
        "For boosting the order of the two geometries depends on the steps and on the hypotheses, and with the printed steps "
        "neither gets far.",
        "Counted in passes the stochastic method looks far ahead; counted in time it is not, since most of its cost is not in "
        "passes. A deterministic extragradient method that needs no step is level with it when it is tuned, and ahead when it "
        "is not.",
    ),
    errata=(
        "The construction (18) of a distribution from marginals is wrong, systematic sampling is right; (15) omits a constant; "
        "the sampled gradients of the text lack the factor 1/probability; features of 0 and 1 with weights of 0 or more predict"
        " one class only.",
    ),
    instead=(
        "Adaptive Bregman extragradient; for the unsmoothed F-score a double oracle on sorted scores, certified against all "
        "labellings.",
    ),
)
PAPERS = (DOUBLY_GREEDY, FRANK_WOLFE, SUBLINEAR, SIMBA, BREGMAN)
OTHERS = Paper("Other experiments")
