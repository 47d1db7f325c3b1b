"""Writing stores: chunks equal the whole, kills change nothing, full disks and strangers' files are respected."""

import errno
import gzip
import json
import os
import shutil
import signal
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.data import store as module
from saddlery.data import store_files, store_writer
from saddlery.errors import InputError

N, D = 61, 7


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Killed processes lose nothing that the system has, so these tests need not wait for the disk (those of the command do)."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def table():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, D)).round(4) * (rng.random((N, D)) < 0.6)
    X[5], X[:, 2] = 0.0, 0.0
    X[0, D - 1] = 1.25
    return X, np.where(X[:, 0] + X[:, 1] > 0.1, 1, -1)


def svmlight(X, y):
    rows = zip(X.tolist(), y, strict=True)
    return "".join(f"{label} {' '.join(f'{j + 1}:{v!r}' for j, v in enumerate(row) if v)}\n" for row, label in rows)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same table in every format."""
    pandas = pytest.importorskip("pandas")
    folder, (X, y) = tmp_path_factory.mktemp("sources"), table()
    names = [f"c{j}" for j in range(D)]
    (folder / "plain.svm").write_text(svmlight(X, y))
    (folder / "marked.svm").write_bytes(b"\xef\xbb\xbf# a comment\n\n" + svmlight(X, y).removesuffix("\n").encode())
    (folder / "packed.svm.gz").write_bytes(gzip.compress(svmlight(X, y).encode()))
    frame = pandas.DataFrame(X, columns=names)
    frame.assign(kind=np.where(y > 0, "good", 'b"a,d')).to_csv(folder / "words.csv", index=False)
    frame.assign(y=y).to_csv(folder / "numbers.csv.gz", index=False)
    frame.assign(y=X[:, 0] / 3).to_csv(folder / "real.csv", index=False, lineterminator="\r\n")
    frame.assign(y=y > 0).to_parquet(folder / "truth.parquet", row_group_size=13)
    frame.astype(np.float32).assign(y=np.where(y > 0, "a", "b")).to_parquet(folder / "single.parquet")
    np.savez(folder / "dense.npz", X=X.astype(np.float32), y=y, feature_names=np.array(names))
    np.savez_compressed(folder / "packed.npz", X=(10 * X).astype(np.int8), y=y / 3)
    np.savez(folder / "columns.npz", X=np.asfortranarray(X), y=y.astype(str))
    for kind in ("csr", "csc"):
        S = sp.csr_array(X).asformat(kind)
        pieces = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": S.shape, "format": kind}
        np.savez_compressed(folder / f"{kind}.npz", y=y, **pieces)
    return folder


FILES = ["plain.svm", "marked.svm", "packed.svm.gz", "words.csv", "numbers.csv.gz", "real.csv", "truth.parquet", "single.parquet",
         "dense.npz", "packed.npz", "columns.npz", "csr.npz", "csc.npz"]  # fmt: skip


def full(values):
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", FILES)
def test_chunks_equal_the_whole(files, name, tmp_path):
    target = "kind" if name == "words.csv" else None
    data = sd.read_data(files / name, target=target)
    X = full(data.X).astype(np.float32 if data.X.dtype == np.float32 else np.float64)
    for layout in ("keep", "dense", "sparse"):
        seen = []
        for rows in (None, 1, 7):
            place = sd.convert(files / name, tmp_path / f"{layout}{rows}", target=target, layout=layout, chunk_rows=rows)
            seen.append(contents(place))
        assert seen[0] == seen[1] == seen[2], "the store does not depend on where chunks end"
        with sd.open_store(place, load=False, verify=True) as store:
            assert store.is_sparse == (sp.issparse(data.X) if layout == "keep" else layout == "sparse")
            assert store.dtype == X.dtype
            assert (store.name, store.feature_names, store.shape) == (data.name, data.feature_names, X.shape)
            assert store.y.dtype.kind == data.y.dtype.kind
            np.testing.assert_array_equal(store.y, data.y)
            np.testing.assert_array_equal(full(store.read_rows(np.arange(N))), X)
            np.testing.assert_array_equal(full(store.read_cols(np.arange(D))), X)


def test_little_memory_means_many_panels_and_the_same_store(tmp_path, monkeypatch):
    (X, y), stages = table(), []
    for values in (X, sp.csr_array(X)):
        want = contents(sd.convert((values, y), tmp_path / "want"))
        monkeypatch.setattr(module, "LEAST_MEMORY", 1)
        stages.clear()
        place = sd.convert((values, y), tmp_path / "small", max_memory=1200, progress=lambda *told: stages.append(told))
        assert contents(place) == want
        panels = [done for stage, done, _ in stages if stage == "columns"]
        assert len(panels) > 2
        assert panels == sorted(panels)
        assert panels[-1] == 1.0
        assert [rows for stage, _, rows in stages if stage == "rows"][-1] == N
        monkeypatch.undo()
        for name in ("want", "small"):
            shutil.rmtree(tmp_path / name)


def test_short_pieces_of_rows_are_read_in_blocks(tmp_path, monkeypatch):
    X, y = table()
    want = contents(sd.convert((X, y), tmp_path / "want"))
    monkeypatch.setattr(module, "LEAST_MEMORY", 1)
    for piece in (0, 10**9):
        monkeypatch.setattr(store_writer, "PIECE", piece)
        assert contents(sd.convert((X, y), tmp_path / f"piece{piece}", max_memory=2000)) == want


def test_iterators(tmp_path):
    X, y = table()
    pieces = ((X[i : i + 10], y[i : i + 10]) for i in range(0, N, 10))
    store = sd.open_store(sd.convert(pieces, tmp_path / "store", dtype="float32"), load=False)
    np.testing.assert_array_equal(store.read_rows(np.arange(N)), X.astype(np.float32))
    np.testing.assert_array_equal(store.y, y)
    alone = sd.open_store(sd.convert((sp.csr_array(X[i : i + 9]) for i in range(0, N, 9)), tmp_path / "alone"), load=False)
    assert alone.y is None
    np.testing.assert_array_equal(alone.read_cols(np.arange(D)).toarray(), X)
    with pytest.raises(InputError, match="gives no chunks"):
        sd.convert(iter(()), tmp_path / "none")
    with pytest.raises(InputError, match="3 columns, but the first one has 2"):
        sd.convert(iter([np.ones((2, 2)), np.ones((2, 3))]), tmp_path / "none")
    with pytest.raises(InputError, match="change their type"):
        sd.convert(iter([(np.ones((2, 2)), [1, 2]), (np.ones((2, 2)), ["a", "b"])]), tmp_path / "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "store"]


def test_stores_of_stores(tmp_path):
    """Another type, another layout, other rows: read in parts and written in chunks."""
    X, y = table()
    with sd.open_store(sd.convert((X, y), tmp_path / "first"), load=False) as first:
        first.block_bytes = 500
        order = np.random.default_rng(0).permutation(N)
        shuffled = sd.open_store(sd.convert((first.select(order), y[order]), tmp_path / "shuffled", dtype="float32"))
        sparse = sd.open_store(sd.convert(first, tmp_path / "sparse", layout="sparse"))
    np.testing.assert_array_equal(shuffled.values, X[order].astype(np.float32))
    np.testing.assert_array_equal(shuffled.y, y[order])
    np.testing.assert_array_equal(sparse.values.toarray(), X)
    np.testing.assert_array_equal(sparse.y, y)


@pytest.mark.parametrize(
    "y", [[True, False, True], [1, 2**60, -3], ["", "ü\n", '"x"'], [0.5, 1.0, -2.0], np.array([1, 2, 3], dtype="u1")]
)
def test_targets_of_any_type(tmp_path, y):
    store = sd.open_store(sd.convert((np.eye(3), y), tmp_path / "store"))
    np.testing.assert_array_equal(store.y, y)
    assert store.y.dtype.kind == np.asarray(y).dtype.kind.replace("u", "i")


def test_what_is_not_finite_is_named_by_its_row(tmp_path):
    X = np.ones((30, 3))
    X[17, 1] = 1e300
    with pytest.raises(InputError, match=r"too large for float32\) in row 17"):
        sd.convert((X, None), tmp_path / "store", dtype="float32", chunk_rows=7)
    with pytest.raises(InputError, match=r"too large for float32\) in row 17"):
        sd.convert((sp.csr_array(X), None), tmp_path / "store", dtype="float32", chunk_rows=7)
    with pytest.raises(InputError, match="NaN or infinity at row 2"):
        sd.convert((np.eye(3), [1.0, 2.0, np.nan]), tmp_path / "store")
    path = tmp_path / "bad.csv"
    path.write_text("a,y\n" + "1,2\n" * 20 + "x,2\n")
    with pytest.raises(InputError, match=r"bad.csv:22: column 'a' holds 'x'"):
        sd.convert(path, tmp_path / "store", chunk_rows=3)
    path.write_text("a,y\n1,2\n1,inf\n")
    with pytest.raises(InputError, match="target of row 2 is 'inf'"):
        sd.convert(path, tmp_path / "store", chunk_rows=1)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_words_among_numbers_make_all_targets_words(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("a,y\n1,2\n1,inf\n1,2.0\n1,x\n")
    assert sd.open_store(sd.convert(path, tmp_path / "store", chunk_rows=1)).y.tolist() == ["2", "inf", "2.0", "x"]


def test_bad_arguments(tmp_path):
    X = np.eye(3)
    with pytest.raises(InputError, match="dtype must be"):
        sd.convert(X, tmp_path / "s", dtype="int8")
    with pytest.raises(InputError, match="too little to convert"):
        sd.convert(X, tmp_path / "s", max_memory=1000)
    with pytest.raises(InputError, match="not a size"):
        sd.convert(X, tmp_path / "s", max_memory="much")
    with pytest.raises(InputError, match="are about files"):
        sd.convert(X, tmp_path / "s", target="y")
    with pytest.raises(InputError, match="cannot convert a int"):
        sd.convert(3, tmp_path / "s")
    with pytest.raises(InputError, match="does not exist"):
        sd.convert(X, tmp_path / "no" / "s")
    with pytest.raises(FileNotFoundError):
        sd.convert(tmp_path / "nothing.svm", tmp_path / "s")


# --------------------------------------------------------------------------- kills


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")


def kill_before(call, work):
    """Run `work` in a process that is killed before its `call`-th request to the system that matters; whether it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child uses none
        child = os.fork()
    if child == 0:
        count = 0

        def counted(real):
            def wrapper(*args, **options):
                nonlocal count
                count += 1
                if count == call:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **options)

            return wrapper

        for name in ("fsync", "replace", "unlink", "rmdir"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@FORKS
@pytest.mark.parametrize(
    ("name", "layout", "step"), [("words.csv", "dense", 2), ("packed.svm.gz", "sparse", 5), ("truth.parquet", "sparse", 7)]
)
def test_killed_anywhere_and_started_again(files, name, layout, step, tmp_path, monkeypatch):
    """Kill at every second request (fifth, seventh), some twice in a row, start again: the same bytes, nothing left."""
    monkeypatch.setattr(module, "LEAST_MEMORY", 1)
    target = "kind" if name == "words.csv" else None

    def work(place):
        sd.convert(files / name, place, target=target, layout=layout, chunk_rows=20, max_memory=2500)

    work(tmp_path / "want")
    want, call, place = contents(tmp_path / "want"), 1, tmp_path / "store"
    while kill_before(call, lambda: work(place)):
        assert not place.exists() or contents(place) == want, "no half store is ever seen"
        if call % 3 == 0:
            kill_before(call % 7 + 1, lambda: work(place))
        assert not place.exists() or contents(place) == want
        work(place)
        assert contents(place) == want, f"killed before request {call}"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "want"]
        shutil.rmtree(place)
        call += step
    assert call > 30


@FORKS
def test_a_replaced_store_survives_kills(tmp_path):
    """With force there is always an old store or a new one, or what becomes one."""
    old, new = np.eye(4), np.full((4, 4), 2.0)
    want = contents(sd.convert(new, tmp_path / "want"))
    call, place = 1, tmp_path / "store"
    sd.convert(old, place)
    while kill_before(call, lambda: sd.convert(new, place, force=True)):
        sd.convert(new, place, force=True)
        assert contents(place) == want
        assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "want"]
        shutil.rmtree(place)
        sd.convert(old, place)
        call += 2
    assert call > 10


def test_other_sources_and_options_ask_for_force(files, tmp_path):
    place, work = tmp_path / "store", tmp_path / "store.partial"

    def stop(stage, done, rows):
        raise KeyboardInterrupt

    def begin():
        with pytest.raises(KeyboardInterrupt):
            sd.convert(files / "plain.svm", place, chunk_rows=10, progress=stop)
        assert work.is_dir()
        assert not place.exists()

    begin()
    with pytest.raises(InputError, match="another source or with other options"):
        sd.convert(files / "plain.svm", place, dtype="float32")
    with pytest.raises(InputError, match="another source or with other options"):
        sd.convert(files / "marked.svm", place)
    sd.convert(files / "marked.svm", place, force=True)
    assert not work.exists()
    before = contents(place)
    assert sd.convert(files / "marked.svm", place) == place, "there already: nothing to do"
    with pytest.raises(InputError, match=r"there already, made from another source .*--force"):
        sd.convert(files / "plain.svm", place)
    assert contents(place) == before
    sd.convert(files / "plain.svm", place, force=True)
    assert json.loads((place / "store.json").read_text())["name"] == "plain"


def test_a_source_that_changed_is_not_taken_for_the_same(tmp_path):
    X, y = table()
    place = sd.convert((X, y), tmp_path / "store")
    assert sd.convert((X.copy(order="F"), y), place) == place
    changed = X.copy()
    changed[-1, -1] += 1.0
    for source in ((X, -y), (changed, y), (X, None), (sp.csr_array(X), y), (X, y.astype(object))):
        with pytest.raises(InputError, match="there already, made from another source"):
            sd.convert(source, place)
    path = tmp_path / "a.svm"
    path.write_text(svmlight(X, y))
    sd.convert(path, tmp_path / "file")
    os.utime(path, (2**32, 2**32))
    with pytest.raises(InputError, match="an older state of it"):
        sd.convert(path, tmp_path / "file")


def test_nothing_of_the_user_is_removed(tmp_path):
    X = np.eye(3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for force in (False, True):
        with pytest.raises(InputError, match="is no store, so it is not replaced"):
            sd.convert(X, tmp_path / "mine", force=force)
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.partial" / "letter.txt").write_text("dear")
    for force in (False, True):
        with pytest.raises(InputError, match="was not made by a conversion"):
            sd.convert(X, tmp_path / "store", force=force)
    assert (tmp_path / "mine" / "letter.txt").read_text() == (tmp_path / "store.partial" / "letter.txt").read_text() == "dear"


def test_two_at_a_time_are_refused(tmp_path):
    pytest.importorskip("fcntl")

    def again(stage, done, rows):
        if stage == "rows":
            for source, force in (((X, None), False), (iter([X]), False), ((2 * X, None), True)):
                with pytest.raises(InputError, match="another process is writing"):
                    sd.convert(source, tmp_path / "store", force=force)

    X = np.eye(3)
    sd.convert((X, None), tmp_path / "store", progress=again)
    assert sd.open_store(tmp_path / "store").shape == (3, 3)


# --------------------------------------------------------------------------- full disks


@pytest.mark.parametrize("after", [0, 1000, 3000, 6000])
def test_full_disk(files, tmp_path, monkeypatch, after):
    """A message with the room that is needed, no half store, nothing else touched; with room, the same call works."""
    written = 0
    real = store_files.Appender.append

    def append(self, values):
        nonlocal written
        written += len(values) if isinstance(values, bytes) else values.nbytes
        if written > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(self, values)

    (tmp_path / "letter.txt").write_text("dear")
    with monkeypatch.context() as patched:
        patched.setattr(store_files.Appender, "append", append)
        with pytest.raises(
            OSError, match=r"no room for the store .* needs about [0-9,]+ bytes .* nothing else was touched"
        ) as raised:
            sd.convert(files / "numbers.csv.gz", tmp_path / "store", chunk_rows=10)
        assert raised.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    sd.convert(files / "numbers.csv.gz", tmp_path / "store", chunk_rows=10)


def test_room_is_asked_for_before_an_hour_is_spent(files, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    for name in ("dense.npz", "plain.svm"):
        with pytest.raises(OSError, match=r"no room for the store .* needs about [0-9,]{4,} bytes"):
            sd.convert(files / name, tmp_path / "store")
        assert not list(tmp_path.iterdir())


@FORKS
def test_a_limit_of_the_system(files, tmp_path):
    """A real refusal by the kernel: files may not grow beyond 2,000 bytes."""
    resource = pytest.importorskip("resource")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
            sd.convert(files / "words.csv", tmp_path / "store", target="kind", chunk_rows=10)
        except OSError as error:
            code = 0 if "no room for the store" in str(error) and error.errno == errno.EFBIG else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not list(tmp_path.iterdir())
