"""Names of losses, penalties, solvers, readers and experiments: where each lives, and how others add theirs.

A built-in is one line here. A third party adds its own by an entry point of the group ``saddlery.losses``,
``saddlery.row_losses``, ``saddlery.penalties``, ``saddlery.solvers``, ``saddlery.readers`` or ``saddlery.experiments`` that names
the class.
"""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import entry_points
from typing import Any

from saddlery.errors import unknown_name

__all__ = ["EXPERIMENTS", "LOSSES", "PENALTIES", "READERS", "ROW_LOSSES", "SOLVERS", "Registry"]


@functools.cache
def _imported(place: str) -> Any:
    module, attribute = place.split(":")
    return getattr(importlib.import_module(module), attribute)


class Registry:
    """A table from names to ``"module:Class"``, resolved when asked for.

    Examples
    --------
    >>> LOSSES.get("huber").__name__
    'Huber'
    """

    def __init__(self, kind: str, group: str, builtin: dict[str, str]):
        self.kind, self.group, self.builtin = kind, group, builtin

    def places(self) -> dict[str, str]:
        """All names with the places of their classes; built-ins cannot be replaced."""
        return {**self._others, **self.builtin} if self._others else self.builtin

    @functools.cached_property
    def _others(self) -> dict[str, str]:
        """Those of third parties; looking for them reads many files, so it is done once."""
        return {point.name: point.value for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """All names, built-ins first."""
        return [*self.builtin, *(name for name in self.places() if name not in self.builtin)]

    def get(self, name: Any) -> Any:
        """The class registered under `name`; an error with the nearest name if there is none."""
        place = self.builtin.get(name) if isinstance(name, str) else None
        if place is None:
            places = self.places()
            if not isinstance(name, str) or name not in places:
                raise unknown_name(self.kind, name, places)
            place = places[name]
        return _imported(place)

    def name_of(self, value: Any) -> str:
        """The name under which the class of `value` is registered, or its own name."""
        cls = value if isinstance(value, type) else type(value)
        place = f"{cls.__module__}:{cls.__qualname__}"
        return next((name for name, known in self.places().items() if known == place), cls.__name__)


LOSSES = Registry(
    "loss",
    "saddlery.losses",
    {
        "logistic": "saddlery.losses.logistic:Logistic",
        "hinge": "saddlery.losses.hinge:Hinge",
        "smooth_hinge": "saddlery.losses.smooth_hinge:SmoothHinge",
        "squared_hinge": "saddlery.losses.squared_hinge:SquaredHinge",
        "squared": "saddlery.losses.squared:Squared",
        "huber": "saddlery.losses.huber:Huber",
    },
)
ROW_LOSSES = Registry(  # of all classes at once; the names are those of the losses whose place they take
    "row loss",
    "saddlery.row_losses",
    {
        "logistic": "saddlery.losses.softmax:Softmax",
        "hinge": "saddlery.losses.multiclass_hinge:MulticlassHinge",
    },
)
PENALTIES = Registry(
    "penalty",
    "saddlery.penalties",
    {
        "l1": "saddlery.penalties.l1:L1",
        "l2": "saddlery.penalties.l2:L2",
        "elasticnet": "saddlery.penalties.elastic_net:ElasticNet",
        "l1_ball": "saddlery.penalties.l1_ball:L1Ball",
        "l2_ball": "saddlery.penalties.l2_ball:L2Ball",
        "simplex": "saddlery.penalties.simplex:Simplex",
        "capped_simplex": "saddlery.penalties.capped_simplex:CappedSimplex",
        "box": "saddlery.penalties.box:Box",
        "group_ball": "saddlery.penalties.group_ball:GroupBall",
        "k_support": "saddlery.penalties.k_support:KSupport",
        "l1_in_ball": "saddlery.penalties.in_ball:L1InBall",
        "l2_in_ball": "saddlery.penalties.in_ball:L2InBall",
        "elasticnet_in_ball": "saddlery.penalties.in_ball:ElasticNetInBall",
        "cur_ball": "saddlery.penalties.cur_ball:CURBall",
        "nuclear_ball": "saddlery.penalties.nuclear_ball:NuclearBall",
    },
)
SOLVERS = Registry(
    "solver",
    "saddlery.solvers",
    {
        "prox_newton": "saddlery.solvers.prox_newton:ProxNewton",
        "small_newton": "saddlery.solvers.small_newton:SmallNewton",
        "newton_cg": "saddlery.solvers.newton_cg:NewtonCG",
        "lbfgs": "saddlery.solvers.lbfgs:LBFGS",
        "newton_cd": "saddlery.solvers.newton_cd:NewtonCD",
        "covariance": "saddlery.solvers.covariance:Covariance",
        "interior_point": "saddlery.solvers.interior_point:InteriorPoint",
        "active_sdca": "saddlery.solvers.active_sdca:ActiveSDCA",
        "augmented_newton": "saddlery.solvers.augmented_newton:AugmentedNewton",
        "proximal_point": "saddlery.solvers.proximal_point:ProximalPoint",
        "row_space": "saddlery.solvers.row_space:RowSpace",
        "corrective": "saddlery.solvers.corrective:Corrective",
        "multiplier": "saddlery.solvers.multiplier:Multiplier",
        "projected_gradient": "saddlery.solvers.projected:ProjectedGradient",
        "multiclass_newton": "saddlery.solvers.multiclass_newton:MulticlassNewton",
        "multiclass_smoothed": "saddlery.solvers.multiclass_smoothed:MulticlassSmoothed",
        "multiclass_alm": "saddlery.solvers.multiclass_alm:MulticlassALM",
        "multiclass_sdca": "saddlery.solvers.multiclass_sdca:MulticlassSDCA",
        "pdhg": "saddlery.solvers.pdhg:PDHG",
        "mirror_prox": "saddlery.solvers.mirror_prox:MirrorProx",
        "mirror_descent": "saddlery.solvers.mirror_descent:MirrorDescent",
        "sublinear": "saddlery.solvers.sublinear:Sublinear",
        "stochastic_mirror_descent": "saddlery.solvers.stochastic_mirror_descent:StochasticMirrorDescent",
        "subgradient": "saddlery.solvers.subgradient:Subgradient",
        "sdca": "saddlery.solvers.sdca:SDCA",
        "primal_cd": "saddlery.solvers.primal_cd:PrimalCD",
        "spdc": "saddlery.solvers.spdc:SPDC",
        "dgpd": "saddlery.solvers.dgpd:DGPD",
        "dgpd_active": "saddlery.solvers.dgpd_active:DGPDActive",
        "pairwise_fw": "saddlery.solvers.away_steps:PairwiseFW",
        "blended_pairwise_fw": "saddlery.solvers.away_steps:BlendedPairwiseFW",
        "away_fw": "saddlery.solvers.away_steps:AwayStepsFW",
        "frank_wolfe": "saddlery.solvers.frank_wolfe:FrankWolfe",
        "gsfw": "saddlery.solvers.gsfw:GSFW",
        "sag_fw": "saddlery.solvers.sag_fw:SagFW",
        "scgm": "saddlery.solvers.scgm:SCGM",
        "sfw": "saddlery.solvers.sfw:SFW",
        "svrf": "saddlery.solvers.svrf:SVRF",
        "scgs": "saddlery.solvers.scgs:SCGS",
        "cur_hybrid": "saddlery.solvers.cur_hybrid:CURHybrid",
        "cur_splitting": "saddlery.solvers.cur_splitting:CURSplitting",
        "cur_corrective": "saddlery.solvers.cur_corrective:CURCorrective",
        "low_rank": "saddlery.solvers.low_rank:LowRankCorrective",
        "double_oracle": "saddlery.solvers.double_oracle:DoubleOracle",
        "extragradient": "saddlery.solvers.extragradient:Extragradient",
        "breg_svrg": "saddlery.solvers.breg_svrg:BregSVRG",
        "slack_exact": "saddlery.solvers.slack_exact:SlackExact",
        "simba": "saddlery.solvers.simba:Simba",
        "pegasos": "saddlery.solvers.pegasos:Pegasos",
        "dask_prox_newton": "saddlery.distributed.prox_newton:DaskProxNewton",
        "dask_sdca": "saddlery.distributed.local_sdca:DaskSDCA",
        "dask_gsfw": "saddlery.distributed.gsfw:DaskGSFW",
    },
)
READERS = Registry(
    "file format",
    "saddlery.readers",
    {
        "svmlight": "saddlery.data.svmlight:read",
        "csv": "saddlery.data.csv:read",
        "npz": "saddlery.data.npz:read",
        "parquet": "saddlery.data.parquet:read",
    },
)
EXPERIMENTS = Registry(
    "experiment",
    "saddlery.experiments",
    {
        "doubly-greedy-figure1": "saddlery.experiments.doubly_greedy_figure1:DoublyGreedyFigure1",
        "doubly-greedy-table2": "saddlery.experiments.doubly_greedy_table2:DoublyGreedyTable2",
        "frank-wolfe-table3": "saddlery.experiments.frank_wolfe_table3:FrankWolfeTable3",
        "frank-wolfe-figure1": "saddlery.experiments.frank_wolfe_figure1:FrankWolfeFigure1",
        "frank-wolfe-figure2": "saddlery.experiments.frank_wolfe_figure2:FrankWolfeFigure2",
        "sublinear-table1": "saddlery.experiments.sublinear_table1:SublinearTable1",
        "sublinear-figure1": "saddlery.experiments.sublinear_figure1:SublinearFigure1",
        "lpboost-figure1": "saddlery.experiments.lpboost_figure1:LPBoostFigure1",
        "simba-figure1": "saddlery.experiments.simba_figure1:SimbaFigure1",
        "fscore-figure2": "saddlery.experiments.fscore_figure2:FScoreFigure2",
        "fscore-figure3": "saddlery.experiments.fscore_figure3:FScoreFigure3",
    },
)
