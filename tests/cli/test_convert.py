"""``saddlery convert``, and the other commands on stores."""

import os
import signal
import time

import numpy as np
import pytest

import saddlery as sd


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_convert_fit_certify_predict(saddlery, folder, tmp_path):
    for name, options in (
        ("binary.svm", ()),
        ("words.csv", ("--target", "kind")),
        ("real.npz", ("--dtype", "float32", "--sparse")),
    ):
        place = tmp_path / name
        done = saddlery("convert", folder / name, place, *options)
        assert done.code == 0, done.err
        assert f"store    {place}: " in done.out
        assert "80 rows, 6 columns" in done.out
        model = tmp_path / f"{name}.saddle"
        fitted = saddlery("fit", place, "--max-memory", "1MB", "--tol", "1e-6", "--output", model, "--quiet")
        assert fitted.code == 0, fitted.err
        assert saddlery("certify", model, place).code == 0
        target = options[:2] if name == "words.csv" else ()
        if name != "real.npz":  # that one was rounded
            assert saddlery("certify", model, folder / name, *target).code == 0
            assert saddlery("predict", model, place).out == saddlery("predict", model, folder / name, *target).out
    assert saddlery("convert", folder / "binary.svm", tmp_path / "binary.svm").code == 0, "there already"


def test_certify_reads_in_parts_if_it_must(saddlery, folder, tmp_path, monkeypatch):
    saddlery("convert", folder / "words.csv", tmp_path / "store", "--target", "kind", "--dense")
    model = tmp_path / "model.saddle"
    saddlery("fit", folder / "words.csv", "--target", "kind", "--tol", "1e-6", "--output", model, "--quiet")
    monkeypatch.setattr("saddlery.matrix.store.COPIES", 10**9)
    assert saddlery("certify", model, tmp_path / "store").code == 0
    assert saddlery("predict", model, tmp_path / "store").out == saddlery("predict", model, folder / "words.csv").out


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("convert", "nothing.svm", "{}/s"), "nothing.svm"),
        (("convert", "{data}", "{}/s", "--n-features", "0"), "positive whole number"),
        (("convert", "{data}", "{}/s", "--max-memory", "lots"), "is not a size"),
        (("convert", "{data}", "{}"), "is no store, so it is not replaced"),
        (("fit", "{data}", "--max-memory", "1GB"), "--max-memory is for stores"),
        (("fit", "{}"), "is no store: it has no store.json"),
        (("fit", "{store}", "--target", "y"), "a store knows its target"),
        (("fit", "{bare}"), "has no targets"),
    ],
)
def test_refusals(saddlery, folder, tmp_path, args, sentence):
    sd.convert((np.eye(3), [1, 2, 1]), tmp_path / "store")
    sd.convert(np.eye(3), tmp_path / "bare")
    names = {"data": folder / "binary.svm", "store": tmp_path / "store", "bare": tmp_path / "bare"}
    outcome = saddlery(*(arg.format(tmp_path, **names) for arg in args))
    assert outcome.code == 2
    assert sentence in outcome.sentence()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system knows no SIGKILL")
def test_killed_at_some_moment_and_started_again(command, tmp_path):
    """A real process, killed while it writes, then started again."""
    rng = np.random.default_rng(0)
    lines = ["a,b,c,y", *(f"{a:.6f},{b:.6f},{c:.6f},{a > b}" for a, b, c in rng.standard_normal((4000, 3)))]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    options = ("--chunk-rows", "40", "--quiet")
    place, work = tmp_path / "store", tmp_path / "store.partial" / "journal.json"
    running = command("convert", tmp_path / "data.csv", place, *options)
    while running.poll() is None and not work.exists():
        time.sleep(0.01)
    time.sleep(0.05 * rng.random())
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert not place.exists()
    assert work.exists()
    again = command("convert", tmp_path / "data.csv", place, *options)
    assert again.wait(120) == 0
    again.communicate()
    assert contents(place) == contents(sd.convert(tmp_path / "data.csv", tmp_path / "want"))
    assert not work.parent.exists()
