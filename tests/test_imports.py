"""Data flow one way, and imports follow: source -> data -> problem -> solver -> solution -> estimator, report, command line."""

import ast
from pathlib import Path

import pytest

import saddlery

ROOT = Path(saddlery.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")

# What stands on a line may import what stands above it, and nothing else of the library.
LAYERS = [
    {"inner_code"},
    {"errors", "kept", "parts", "point", "files", "threads"},
    {"registry", "certificate", "matrix", "losses", "penalties", "sampling"},
    {"geometry"},
    {"problems", "data"},
    {"solvers"},
    {"paths", "verify", "report", "model_codec", "distributed"},
    {"model_file"},
    {"estimators"},
    {"experiments", "bench"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def group(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports(tree):
    """(module, whether it is imported when the file is) for every import that runs, type checking left out."""

    def visit(node, at_top):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full"
            if node.module == "saddlery":  # from saddlery import a, b: these are modules or lazy names
                yield from ((f"saddlery.{PLACES.get(alias.name, alias.name)}", at_top) for alias in node.names)
            else:
                yield node.module, at_top
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_top and not isinstance(node, ast.FunctionDef | ast.Lambda))

    PLACES = {name: place.removeprefix("saddlery.") for name, place in saddlery._PLACES.items()}
    return list(visit(tree, True))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_follow_the_arrows(path):
    own = group(path)
    assert own in LEVEL, f"give {own} its place in LAYERS"
    for module, _ in imports(ast.parse(path.read_text())):
        if module.startswith("saddlery."):
            other = module.split(".")[1]
            assert other in (own, "__version__") or LEVEL[other] < LEVEL[own], f"{own} must not import {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_heavy_libraries_stay_where_they_belong(path):
    """scikit-learn in estimators (commands, experiments, comparisons: inside functions); plots and data frames never at the top."""
    for module, at_top in imports(ast.parse(path.read_text())):
        library = module.split(".")[0]
        if library == "sklearn":
            assert group(path) == "estimators" or (group(path) in ("cli", "experiments", "bench") and not at_top)
        assert not (at_top and library in ("matplotlib", "plotly", "pandas", "polars", "pyarrow", "dask", "distributed", "psutil"))
        if group(path) == "cli":
            assert not (at_top and library in ("scipy", "numba", "rich", "safetensors"))


@pytest.mark.parametrize("name", ["verify.py", "bench/objectives.py"])
def test_verification_shares_nothing_with_the_solvers(name):
    """The plain NumPy check of a stored model stands on its own feet, and so does what judges all answers of a comparison."""
    seen = {module for module, _ in imports(ast.parse((ROOT / name).read_text())) if module.startswith("saddlery")}
    assert seen <= {"saddlery.errors"}


def test_comparisons_are_a_leaf():
    """Nothing knows of the peers but the command that measures them."""
    for path in FILES:
        if group(path) != "bench" and path != ROOT / "cli" / "bench.py":
            assert not any(module.startswith("saddlery.bench") for module, _ in imports(ast.parse(path.read_text()))), path


@pytest.mark.parametrize("module", ["saddlery", "saddlery.cli.main", "saddlery.registry", "saddlery.errors"])
def test_import_is_light(module, run_script):
    """No compiler, no scikit-learn, no plots before they are asked for."""
    script = f"import json, sys\nimport {module}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    loaded = set(run_script(script))
    assert "saddlery" in loaded
    assert not loaded & {"numba", "sklearn", "scipy", "matplotlib", "pandas", "polars", "pyarrow"}


def test_solving_needs_no_scikit_learn(run_script):
    script = """
import json, sys
import saddlery as sd
problem = sd.LinearProblem([[1.0, 0.5], [-1.0, 2.0]], [1, -1], "logistic", sd.penalties.L1(0.01))
status = sd.solve(problem).status.name
print(json.dumps([status, sorted({name.split('.')[0] for name in sys.modules})]))
"""
    status, loaded = run_script(script)
    assert status == "CONVERGED"
    assert not set(loaded) & {"sklearn", "matplotlib", "pandas", "polars"}


def test_public_names():
    """All of them are there, listed, and of the module that the table says."""
    for name in saddlery.__all__:
        assert getattr(saddlery, name) is not None
        assert name in dir(saddlery)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        saddlery.nothing  # noqa: B018


def test_every_module_has_a_docstring_and_states_what_it_offers():
    for path in FILES:
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), path
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        offered = [node for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"]
        if any(not name.startswith("_") for name in names) and group(path) != "cli":
            assert offered, f"{path} has no __all__"
