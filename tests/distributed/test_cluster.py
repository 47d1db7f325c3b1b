"""Real worker processes: the result of threads, also when workers die or join, and words for what goes wrong."""

import os
import signal

import dask.array as da
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


def kill_a_worker(client):
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


@pytest.mark.parametrize("count", [1, 2, 7, 50])
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
    data = split(X, 4).persist()
    there = sd.DaskLinearProblem(data, y, "logistic", L1, keep=False)
    assert there.partitions.kept  # they live on the workers already
    assert sd.solve(there).status is sd.Status.CONVERGED


@pytest.mark.parametrize("solver", ["dask_prox_newton", "dask_sdca", "dask_gsfw"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_killed_worker_costs_time_only(tall, split, client, solver, keep):
    X, y, _, _ = tall
    penalty = {"dask_prox_newton": L1, "dask_sdca": sd.penalties.L2(0.3), "dask_gsfw": sd.penalties.L1Ball(1.0)}[solver]
    options = {"tol": 1e-2 if solver == "dask_gsfw" else 1e-6, "max_epochs": 300}
    there = sd.DaskLinearProblem(split(X, 8), y, "logistic", penalty, keep=keep)
    expected = sd.solve(there, solver, **options)
    assert expected.epochs >= 2
    client.wait_for_workers(2)
    alike(sd.solve(there, solver, callbacks=[on_epoch(1, lambda: kill_a_worker(client))], **options), expected)
    client.wait_for_workers(2)


def test_a_worker_that_joins_takes_its_share(tall, split, client):
    from distributed import Nanny

    X, y, _, _ = tall
    there = sd.DaskLinearProblem(split(X, 8), y, "logistic", L1)
    expected = sd.solve(there, tol=1e-8)
    assert len(set(there.partitions.pool.owners.values())) == 2
    joined = []

    async def start():
        return await Nanny(client.scheduler.address, nthreads=1, dashboard_address=None)

    def join():
        joined.append(client.sync(start))
        client.wait_for_workers(3)

    try:
        alike(sd.solve(there, tol=1e-8, callbacks=[on_epoch(1, join)]), expected)
        assert len(set(there.partitions.pool.owners.values())) == 3
    finally:
        for nanny in joined:
            client.sync(nanny.close)
    client.wait_for_workers(2)


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
    assert not any(client.has_what().values())
    here = sd.LinearClassifier(alpha=0.003, tol=1e-7).fit(X, y)
    assert abs(model.certificate_.primal - here.certificate_.primal) <= 2e-7


@pytest.mark.parametrize("keep", [True, False])
def test_unreadable_and_deadly_partitions_are_named(tmp_path, client, keep):
    frame = pd.DataFrame(np.ones((40, 3)), columns=list("abc")).assign(y=1.0)
    for k in range(4):
        frame.to_parquet(tmp_path / f"{k}.parquet")
    whole = (tmp_path / "3.parquet").read_bytes()
    (tmp_path / "3.parquet").write_bytes(b"PAR1" + b"x" * 60 + whole[64:])
    with pytest.raises(sd.InputError, match=r"partition 3 \(.*3.parquet\) cannot be read"):
        Partitions(str(tmp_path), "y", keep=keep)

    def deadly(rows, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 1:
            os._exit(1)
        return rows

    data = da.ones((40, 3), chunks=(10, 3)).map_blocks(deadly, dtype=float, meta=np.zeros((0, 3)))
    with pytest.raises(sd.InputError, match="does not fit into the memory of a worker"):
        Partitions(data, np.ones(40), keep=keep)
    client.wait_for_workers(2)


def test_interruption_leaves_the_cluster_usable(tall, split, client):
    X, y, _, _ = tall
    there = sd.DaskLinearProblem(split(X, 5), y, "logistic", L1)

    def interrupt():
        raise KeyboardInterrupt

    solution = sd.solve(there, tol=1e-10, callbacks=[on_epoch(2, interrupt)])
    assert solution.status is sd.Status.INTERRUPTED
    assert solution.certificate.gap >= 0.0
    assert sd.solve(there, tol=1e-8, start=solution).status is sd.Status.CONVERGED
