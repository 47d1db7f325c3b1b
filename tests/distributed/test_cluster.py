"""Real worker processes: the result of threads, also when workers die or join, and words for what goes wrong."""

import os
import subprocess
import sys
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import saddlery as sd
from saddlery.distributed.partitions import Partitions

L1 = sd.penalties.L1(0.003)


def alike(one, other):
    """The same run: sums are in the same order, so only the last digits of BLAS products may differ."""
    assert (one.status, one.epochs) == (other.status, other.epochs)
    np.testing.assert_allclose(one.w, other.w, rtol=1e-9, atol=1e-10)
    for field in ("primal", "dual", "gap", "scale"):
        assert getattr(one.certificate, field) == pytest.approx(getattr(other.certificate, field), abs=1e-12)


def on_epoch(epoch, action):
    def callback(record):
        if record.epoch == epoch:
            action()

    return callback


@pytest.fixture
def extra(client):
    """Starts a third worker, in a process of its own that may be killed."""
    started = []

    def start():
        command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--nthreads", "1", "--no-nanny"]
        options = ["--no-dashboard", "--memory-limit", "1GB", "--death-timeout", "60"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen([*command, *options], **quiet))
        deadline = time.monotonic() + 60.0
        while len(client.ncores()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
    while len(client.ncores()) > 2:
        time.sleep(0.05)


@pytest.mark.parametrize("count", [1, 7, 50])
def test_processes_give_what_threads_give(tall, wide, split, cluster, count):
    for X, y in (tall[:2], wide):
        data = split(X, count)
        problem = ("logistic", L1, None, True)
        alone = sd.DaskLinearProblem(data, y, *problem)
        expected = sd.solve(alone, tol=1e-8)
        with cluster.as_current():
            there = sd.DaskLinearProblem(data, y, *problem)
            alike(sd.solve(there, tol=1e-8), expected)
            again = sd.LinearProblem(X, y, *problem).certify(expected.w, there.dual_array(expected.dual).compute(), expected.b)
        assert again.gap == pytest.approx(expected.certificate.gap, abs=1e-10)
        assert there.meter.rounds == alone.meter.rounds <= 14


def test_persisted_collections(tall, split, client):
    X, y, _, _ = tall
    frame = dd.from_pandas(pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(y=y), npartitions=3)
    here = sd.solve(sd.LinearProblem(X, y, "logistic", L1))
    for data, target in ((split(X, 4), y), (2.0 * split(0.5 * X, 4).persist(), y), (frame, "y")):
        there = sd.DaskLinearProblem(data.persist(), target, "logistic", L1, keep=False)
        assert there.partitions.kept  # they live on the workers already
        assert abs(sd.solve(there).certificate.primal - here.certificate.primal) <= 1e-6


@pytest.mark.parametrize(
    ("solver", "keep"), [("dask_prox_newton", True), ("dask_prox_newton", False), ("dask_sdca", True), ("dask_gsfw", False)]
)
def test_a_killed_worker_costs_time_only(tall, split, client, extra, solver, keep):
    """SIGKILL in the middle of a fit: its partitions are read or computed again by the others, the result is the same."""
    X, y, _, _ = tall
    penalty = {"dask_prox_newton": L1, "dask_sdca": sd.penalties.L2(0.3), "dask_gsfw": sd.penalties.L1Ball(1.0)}[solver]
    options = {"tol": 2e-2 if solver == "dask_gsfw" else 1e-6, "max_epochs": 300}
    third = extra()
    there = sd.DaskLinearProblem(split(X, 8), y, "logistic", penalty, keep=keep)
    expected = sd.solve(there, solver, **options)
    assert expected.epochs >= 2
    assert len(set(there.partitions.pool.owners.values())) == 3
    alike(sd.solve(there, solver, callbacks=[on_epoch(1, third.kill)], **options), expected)
    assert len(set(there.partitions.pool.owners.values())) == 2


def test_a_worker_that_joins_takes_its_share(tall, split, client, extra):
    X, y, _, _ = tall
    there = sd.DaskLinearProblem(split(X, 8), y, "logistic", L1)
    expected = sd.solve(there, tol=1e-8)
    assert len(set(there.partitions.pool.owners.values())) == 2
    alike(sd.solve(there, tol=1e-8, callbacks=[on_epoch(1, extra)]), expected)
    assert len(set(there.partitions.pool.owners.values())) == 3


def test_a_tree_of_sums_where_there_are_many_runs(tall, split, client, monkeypatch):
    X, y, _, weights = tall
    there = sd.DaskLinearProblem(split(X, 9), y, "logistic", sd.penalties.L2(0.3), weights)
    expected = {name: sd.solve(there, name, tol=1e-5) for name in ("dask_prox_newton", "dask_sdca")}
    monkeypatch.setattr("saddlery.distributed.rounds.FLAT", 2)
    monkeypatch.setattr("saddlery.distributed.rounds.FAN_IN", 2)
    for name, solution in expected.items():
        tree = sd.solve(there, name, tol=1e-5)
        assert abs(tree.certificate.gap - solution.certificate.gap) <= 1e-9  # sums in another order
        np.testing.assert_allclose(tree.w, solution.w, atol=1e-7)


def _eventually(holds, seconds=20.0):
    """Whether `holds()` becomes true: the cluster releases results in its own time."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def test_files_larger_than_the_room_are_read_again_in_each_round(tall, tmp_path, client, monkeypatch):
    """With room for less than one partition nothing is kept on the workers."""
    X, y, _, _ = tall
    for k in range(6):
        frame = pd.DataFrame(X[k * 150 : (k + 1) * 150], columns=[f"x{j}" for j in range(12)])
        frame.assign(y=y[k * 150 : (k + 1) * 150]).to_parquet(tmp_path / f"{k}.parquet")
    monkeypatch.setattr("saddlery.distributed.rounds.ROOM", 1e-9)
    model = sd.LinearClassifier(alpha=0.003, tol=1e-7).fit(str(tmp_path), "y")
    monkeypatch.undo()
    assert model.certificate_.relative_gap <= 1e-7
    assert _eventually(lambda: not any(client.has_what().values()))
    here = sd.LinearClassifier(alpha=0.003, tol=1e-7).fit(X, y)
    assert abs(model.certificate_.primal - here.certificate_.primal) <= 2e-7


@pytest.mark.parametrize("keep", [True, False])
def test_unreadable_partitions_are_named(tmp_path, client, keep):
    frame = pd.DataFrame(np.ones((40, 3)), columns=list("abc")).assign(y=1.0)
    for k in range(4):
        frame.to_parquet(tmp_path / f"{k}.parquet")
    whole = (tmp_path / "3.parquet").read_bytes()
    (tmp_path / "3.parquet").write_bytes(b"PAR1" + b"x" * 60 + whole[64:])
    with pytest.raises(sd.InputError, match=r"partition 3 \(.*3.parquet\) cannot be read"):
        Partitions(str(tmp_path), "y", keep=keep)


def test_deadly_partitions_are_named():
    """A cluster of its own, whose workers die."""
    from distributed import Client, LocalCluster

    def deadly(rows, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 1:
            os._exit(1)
        return rows

    data = da.ones((40, 3), chunks=(10, 3)).map_blocks(deadly, dtype=float, meta=np.zeros((0, 3)))
    first_death_counts = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with first_death_counts, LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made, Client(made):
        for keep in (True, False):
            with pytest.raises(sd.InputError, match="does not fit into the memory of a worker"):
                Partitions(data, np.ones(40), keep=keep)


def test_interruption_leaves_the_cluster_usable(tall, split, client):
    X, y, _, _ = tall
    there = sd.DaskLinearProblem(split(X, 5), y, "logistic", L1)

    def interrupt():
        raise KeyboardInterrupt

    solution = sd.solve(there, tol=1e-10, callbacks=[on_epoch(2, interrupt)])
    assert solution.status is sd.Status.INTERRUPTED
    assert solution.certificate.gap >= 0.0
    assert sd.solve(there, tol=1e-8, start=solution).status is sd.Status.CONVERGED
