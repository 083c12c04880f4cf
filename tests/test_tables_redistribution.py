"""What the table of a redistribution says where there is one of a kind."""

import json
from dataclasses import replace

import pytest

from gagar_cli.redistribute import RedistributeSettings, run
from gagar_cli.redistribution_summary import RedistributeResult
from gagar_cli.tables_redistribution import redistribute_table


@pytest.fixture
def result(tmp_path) -> RedistributeResult:
    dump, rankings = tmp_path / "dump.jsonl", tmp_path / "rankings.jsonl"
    records = [{"group_id": "g", "trajectory_id": f"t{n}", "reward": float(n < 2)} for n in range(3)]
    dump.write_text("".join(json.dumps(record) + "\n" for record in records))
    places = [{"trajectory_id": f"t{n}", "tier": f"T{n + 1}", "rank": 1} for n in range(2)]
    rankings.write_text(json.dumps({"group_id": "g", "candidates": places}) + "\n")
    return run(RedistributeSettings((str(dump),), str(rankings), str(tmp_path / "out.jsonl")))


def told(result: RedistributeResult) -> dict[str, str]:
    names, values = redistribute_table(result).columns
    return dict(zip(map(str, names.cells), map(str, values.cells), strict=True))


@pytest.mark.parametrize(
    ("n", "group", "line", "outside"),
    [
        (1, "1 group", "1 line", "1 trajectory outside gets the base"),
        (1200, "1,200 groups", "1,200 lines", "1,200 trajectories outside get the base"),
    ],
    ids=["one", "many"],
)
def test_the_noun_has_the_number_of_its_count(result, n, group, line, outside):
    effects = result.effects._replace(n_capped=n)
    shown = told(
        replace(
            result,
            effects=effects,
            paper_effects=effects,
            n_broken_groups=n,
            n_overridden=n,
            n_unknown_groups=n,
            eligible="x > 1",
            n_outside=n,
        )
    )
    assert shown["capped"].startswith(f"{group} (")
    assert f", {group} capped, " in shown["the paper's cap instead"]
    assert shown["invariants broken"] == f"in {n:,} of 1 group"
    assert shown["overridden by people"] == group
    assert shown["rankings of unknown groups"] == line
    assert shown["eligible"] == f"x > 1 ({outside})"
