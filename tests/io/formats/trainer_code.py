"""Trainers' own code, run on made-up rollouts: `.ci/run` installs the packages beside the environment, without what they pull in.

Two ways lead to a writer without torch and GPUs' libraries. `lifted` compiles chosen functions and methods of one source
file and gives them the names that they look up; `run_with_stand_ins` imports a package in a process of its own, where
the packages that it would pull in are modules of empty classes. Either way the code that writes is the trainer's.
"""

import __future__

import ast
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gagar_cli.io.dump import Dump

INSTALLED = Path(sys.prefix) / "trainers"
LEGACY = Path(sys.prefix) / "trainers-legacy"
ASK = "<|im_start|>user\nfix it<|im_end|>\n<|im_start|>assistant\n"
PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"
STAND_INS = """
import importlib.abc, importlib.machinery, os, sys, types, typing
import typing_extensions
from pydantic import BaseModel

for name in ("TypedDict", "override"):  # packages for Python 3.12 take both from typing
    setattr(typing, name, getattr(typing_extensions, name))
NAMES = set(os.environ["STAND_INS"].split(","))

class Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (BaseModel,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        known = name.partition(".")[0] in NAMES
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Finder())
"""


def installed(requirement: str, folder: Path = INSTALLED) -> Distribution:
    """A package in exactly this version (`name==version`); the test is skipped, or fails in CI, where it is not there."""
    name, _, version = requirement.partition("==")
    found = next(iter(distributions(name=name, path=[str(folder)])), None)
    if found is not None and found.version == version:
        return found
    reason = f"{requirement} is not in {folder.relative_to(Path(sys.prefix).parent)}"
    if os.environ.get("GAGAR_REQUIRE_TRAINERS"):
        pytest.fail(reason)
    pytest.skip(reason)


def source(requirement: str, path: str, folder: Path = INSTALLED) -> Path:
    """A source file of a package."""
    return Path(str(installed(requirement, folder).locate_file(path)))


def lifted(path: Path, names: Mapping[str, Collection[str]], **known: Any) -> SimpleNamespace:
    """Functions of a source file, and classes with the named methods only, over the names that they look up.

    Decorators other than `staticmethod` are left out; a class's only base is `Base`, where that is known.
    """
    tree = ast.parse(path.read_text())
    chosen = [node for node in tree.body if getattr(node, "name", None) in names]
    assert {node.name for node in chosen} == set(names), f"{path.name} has not all of {sorted(names)}"
    for node in chosen:
        _undecorated(node)
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if getattr(each, "name", None) in names[node.name]]
            assert {each.name for each in methods} == set(names[node.name])
            for method in methods:
                _undecorated(method)
            node.body = list(methods)
            node.bases = [ast.Name("Base", ast.Load())] if "Base" in known else []
            node.keywords = []
    module = ast.fix_missing_locations(ast.Module(chosen, []))
    scope: dict[str, Any] = {"__name__": path.stem, **known}
    # Annotations name what is not here: they are not evaluated.
    code = compile(module, str(path), "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, scope)
    return SimpleNamespace(**{name: scope[name] for name in names})


def _undecorated(node: Any) -> None:
    node.decorator_list = [
        each for each in node.decorator_list if isinstance(each, ast.Name) and each.id == "staticmethod"
    ]


def run_with_stand_ins(script: str, *arguments: str, stand_ins: Collection[str] = ()) -> None:
    """A script over the installed packages, in a process of its own: the tests' environment stays as it is."""
    environment = os.environ | {
        "PYTHONPATH": str(INSTALLED), "STAND_INS": ",".join(stand_ins), "HOME": arguments[0],
    }  # fmt: skip
    made = subprocess.run(
        [sys.executable, "-c", STAND_INS + script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr


class Words:
    """A tokenizer whose tokens are whole texts."""

    pad_token_id = 0

    def __init__(self) -> None:
        self.texts: list[str] = [""]

    def ids(self, *texts: str) -> list[int]:
        self.texts += texts
        return list(range(len(self.texts) - len(texts), len(self.texts)))

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        text = "".join(self.texts[int(each)] for each in ids)
        return text.replace("<|im_start|>", "").replace("<|im_end|>", "") if skip_special_tokens else text

    def batch_decode(self, rows: Any, skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(row, skip_special_tokens=skip_special_tokens) for row in rows]


def rows_of(dump: Dump, *columns: str) -> list[tuple[Any, ...]]:
    return dump.index.select(*columns).rows()


def logs_of(dump: Dump) -> list[list[tuple[str, str]]]:
    rows = list(range(dump.index.height))
    return [
        [(each.role, each.content) for each in trajectory.messages]
        for _, trajectory in dump.read_trajectories(rows)
    ]
