"""The digest of a part changes with everything that its compiled form depends on, so no old number comes from the cache."""

import importlib.util
import itertools
import textwrap

import pytest

from saddlery.parts import code_digest

COUNT = itertools.count()

BASE = """
    from typing import NamedTuple
    import numba
    import numpy as np

    FACTOR = 2.0
    TABLE = (1.0, 2.0)
    ARRAY = np.array([1.0, 2.0])

    def inner(z):
        return z + 1.0

    def helper(z, power=2):
        return inner(z) ** power

    @numba.njit
    def compiled(z):
        return 3.0 * z

    class Base:
        def shared(self, z):
            return z

    def make(k):
        class Inside(NamedTuple):
            gamma: float = 1.0
            def value(self, y, z):
                return k * z
        return Inside

    class Part(NamedTuple):
        gamma: float = 1.0

        def value(self, y, z):
            return FACTOR * helper(z) + compiled(y) + TABLE[0] + ARRAY[0]

        def slope(self, y, z):
            return max(z, 0.0) if y > 0.0 else 1.0

    class Child(Part):
        __slots__ = ()

    Inside = make(2.0)
"""


@pytest.fixture
def digest_of(tmp_path):
    def build(name="Part", *replacements):
        source = textwrap.dedent(BASE)
        for old, new in replacements:
            assert old in source
            source = source.replace(old, new)
        path = tmp_path / f"made_{next(COUNT)}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("made", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return code_digest(getattr(module, name))

    return build


def test_the_same_source_has_the_same_digest(digest_of):
    """Also from another file and with other comments: line numbers do not count."""
    assert digest_of() == digest_of("Part", ("class Part", "# a comment\n\n\nclass Part"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR * helper", "FACTOR + helper"),
        ("if y > 0.0", "if y >= 0.0"),
        ("else 1.0", "else 1.5"),
        ("max(z, 0.0)", "min(z, 0.0)"),
        ("inner(z) **", "inner(z) *"),
        ("z + 1.0", "z - 1.0"),
        ("3.0 * z", "4.0 * z"),
        ("FACTOR = 2.0", "FACTOR = 2.5"),
        ("TABLE = (1.0", "TABLE = (7.0"),
        ("power=2", "power=3"),
        ("ARRAY = np.array([1.0", "ARRAY = np.array([9.0"),
    ],
    ids=["operator", "comparison", "constant", "builtin", "helper", "helper of helper", "compiled helper", "global", "global tuple",
         "default argument", "global array"],
)  # fmt: skip
def test_an_edit_changes_the_digest(digest_of, old, new):
    assert digest_of() != digest_of("Part", (old, new))


def test_an_inherited_method_counts(digest_of):
    assert digest_of("Child") != digest_of("Child", ("else 1.0", "else 1.5"))


def test_a_closure_counts(digest_of):
    """Two classes made by one function with different numbers must not share compiled code."""
    assert digest_of("Inside") != digest_of("Inside", ("make(2.0)", "make(3.0)"))


def test_an_edit_of_the_library_changes_the_digest(tmp_path, run_script):
    """Kernels are keyed by all sources of the library, because Numba's cache looks at the file of the kernel only."""
    import shutil
    from pathlib import Path

    import saddlery

    copy = tmp_path / "saddlery"
    shutil.copytree(Path(saddlery.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    script = "import json, saddlery.parts as p; print(json.dumps([p.__file__, p.library_digest()]))"
    place, before = run_script(script, PYTHONPATH=str(tmp_path))
    assert place.startswith(str(tmp_path))
    (copy / "losses" / "huber.py").write_text((copy / "losses" / "huber.py").read_text() + "\n")
    assert run_script(script, PYTHONPATH=str(tmp_path))[1] != before
