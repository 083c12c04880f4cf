import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli import redistribution_output
from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.io.dump import ReadOptions
from gagar_cli.io.jsonl_copy import ADDED_NAMES
from gagar_cli.redistribute import RedistributeSettings, run
from gagar_cli.redistribution_summary import RedistributeResult

Record = dict[str, Any]


def attempt(trajectory_id: str, *, resolved: bool | None, group_id: str = "g", **more: object) -> Record:
    return {"group_id": group_id, "trajectory_id": trajectory_id, "resolved": resolved, **more}


def entry(trajectory_id: str, tier: str | None = "T1", rank: int | None = 1, **flags: bool) -> Record:
    return {"trajectory_id": trajectory_id, "tier": tier, "rank": rank, "flags": flags}


def line(*candidates: Record, group_id: str = "g", status: str = "graded", **more: object) -> Record:
    return {"group_id": group_id, "status": status, "candidates": list(candidates), **more}


def write_lines(path: Path, records: list[Record]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


class Workbench:
    """Writes a dump and rankings, runs, and reads the output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "out.jsonl"

    def run(self, dump: list[Record], lines: list[Record], **more: Any) -> RedistributeResult:
        dump_path = write_lines(self.folder / "dump.jsonl", dump)
        rankings_path = write_lines(self.folder / "rankings.jsonl", lines)
        settings = {
            "dumps": (dump_path,),
            "rankings": rankings_path,
            "output": str(self.output),
            "overwrite": True,
        }
        return run(RedistributeSettings(**{**settings, **more}))  # type: ignore[arg-type]

    def rows(self) -> list[Record]:
        return [json.loads(text) for text in self.output.read_text().splitlines()]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows()]


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


SEED = [
    attempt("a", resolved=True),
    attempt("b", resolved=True),
    attempt("c", resolved=False),
    attempt("d", resolved=False),
]
SEED_RANKING = line(entry("a", "T1"), entry("b", "T3"))


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        ("none", [5 / 6, 1 / 6, -0.5, -0.5]),
        ("paper", [0.775, 0.175, -0.475, -0.475]),
        ("bounded", [0.75, 0.25, -0.5, -0.5]),
    ],
)
def test_worked_example_from_file_to_file(bench: Workbench, cap: str, expected: list[float]) -> None:
    bench.run(SEED, [SEED_RANKING], cap=cap)
    assert bench.column("advantage") == expected
    assert bench.column("advantage_base") == [0.5, 0.5, -0.5, -0.5]


def test_sidecar_has_all_columns_with_nulls_where_there_is_no_value(bench: Workbench) -> None:
    bench.run([*SEED, attempt("e", resolved=None, step=None)], [SEED_RANKING])
    first, *_, failed, invalid = bench.rows()
    assert first == {
        "step": None,
        "group_id": "g",
        "trajectory_id": "a",
        "advantage": 0.75,
        "advantage_base": 0.5,
        "reward_effective": 1.0,
        "reward_equivalent": 1.25,
        "quality_factor": 1.0,
        "factor_shift": 0.2,
        "tier": "T1",
        "rank": 1,
        "grading": "graded",
        "lambda": 1.25,
        "capped": True,
    }
    assert failed["grading"] == "graded"
    assert [failed[name] for name in ("quality_factor", "tier", "rank")] == [None] * 3
    assert invalid["grading"] == "invalid"
    assert {key for key, value in invalid.items() if value is not None} == {
        "group_id",
        "trajectory_id",
        "grading",
    }


def test_summary_tells_what_was_kept_and_what_the_paper_would_do(bench: Workbench) -> None:
    result = bench.run(SEED, [SEED_RANKING])
    assert result.n_groups == {"graded": 1, "skipped": 0, "ungraded": 0}
    assert result.cap_rate == 1.0
    assert (result.effects.n_changed_failures, result.effects.pass_sum_error) == (0, 0.0)
    assert result.effects.max_amplification == 1.5
    assert result.paper_effects.n_changed_failures == 2
    assert result.paper_effects.pass_sum_error == pytest.approx(0.05)
    assert result.token_mean is None
    json.dumps(result.to_record(), allow_nan=False)


def test_loss_at_ratio_1_uses_tokens_where_all_are_known(bench: Workbench) -> None:
    dump = [
        {**row, "n_output_tokens": tokens} for row, tokens in zip(SEED, (100, 100, 150, 150), strict=True)
    ]
    result = bench.run(dump, [SEED_RANKING], cap="paper")
    assert result.token_mean is not None
    assert (result.token_mean.base, result.token_mean.redistributed) == (0.1, pytest.approx(0.095))
    assert result.sequence_mean.redistributed == pytest.approx(0.0, abs=1e-16)


def test_integrity_violation_becomes_a_failure_before_the_mean(bench: Workbench) -> None:
    dump = [*SEED[:2], attempt("x", resolved=True), *SEED[2:]]
    result = bench.run(dump, [line(entry("a"), entry("b"), entry("x", None, None, integrity_violation=True))])
    assert bench.column("reward_effective") == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert bench.column("advantage") == [0.6, 0.6, -0.4, -0.4, -0.4]
    assert result.n_integrity_violations == 1


def test_group_whose_only_pass_is_a_violation_is_skipped_as_all_fail(bench: Workbench) -> None:
    result = bench.run(
        [SEED[0], SEED[2], SEED[3]],
        [line(entry("a", None, None, integrity_violation=True), status="skipped", reason="lone_pass")],
    )
    assert result.n_by_reason["skipped"] == {"all_fail": 1}
    assert bench.column("advantage") == [0.0, 0.0, 0.0]


def test_all_pass_group_becomes_mixed_through_a_violation_and_is_graded(bench: Workbench) -> None:
    dump = [attempt(name, resolved=True) for name in "abc"]
    bench.run(
        dump,
        [line(entry("a"), entry("b", "T3"), entry("c", None, None, integrity_violation=True))],
        cap="none",
    )
    assert bench.column("advantage") == [pytest.approx(5 / 9), pytest.approx(1 / 9), pytest.approx(-2 / 3)]


def test_passing_trajectory_that_the_ranking_lacks_makes_the_group_ungraded(bench: Workbench) -> None:
    result = bench.run(SEED, [line(entry("a"))])
    assert result.n_by_reason["ungraded"] == {"missing_candidate": 1}
    assert result.ungraded_rate == 1.0
    assert bench.column("advantage") == [0.5, 0.5, -0.5, -0.5]
    assert bench.column("lambda") == [None] * 4
    assert bench.column("tier") == [None] * 4


def test_group_that_got_a_failing_attempt_since_it_was_graded_keeps_its_base_advantages(
    bench: Workbench,
) -> None:
    seen = {"c01": "a", "c02": "b", "f01": "c", "f02": "d"}
    ranking = line(entry("a"), entry("b", "T3"), grader={"blind_ids": seen})
    assert bench.run(SEED, [ranking]).n_groups["graded"] == 1
    result = bench.run([*SEED, attempt("e", resolved=False)], [ranking])
    assert result.n_by_reason["ungraded"] == {"late: 1 trajectory arrived after it was graded": 1}
    assert result.n_left == {"late": 1}
    assert result.shortfalls[-1] == (
        "1 group has got an attempt since it was graded and moves nothing: grade again"
    )
    assert bench.column("advantage") == pytest.approx([0.6, 0.6, -0.4, -0.4, -0.4])
    assert bench.column("grading") == ["ungraded"] * 5


def test_late_passing_attempt_is_the_reason_unless_it_is_left_out(bench: Workbench) -> None:
    seen = {"c01": "a", "c02": "b", "f01": "c", "f02": "d"}
    ranking = line(entry("a"), entry("b", "T3"), grader={"blind_ids": seen})
    dump = [{**each, "level": 1} for each in (*SEED, attempt("e", resolved=True))]
    assert bench.run(dump, [ranking]).n_left == {"late": 1}
    dump[-1]["level"] = 2
    result = bench.run(dump, [ranking], eligible="level == 1")
    assert (result.n_groups["graded"], result.n_left) == (1, {})


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (entry("c"), 'rankings.jsonl: group "g": trajectory "c" did not pass ('),
        (entry("z"), 'rankings.jsonl: group "g": trajectory "z" is not in the dump'),
        (entry("i"), 'rankings.jsonl: group "g": trajectory "i" is invalid ('),
        (entry("c", None, None, integrity_violation=True), 'trajectory "c" did not pass ('),
    ],
)
def test_entry_for_anything_but_a_passing_trajectory_is_refused(
    bench: Workbench, candidate: Record, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        bench.run([*SEED, attempt("i", resolved=None)], [line(entry("a"), entry("b"), candidate)])
    assert message in caught.value.message
    assert ("gagar convert" in str(caught.value.hint)) == ("not in the dump" in message)
    assert not bench.output.exists()


def test_last_line_of_a_group_wins(bench: Workbench) -> None:
    result = bench.run(SEED, [line(entry("b"), entry("a", "T3")), SEED_RANKING], cap="none")
    assert bench.column("quality_factor") == [1.0, 0.2, None, None]
    assert result.n_superseded == 1


def test_later_ungraded_line_takes_a_grade_back(bench: Workbench) -> None:
    result = bench.run(SEED, [SEED_RANKING, line(status="ungraded", reason="endpoint")])
    assert result.n_by_reason["ungraded"] == {"endpoint": 1}
    assert bench.column("advantage") == [0.5, 0.5, -0.5, -0.5]


def test_rankings_of_other_groups_are_counted_and_none_that_fits_is_refused(bench: Workbench) -> None:
    other = line(entry("a"), group_id="other")
    assert bench.run(SEED, [SEED_RANKING, other]).n_unknown_groups == 1
    with pytest.raises(InputError, match="its only group is not in the dump"):
        bench.run(SEED, [other])


def test_ranking_without_step_fits_one_step_only(bench: Workbench) -> None:
    bench.run([{**row, "step": 7} for row in SEED], [SEED_RANKING])
    assert bench.column("grading") == ["graded"] * 4
    both = [{**row, "step": step} for step in (7, 8) for row in SEED]
    with pytest.raises(InputError, match='group "g" has no step, and the dump has it in 2 steps'):
        bench.run(both, [SEED_RANKING])
    result = bench.run(both, [{**SEED_RANKING, "step": 8}])
    assert bench.column("grading") == ["ungraded"] * 4 + ["graded"] * 4
    assert result.n_by_reason["ungraded"] == {"no_ranking": 1}


def test_groups_that_cannot_be_ranked_are_skipped_with_their_reason(bench: Workbench) -> None:
    dump = [
        *SEED,
        attempt("p", resolved=True, group_id="pass"),
        attempt("q", resolved=True, group_id="pass"),
        attempt("f", resolved=False, group_id="fail"),
        attempt("h", resolved=False, group_id="fail"),
        attempt("s", resolved=True, group_id="single"),
        attempt("n", resolved=None, group_id="none"),
        attempt("l", resolved=True, group_id="lone"),
        attempt("m", resolved=False, group_id="lone"),
    ]
    result = bench.run(dump, [SEED_RANKING])
    reasons = dict.fromkeys(("all_pass", "all_fail", "singleton", "no_valid", "lone_pass"), 1)
    assert result.n_by_reason["skipped"] == reasons
    assert result.n_groups == {"graded": 1, "skipped": 5, "ungraded": 0}


def test_ranks_are_told_without_gaps(bench: Workbench) -> None:
    dump = [*SEED, attempt("e", resolved=True)]
    bench.run(dump, [line(entry("a", "T2", 9), entry("b", "T2", 0), entry("e", "T2", 4))], cap="none")
    assert bench.column("rank") == [3, 1, None, None, 2]
    assert bench.column("quality_factor") == [0.4, 0.85, None, None, 0.625]


def test_segments_count_once_and_share_their_values(bench: Workbench) -> None:
    dump = [
        {**SEED[0], "segment": 0, "n_output_tokens": 60},
        {**SEED[0], "segment": 1, "n_output_tokens": 40},
    ]
    dump += [
        {**row, "n_output_tokens": tokens} for row, tokens in zip(SEED[1:], (100, 150, 150), strict=True)
    ]
    result = bench.run(dump, [SEED_RANKING], full_copy=True)
    assert bench.column("advantage") == [0.75, 0.75, 0.25, -0.5, -0.5]
    assert result.n_trajectories == 4
    assert result.token_mean is not None
    assert result.token_mean.base == 0.1
    bench.run(dump, [SEED_RANKING])
    assert bench.column("trajectory_id") == ["a", "b", "c", "d"]


def test_dr_grpo_needs_no_rankings(bench: Workbench) -> None:
    bench.run(SEED, [], rankings=None, method="dr-grpo")
    assert bench.column("advantage") == [0.5, 0.5, -0.5, -0.5]


def test_own_tier_table_is_used(bench: Workbench, tmp_path: Path) -> None:
    table = tmp_path / "mild.toml"
    rules = ("T1 = {rule = 'flat', factor = 1}", "T2 = {rule = 'linear', first = 1, last = 0.9}")
    table.write_text("\n".join((*rules, "T3 = {rule = 'flat', factor = 0.8}\n")))
    bench.run(SEED, [SEED_RANKING], tiers=str(table))
    assert bench.column("quality_factor") == [1.0, 0.8, None, None]


def test_parquet_sidecar_keeps_types(bench: Workbench, tmp_path: Path) -> None:
    bench.run(
        [{**row, "advantage": 9.0} for row in SEED], [SEED_RANKING], output=str(tmp_path / "out.parquet")
    )
    frame = pl.read_parquet(tmp_path / "out.parquet")
    assert frame["advantage"].to_list() == [0.75, 0.25, -0.5, -0.5]
    assert frame["advantage_input"].to_list() == [9.0] * 4
    assert frame.schema["rank"] == pl.Int64
    assert frame.schema["capped"] == pl.Boolean


def test_full_copy_of_json_lines_changes_no_other_value(bench: Workbench, tmp_path: Path) -> None:
    texts = [
        '{"group_id":"g","trajectory_id":"a","resolved":true,"advantage":1.50,"x":1e5,"y":12345678901234567890123}',
        '{"trajectory_id": "b", "note": "\\u0041 {\\"advantage\\": 3}", "resolved": true, "group_id": "g" }',
        '{"group_id":"g","trajectory_id":"c","resolved":false,"z":0.10,"deep":{"rank":[1.0, {}]},"rank":3}',
    ]
    dump = tmp_path / "in.jsonl"
    dump.write_text("\n".join(texts) + "\n\n")
    result = bench.run([], [SEED_RANKING], dumps=(str(dump),), full_copy=True)
    first, second, third = bench.output.read_text().splitlines()
    assert first.startswith(
        '{"group_id": "g", "trajectory_id": "a", "resolved": true, "advantage_input": 1.50, "x": 1e5,'
        ' "y": 12345678901234567890123, "advantage": '
    )
    assert second.startswith(
        '{"trajectory_id": "b", "note": "\\u0041 {\\"advantage\\": 3}", "resolved": true,'
    )
    assert '"z": 0.10, "deep": {"rank":[1.0, {}]}, "advantage": ' in third
    assert json.loads(third)["rank"] is None
    assert result.replaced_columns == ("rank",)


def test_full_copy_adds_the_usual_names(bench: Workbench) -> None:
    """Other ones would make it search all lines again."""
    bench.run([{**row, "advantage": 9.0} for row in SEED], [SEED_RANKING], full_copy=True)
    assert bench.rows()[0].keys() - SEED[0].keys() == ADDED_NAMES


def test_full_copy_of_a_full_copy_keeps_the_first_advantage(bench: Workbench, tmp_path: Path) -> None:
    bench.run([{**row, "advantage": 9.0} for row in SEED], [SEED_RANKING], full_copy=True)
    first = bench.rows()
    again = tmp_path / "again.jsonl"
    bench.run([], [SEED_RANKING], dumps=(str(bench.output),), output=str(again), full_copy=True)
    assert [json.loads(text) for text in again.read_text().splitlines()] == first


def test_a_copy_of_a_copy_of_long_lines_is_the_same_bytes(bench: Workbench, tmp_path: Path) -> None:
    dump = [{**row, "problem_statement": "s" * 9000, "messages": [], "n": 1} for row in SEED]
    bench.run(dump, [SEED_RANKING], full_copy=True)
    paths = [bench.output, tmp_path / "second.jsonl", tmp_path / "third.jsonl"]
    for source, made in pairwise(paths):
        bench.run([], [SEED_RANKING], dumps=(str(source),), output=str(made), full_copy=True)
    assert paths[1].read_bytes() == paths[2].read_bytes()


def test_full_copy_of_exploded_records_has_one_line_an_attempt(bench: Workbench) -> None:
    record = {
        "group_id": "g",
        "attempts": [{"trajectory_id": row["trajectory_id"], "resolved": row["resolved"]} for row in SEED],
    }
    bench.run([record], [SEED_RANKING], read=ReadOptions(explode="attempts"), full_copy=True)
    assert bench.column("advantage") == [0.75, 0.25, -0.5, -0.5]
    assert bench.column("group_id") == ["g"] * 4


def parquet_dump(path: Path, rows: list[Record]) -> str:
    schema = pa.schema(
        [
            pa.field("group_id", pa.dictionary(pa.int32(), pa.string())),
            pa.field("trajectory_id", pa.large_string()),
            pa.field("resolved", pa.bool_()),
            pa.field("advantage", pa.float32(), metadata={"unit": "none"}),
            pa.field("turns", pa.list_(pa.struct([("text", pa.string()), ("at", pa.timestamp("us"))]))),
        ],
        metadata={"made_by": "trainer"},
    )
    filled = [{"advantage": 0.1, "turns": [{"text": "t", "at": 5}], **row} for row in rows]
    pq.write_table(pa.Table.from_pylist(filled, schema=schema), path, row_group_size=3, compression="gzip")
    return str(path)


def test_full_copy_of_parquet_keeps_schema_and_values(bench: Workbench, tmp_path: Path) -> None:
    dump = parquet_dump(tmp_path / "in.parquet", SEED)
    output = tmp_path / "out.parquet"
    bench.run([], [SEED_RANKING], dumps=(dump,), output=str(output), full_copy=True)
    before, after = pq.read_table(dump), pq.read_table(output)
    assert after.schema.metadata == before.schema.metadata
    assert after.column_names[:5] == ["group_id", "trajectory_id", "resolved", "advantage_input", "turns"]
    for name in ("group_id", "trajectory_id", "resolved", "turns"):
        assert after.schema.field(name).equals(before.schema.field(name), check_metadata=True)
        assert after[name].combine_chunks().equals(before[name].combine_chunks())
    assert after.schema.field("advantage_input").metadata == {b"unit": b"none"}
    assert after["advantage_input"].type == pa.float32()
    assert after["advantage"].to_pylist() == [0.75, 0.25, -0.5, -0.5]
    assert pq.ParquetFile(output).metadata.row_group(0).column(0).compression == "GZIP"


def test_full_copy_joins_shards_of_parquet(bench: Workbench, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    shards.mkdir()
    parquet_dump(shards / "1.parquet", SEED[:1])
    parquet_dump(shards / "2.parquet", SEED[1:])
    output = tmp_path / "out.parquet"
    bench.run([], [SEED_RANKING], dumps=(str(shards),), output=str(output), full_copy=True)
    assert pq.read_table(output)["advantage"].to_pylist() == [0.75, 0.25, -0.5, -0.5]


def test_full_copy_of_parquet_shards_with_other_columns_is_refused(bench: Workbench, tmp_path: Path) -> None:
    first = parquet_dump(tmp_path / "1.parquet", SEED[:1])
    pq.write_table(pa.Table.from_pylist(SEED[1:]), tmp_path / "2.parquet")
    with pytest.raises(InputError, match="columns differ from those of"):
        bench.run(
            [],
            [SEED_RANKING],
            dumps=(first, str(tmp_path / "2.parquet")),
            output=str(tmp_path / "out.parquet"),
            full_copy=True,
        )
    assert not (tmp_path / "out.parquet").exists()


def test_full_copy_of_parquet_leaves_out_what_was_skipped_on_reading(
    bench: Workbench, tmp_path: Path
) -> None:
    rows = [*SEED[:2], {**attempt("bad", resolved=True), "group_id": None}, *SEED[2:]]
    dump = parquet_dump(tmp_path / "in.parquet", rows)
    output = tmp_path / "out.parquet"
    options = ReadOptions(on_bad_record="skip")
    bench.run([], [SEED_RANKING], dumps=(dump,), output=str(output), full_copy=True, read=options)
    table = pq.read_table(output)
    assert table["trajectory_id"].to_pylist() == ["a", "b", "c", "d"]
    assert table["advantage"].to_pylist() == [0.75, 0.25, -0.5, -0.5]


def test_full_copy_from_parquet_to_json_lines(bench: Workbench, tmp_path: Path) -> None:
    dump = parquet_dump(tmp_path / "in.parquet", SEED)
    bench.run([], [SEED_RANKING], dumps=(dump,), full_copy=True)
    assert bench.column("advantage") == [0.75, 0.25, -0.5, -0.5]
    assert [math.isclose(value, 0.1, rel_tol=1e-6) for value in bench.column("advantage_input")] == [True] * 4


def test_full_copy_from_json_lines_to_parquet_is_refused(bench: Workbench, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a Parquet dump"):
        bench.run(SEED, [SEED_RANKING], output=str(tmp_path / "out.parquet"), full_copy=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "ppo"}, "--method is 'ppo', expected one of gagar, gagar-reward, downweight, dr-grpo"),
        (
            {"cap": "tight"},
            "--cap is 'tight', expected one of none, paper, bounded, waterfill, temper, pass-recentre",
        ),
        ({"limit": 1.0}, "--limit is 1, expected more than 1"),
        ({"limit": 1e300}, "--limit is 1e+300, expected at most 1e+06"),
        ({"tiers": "no-such"}, "--tiers is no-such: neither a built-in table"),
        ({"rankings": None}, "--rankings is missing"),
        ({"rankings": "-", "dumps": ("-",)}, "the dump and --rankings are both `-`"),
        ({"output": "out.csv"}, "-o is out.csv, expected .parquet"),
    ],
)
def test_settings_are_refused_before_anything_is_read(
    bench: Workbench, settings: Record, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        bench.run(SEED, [SEED_RANKING], **settings)
    assert caught.value.message.startswith(message)


def test_output_that_exists_is_left_alone(bench: Workbench) -> None:
    bench.output.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        bench.run(SEED, [SEED_RANKING], overwrite=False)
    assert bench.output.read_text() == "mine"


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl"])
def test_a_sidecar_in_parts_is_the_whole_sidecar(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    dump = [
        attempt(f"t{row}", resolved=row % 3 > 0, group_id=f"g{row % 5}", advantage=0.5 if row == 38 else None)
        for row in range(40)
    ]
    lines = [
        line(
            *(entry(f"t{row}", f"T{row % 2 + 1}") for row in range(code, 40, 5) if row % 3),
            group_id=f"g{code}",
        )
        for code in range(4)
    ]
    read = pl.read_parquet if name.endswith("parquet") else pl.read_ndjson
    made = []
    for n_rows in (262_144, 7, 1):
        monkeypatch.setattr(redistribution_output, "_PART_ROWS", n_rows)
        bench.run(dump, lines, output=str(bench.folder / name))
        made.append(read(bench.folder / name))
    assert made[0].height == 40
    assert made[0]["advantage_input"].drop_nulls().to_list() == [0.5]
    assert made[1].equals(made[0])
    assert made[2].equals(made[0])
