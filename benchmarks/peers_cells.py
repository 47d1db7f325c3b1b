"""The cells of ``benchmarks/peers.py``: data x objective, as data."""

from __future__ import annotations

from saddlery.bench.tasks import Cell

__all__ = ["CELLS", "ELSEWHERE"]

BINARY = ("a9a", "w8a", "ijcnn1", "mushrooms", "news20", "leu", "duke", "colon", "mnist8", "synth_sparse", "synth_dense")
WITHOUT_DUKE = tuple(name for name in BINARY if name != "duke")
REGRESSION = ("cpusmall", "housing", "abalone", "a9a", "w8a", "news20", "leu", "synth_sparse_reg", "synth_dense_reg")
NO_RATIO = (None,)  # strength 1 / n, that is C = 1

# name, task, loss, l1_ratio, strengths as parts of alpha_max, data
TABLE = (
    ("l1log", "fit", "logistic", 1.0, (0.1, 0.01, 0.001), BINARY),
    ("enlog", "fit", "logistic", 0.5, (0.1, 0.01), WITHOUT_DUKE),
    ("l2log", "fit", "logistic", 0.0, NO_RATIO, WITHOUT_DUKE),
    ("hinge", "fit", "hinge", 0.0, NO_RATIO, WITHOUT_DUKE),
    ("sqhinge", "fit", "squared_hinge", 0.0, NO_RATIO, WITHOUT_DUKE),
    ("l1sqh", "fit", "squared_hinge", 1.0, (0.1, 0.01), WITHOUT_DUKE),
    ("lasso", "fit", "squared", 1.0, (0.1, 0.01), REGRESSION),
    ("enet", "fit", "squared", 0.5, (0.1, 0.01), REGRESSION),
    ("ovr", "ovr", "logistic", 1.0, (0.1, 0.01), ("news20_multi", "mnist_multi")),
    ("path", "path", "logistic", 1.0, (0.01,), ("a9a", "w8a", "news20", "leu", "synth_sparse", "synth_dense")),
    ("lassopath", "path", "squared", 1.0, (0.01,), ("cpusmall", "news20", "leu", "synth_sparse_reg", "synth_dense_reg")),
    ("cv", "cv", "logistic", 1.0, (0.01,), ("a9a", "news20", "leu")),
    ("lassocv", "cv", "squared", 1.0, (0.01,), ("cpusmall", "news20", "leu")),
)

# The same objectives on other data.
OTHER_BINARY = (
    "heart", "australian", "breast_cancer", "ionosphere", "sonar", "splice", "german_raw", "letter", "satimage", "isolet",
    "colon_raw", "dna_sparse", "agaricus", "rcv1", "news20_t", "w8a_t", "ijcnn1_t", "mnist3_t",
    "texts", "wide_texts", "one_hot", "factors", "neighbours", "mixed", "square", "topics", "pictures", "genes",
)  # fmt: skip
OTHER_REGRESSION = (
    "bodyfat", "mg", "isolet", "dna_sparse", "rcv1", "mnist3_t", "texts_reg", "one_hot_reg", "factors_reg",
    "neighbours_reg", "mixed_reg", "topics_reg", "pictures_reg", "genes_reg",
)  # fmt: skip
OTHER_TABLE = (
    ("l1log", "fit", "logistic", 1.0, (0.1, 0.01), OTHER_BINARY),
    ("enlog", "fit", "logistic", 0.5, (0.01,), OTHER_BINARY),
    ("l2log", "fit", "logistic", 0.0, NO_RATIO, OTHER_BINARY),
    ("hinge", "fit", "hinge", 0.0, NO_RATIO, OTHER_BINARY),
    ("sqhinge", "fit", "squared_hinge", 0.0, NO_RATIO, OTHER_BINARY),
    ("l1sqh", "fit", "squared_hinge", 1.0, (0.01,), OTHER_BINARY),
    ("lasso", "fit", "squared", 1.0, (0.1, 0.01), OTHER_REGRESSION),
    ("enet", "fit", "squared", 0.5, (0.01,), OTHER_REGRESSION),
    ("path", "path", "logistic", 1.0, (0.01,), ("heart", "dna_sparse", "rcv1", "texts")),
    ("lassopath", "path", "squared", 1.0, (0.01,), ("bodyfat", "rcv1", "texts_reg", "neighbours_reg")),
)


def _cells(table: tuple) -> list[Cell]:
    cells = []
    for name, task, loss, l1_ratio, ratios, sets in table:
        for ratio in ratios:
            suffix = f"-{ratio:g}" if len(ratios) > 1 else ""
            cells += [Cell(f"{data}:{name}{suffix}", data, task, loss, l1_ratio, ratio) for data in sets]
    return cells


CELLS = _cells(TABLE)
ELSEWHERE = _cells(OTHER_TABLE)
