"""Labels of runs: what stands in the ids of attempts that have none, whatever of a run is named."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.native import _labels
from tests.io.test_following_native import LAYOUTS, mini, parts_of, verl


def ids(*paths: Path) -> set[tuple[Any, ...]]:
    with open_dump([str(path) for path in paths], ReadOptions()) as dump:
        return set(dump.index.select("step", "group_id", "trajectory_id").iter_rows())


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"".join(parts_of(content)))


@pytest.mark.parametrize("layout", ["verl", "skyrl", "prime-rl", "rllm", "nemo-gym", "trl"])
def test_the_files_of_a_folder_have_the_same_ids_when_each_is_named_alone(tmp_path, layout):
    files = LAYOUTS[layout]
    write(tmp_path, files)
    folder = tmp_path / next(iter(files)).split("/")[0]
    assert set().union(*(ids(tmp_path / name) for name in files)) == ids(folder)


def test_the_log_of_one_attempt_has_the_id_that_it_has_in_its_run(tmp_path):
    write(tmp_path, {"runs/one/a__a-1/a__a-1.traj.json": mini("a__a-1")})
    assert ids(tmp_path / "runs/one/a__a-1/a__a-1.traj.json") == {(None, "a__a-1", "one/a__a-1")}
    assert ids(tmp_path / "runs") == {(None, "a__a-1", "one/a__a-1")}


def test_runs_of_one_name_are_told_apart_by_more_of_their_path(tmp_path):
    write(tmp_path, {f"x/{n}/run/1.jsonl": [verl(1, "a", n)] for n in (1, 2)})
    assert {name for _, _, name in ids(tmp_path / "x")} == {"1/run/1/1", "2/run/1/1"}
    assert {name for _, _, name in ids(tmp_path / "x/1/run/1.jsonl")} == {"run/1/1"}


def slow_labels(directories: list[str]) -> dict[str, str]:
    """The shortest ending of each directory that no other one has."""
    labels = {}
    for directory in directories:
        parts = Path(directory).parts
        others = [Path(each).parts for each in directories if each != directory]
        n = next(
            n
            for n in range(1, len(parts) + 1)
            if n == len(parts) or all(o[-n:] != parts[-n:] for o in others)
        )
        labels[directory] = "/".join(parts[-n:]).lstrip("/")
    return labels


FOLDERS = st.lists(st.sampled_from("abc"), max_size=4).map(lambda names: "/" + "/".join(names))


@given(st.lists(FOLDERS, unique=True, max_size=8))
def test_a_label_is_the_shortest_ending_that_no_other_run_has(directories):
    assert _labels(directories) == slow_labels(directories)
