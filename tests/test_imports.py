"""The rings of the design, read from the code: who may import what."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "gagar_cli"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "demo_data" not in path.parts)

MAY_IMPORT_OF_OURS = {
    "core": {"core", "errors"},
    "io": {"io", "core", "errors"},
    "sandbox": {"sandbox", "core", "errors"},
    "grader": {"grader", "sandbox", "core", "errors"},
}
ONLY_IN = {
    "typer": {"cli.py", "commands/"},
    "rich": {"console.py", "tables.py", "tables_"},
    "docker": {"sandbox/docker"},
    "openai": {"grader/client.py", "grader/transport.py"},
    "aiohttp": {"grader/transport.py"},
    "tenacity": {"grader/client.py"},
    "pyarrow": {"io/"},
    "uvicorn": {"commands/offline_endpoint.py"},
    "gagar_cli.commands": {"cli.py", "commands/"},
}
NEVER_AT_IMPORT = {"aiohttp", "docker", "openai", "httpx2", "tenacity", "uvicorn"}
NOT_IN_CORE = {
    "os",
    "subprocess",
    "socket",
    "time",
    "pathlib",
    "tempfile",
    "shutil",
    "logging",
    "polars",
    "urllib",
}


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> list[tuple[str, int, bool]]:
    """Every imported module: its dotted name, its line, and whether it is imported with the file."""
    tree = parse(path)
    guarded = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING")
        for node in ast.walk(outer)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, id(node) not in guarded) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [
                (f"{node.module}.{alias.name}", node.lineno, id(node) not in guarded) for alias in node.names
            ]
    return found


def test_imports_point_inward():
    outward = []
    for path in MODULES:
        allowed = MAY_IMPORT_OF_OURS.get(path.relative_to(PACKAGE).parts[0])
        for name, line, _ in imports(path) if allowed is not None else ():
            if name.startswith("gagar_cli.") and name.split(".")[1] not in allowed:
                outward.append(f"{place(path)}:{line} imports {name}")
    assert outward == []


def test_a_library_is_met_only_where_it_belongs():
    strays = []
    for path in MODULES:
        for name, line, is_at_import in imports(path):
            for library, places in ONLY_IN.items():
                is_library = name == library or name.startswith(library + ".")
                if is_library and not any(place(path).startswith(prefix) for prefix in places):
                    strays.append(f"{place(path)}:{line} imports {name}")
            if is_at_import and name.split(".")[0] in NEVER_AT_IMPORT:
                strays.append(f"{place(path)}:{line} imports {name} with the file")
    assert strays == []


def test_the_core_touches_nothing_of_the_world():
    core = [path for path in MODULES if place(path).startswith("core/")]
    assert len(core) > 50
    touched = [
        f"{place(path)}:{line} imports {name}"
        for path in core
        for name, line, _ in imports(path)
        if name.split(".")[0] in NOT_IN_CORE
    ]
    assert touched == []


def test_nothing_prints():
    prints = [
        f"{place(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert prints == []


HEAVY = ("polars", "pyarrow", "numpy", "openai", "docker", "rich", "httpx2", "aiohttp", "tenacity", "asyncio")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_no_heavy_library(argument: str):
    program = (
        "import sys\nfrom gagar_cli.cli import run\n"
        f"code = run([{argument!r}])\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy or code else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
