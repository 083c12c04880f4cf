"""Methods, penalties, conditions and gates from file to file."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.core.estimators import METHODS
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import ReadOptions
from gagar_cli.redistribute import RedistributeSettings, run
from gagar_cli.redistribution_summary import RedistributeResult
from gagar_cli.tables_redistribution import redistribute_table

Record = dict[str, Any]


def attempt(trajectory_id: str, *, resolved: bool | None, group_id: str = "g", **more: object) -> Record:
    return {"group_id": group_id, "trajectory_id": trajectory_id, "resolved": resolved, **more}


SEED = [
    attempt("a", resolved=True),
    attempt("b", resolved=True),
    attempt("c", resolved=False),
    attempt("d", resolved=False),
]
RANKING: Record = {
    "group_id": "g",
    "candidates": [
        {"trajectory_id": "a", "tier": "T1", "rank": 1, "weighted_score": 5.0},
        {"trajectory_id": "b", "tier": "T3", "rank": 1, "weighted_score": 3.0},
    ],
}


def with_values(name: str, values: list[object], rows: list[Record] = SEED) -> list[Record]:
    return [{**row, name: value} for row, value in zip(rows, values, strict=True)]


def write_lines(path: Path, records: list[Record]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "out.jsonl"

    def run(
        self, dump: list[Record], rankings: list[Record] | None = None, **more: Any
    ) -> RedistributeResult:
        settings: Record = {
            "dumps": (write_lines(self.folder / "dump.jsonl", dump),),
            "rankings": None if rankings is None else write_lines(self.folder / "rankings.jsonl", rankings),
            "output": str(self.output),
            "overwrite": True,
        }
        result = run(RedistributeSettings(**{**settings, **more}))
        json.dumps(result.to_record(), allow_nan=False)
        redistribute_table(result)
        return result

    def column(self, name: str = "advantage") -> list[Any]:
        return [json.loads(text)[name] for text in self.output.read_text().splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


COLUMNS: Record = {
    "process_score": [1.0, 0.5, 0.2, 0.0],
    "format_ok": [True] * 4,
    "error_class": [None, None, "E", "e "],
    "turn_states": [["s", "t"], ["s"], ["s", "u"], ["v"]],
}


def full_dump() -> list[Record]:
    dump = SEED
    for name, values in COLUMNS.items():
        dump = with_values(name, values, dump)
    return dump


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("gagar", [0.75, 0.25, -0.5, -0.5]),
        ("gagar-reward", [0.75, 0.25, -0.5, -0.5]),
        ("downweight", [0.5, 0.1, -0.5, -0.5]),
        ("dr-grpo", [0.5, 0.5, -0.5, -0.5]),
        ("grpo", [0.5 / (3**-0.5 + 1e-6)] * 2 + [-0.5 / (3**-0.5 + 1e-6)] * 2),
        ("rloo", [2 / 3, 2 / 3, -2 / 3, -2 / 3]),
        ("recode", None),
        ("papo", None),
        ("edas", None),
        ("ranking-reward", None),
        ("gigpo", None),
        ("graphgpo", None),
    ],
)
def test_every_method_runs_from_file_to_file(bench: Bench, method: str, expected: list[float] | None) -> None:
    result = bench.run(full_dump(), [RANKING], method=method)
    if expected is not None:
        assert bench.column() == pytest.approx(expected, abs=1e-15)
    assert result.method == method
    assert None not in bench.column()


def test_all_methods_are_tested_from_file_to_file() -> None:
    marks = test_every_method_runs_from_file_to_file.pytestmark  # type: ignore[attr-defined]
    assert {name for name, _ in marks[0].args[1]} == set(METHODS)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("recode", [0.8125, 0.5625, -0.6875, -0.6875]),
        ("papo", [0.75, 0.25, -0.5, -0.5]),
        ("ranking-reward", [1.0, 0.0, -0.5, -0.5]),
        ("edas", [0.5, 0.5, -0.6, -0.6]),
        # Returns from s are 0.95, 1 and 0; the first has a second turn, from a state of its own.
        ("gigpo", [0.5 + 0.15, 0.5 + 0.35, -0.5 - 0.325, -0.5]),
    ],
)
def test_methods_without_deviation(bench: Bench, method: str, expected: list[float]) -> None:
    assignments = ("scale=none", "process_weight=0.5") if method == "recode" else ("scale=none",)
    if method == "papo":
        assignments = ("scale=none", "process_weight=1")
    bench.run(full_dump(), [RANKING], method=method, assignments=assignments)
    assert bench.column() == pytest.approx(expected, abs=1e-15)


def test_process_scores_come_from_the_rankings_where_the_dump_has_none(bench: Bench) -> None:
    result = bench.run(SEED, [RANKING], method="papo", assignments=("scale=none",))
    assert bench.column() == [0.75, 0.25, -0.5, -0.5]  # (5 - 1) / 4 and (3 - 1) / 4
    assert result.process_from == "rankings"


def test_process_scores_of_the_dump_go_before_those_of_the_rankings(bench: Bench) -> None:
    dump = with_values("process_score", [0.0, 1.0, None, None])
    result = bench.run(dump, [RANKING], method="papo", assignments=("scale=none",))
    assert bench.column() == [0.0, 1.0, -0.5, -0.5]
    assert result.process_from == "column"


def test_ranking_without_scores_makes_no_process_score(bench: Bench) -> None:
    bare = [{**each, "weighted_score": None} for each in RANKING["candidates"]]
    with pytest.raises(
        InputError, match=r"dump.jsonl:1: has no weighted_score in the rankings.*1 more like it"
    ):
        bench.run(SEED, [{**RANKING, "candidates": bare}], method="papo")


@pytest.mark.parametrize(
    ("method", "column"),
    [("papo", "process_score"), ("recode", "process_score"), ("edas", "format_ok")],
)
def test_missing_column_is_named_with_the_flag_that_maps_it(bench: Bench, method: str, column: str) -> None:
    with pytest.raises(InputError) as caught:
        bench.run(SEED, method=method)
    assert caught.value.message.endswith(f"dump.jsonl: no record has {column}")
    other = ", or give --rankings with weighted scores" if column == "process_score" else ""
    assert caught.value.hint == f"say where the dump has it with `--field {column}=PATH`{other}"


def test_columns_of_methods_are_mapped(bench: Bench) -> None:
    dump = with_values("judge", [{"score": value} for value in (1.0, 0.5, 0.0, 0.0)])
    read = ReadOptions(fields={"process_score": "judge.score"})
    bench.run(dump, method="papo", assignments=("scale=none",), read=read)
    assert bench.column() == [0.75, 0.25, -0.5, -0.5]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("process_score", [1.0, None, 0.0, 0.0], "dump.jsonl:2: process_score is null"),
        ("process_score", [1.0, 0.5, 1.5, 0.0], "dump.jsonl:3: process_score is 1.5"),
        ("process_score", ["x", "y", "z", "z"], "process_score holds text, expected numbers"),
        ("format_ok", [True, True, None, True], "dump.jsonl:3: format_ok is null"),
        ("error_class", [None, None, "E", None], "dump.jsonl:4: error_class is null"),
    ],
)
def test_bad_values_are_placed(bench: Bench, name: str, values: list[object], message: str) -> None:
    method = "edas" if name == "error_class" else "recode"
    with pytest.raises(InputError) as caught:
        bench.run(with_values(name, values, full_dump()), method=method)
    assert message in caught.value.message


def test_violation_without_an_error_gets_what_the_lowest_failure_gets(bench: Bench) -> None:
    """Two failures of one kind get 0.08 less than their base of -0.4, and it is one too."""
    dump = [*full_dump(), attempt("x", resolved=True, format_ok=True, error_class=None, process_score=1)]
    cheat = {"trajectory_id": "x", "tier": None, "rank": None, "flags": {"integrity_violation": True}}
    ranking = {**RANKING, "candidates": [*RANKING["candidates"], cheat]}
    bench.run(dump, [ranking], method="edas", assignments=("scale=none",))
    assert bench.column() == pytest.approx([0.6, 0.6, -0.48, -0.48, -0.48])


def test_penalties_alone_share_the_passes_total(bench: Bench) -> None:
    result = bench.run(with_values("penalty", [1.0, 0.2, None, 0.0]), factor_column="penalty")
    assert bench.column() == [0.75, 0.25, -0.5, -0.5]
    assert bench.column("quality_factor") == [1.0, 0.2, None, None]
    assert bench.column("grading") == ["graded"] * 4
    assert (result.basis, result.effects.n_changed_failures) == ("penalty", 0)


def test_penalties_multiply_the_tier_factors(bench: Bench) -> None:
    bench.run(with_values("penalty", [0.5, 1.0, None, None]), [RANKING], factor_column="penalty", cap="none")
    assert bench.column("quality_factor") == [0.5, 0.2, None, None]
    assert bench.column() == pytest.approx([5 / 7, 2 / 7, -0.5, -0.5])


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0"), (-1, "-1"), (None, "null"), (1.5, "1.5")],
    ids=["zero", "negative", "null", "above"],
)
def test_penalty_out_of_range_names_the_row(bench: Bench, value: object, told: str) -> None:
    with pytest.raises(InputError) as caught:
        bench.run(with_values("penalty", [1.0, value, None, None]), factor_column="penalty")
    assert caught.value.message.endswith(
        f"dump.jsonl:2: penalty is {told}, expected more than 0 and at most 1"
    )
    assert not bench.output.exists()


@pytest.mark.parametrize("flags", [{"factor_column": "penalty"}, {"factor": "penalty"}])
def test_penalty_too_small_to_be_multiplied_is_refused(bench: Bench, flags: Record) -> None:
    """λ is the inverse of the mean factor: of 5e-324 it would be infinite, and the passes would get nothing."""
    with pytest.raises(InputError, match=r"penalty is 9\.9e-31, expected at least 1e-30 and at most 1"):
        bench.run(with_values("penalty", [1.0, 9.9e-31, None, None]), **flags)
    bench.run(with_values("penalty", [1e-30, 3e-30, None, None]), cap="none", **flags)
    assert bench.column() == pytest.approx([0.25, 0.75, -0.5, -0.5])


def test_penalty_from_an_expression_is_shared_like_one_from_a_column(bench: Bench) -> None:
    dump = with_values("n_output_tokens", [0, 100, None, 7])
    result = bench.run(dump, factor="clip(1 - 0.008 * n_output_tokens, 0.01, 1)")
    assert bench.column() == pytest.approx([0.75, 0.25, -0.5, -0.5])
    assert bench.column("quality_factor") == pytest.approx([1.0, 0.2, None, None])
    assert result.to_record()["factor"] == "clip(1 - 0.008 * n_output_tokens, 0.01, 1)"


def test_penalty_from_an_expression_multiplies_the_tier_factors(bench: Bench) -> None:
    dump = with_values("tool_misuse", [True, False, None, None])
    bench.run(dump, [RANKING], factor="where(tool_misuse, 0.5, 1)", cap="none")
    assert bench.column("quality_factor") == [0.5, 0.2, None, None]
    assert bench.column() == pytest.approx([5 / 7, 2 / 7, -0.5, -0.5])


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (
            "1 - n_turns / 4",
            "dump.jsonl:2: --factor 1 - n_turns / 4 is 0, expected more than 0 and at most 1: n_turns is 4",
        ),
        ("n_turns - 4", "dump.jsonl:1: --factor n_turns - 4 is -1, "),
        ("1 / n_turns", "dump.jsonl:3: --factor 1 / n_turns is null, "),
        ("exp(n_turns)", "dump.jsonl:1: --factor exp(n_turns) is 20.0855, "),
        ("9 ** 9 ** 9 ** n_turns", "dump.jsonl:1: --factor 9 ** 9 ** 9 ** n_turns is inf, "),
    ],
    ids=["zero", "negative", "missing", "above", "infinite"],
)
def test_expression_out_of_range_names_the_row_and_what_it_was_made_from(
    bench: Bench, expression: str, told: str
) -> None:
    dump = [*SEED[:2], {**SEED[0], "trajectory_id": "e"}, *SEED[2:]]
    with pytest.raises(InputError) as caught:
        bench.run(with_values("n_turns", [3, 4, None, None, None], dump), factor=expression)
    assert told in caught.value.message
    assert not bench.output.exists()


def test_expression_on_a_missing_column_or_text_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="--factor names n_token, which no record has"):
        bench.run(SEED, factor="1 / n_token")
    with pytest.raises(UsageError, match='--factor: "kind" is text, expected numbers'):
        bench.run(with_values("kind", ["x"] * 4), factor="0.5 * kind")


def test_penalty_that_is_text_or_missing_is_refused(bench: Bench) -> None:
    with pytest.raises(InputError, match="no record has penalty"):
        bench.run(SEED, factor_column="penalty")
    with pytest.raises(InputError, match="penalty holds text, expected numbers"):
        bench.run(with_values("penalty", ["low"] * 4), factor_column="penalty")
    with pytest.raises(InputError, match=r'dump.jsonl:2: penalty is "low", expected a number, as in'):
        bench.run(with_values("penalty", [1.0, "low", None, None]), factor_column="penalty")


def mixed_tasks() -> list[Record]:
    code = with_values("meta", [{"task_type": "code"}] * 4)
    return [*code, *({**row, "group_id": "m", "meta": {"task_type": "math"}} for row in SEED)]


def test_rows_outside_the_condition_get_the_base(bench: Bench) -> None:
    rankings = [RANKING, {**RANKING, "group_id": "m"}]
    result = bench.run(mixed_tasks(), rankings, eligible='meta.task_type == "code"')
    assert bench.column() == [0.75, 0.25, -0.5, -0.5, 0.5, 0.5, -0.5, -0.5]
    assert result.n_by_reason["skipped"] == {"not_eligible": 1}
    assert (result.n_outside, result.ungraded_rate) == (4, 0.0)


def test_groups_outside_the_condition_need_no_ranking(bench: Bench) -> None:
    result = bench.run(mixed_tasks(), [RANKING], eligible='meta.task_type in ["code", "repair"]')
    assert result.n_groups == {"graded": 1, "skipped": 1, "ungraded": 0}


def test_pass_outside_the_condition_keeps_its_share(bench: Bench) -> None:
    dump = [*with_values("n_turns", [3, 4, 5, 6]), attempt("e", resolved=True, n_turns=99)]
    bench.run(dump, [RANKING], eligible="n_turns < 50", cap="none")
    assert bench.column() == pytest.approx([2 / 3, 2 / 15, -0.6, -0.6, 0.4])
    assert bench.column("quality_factor") == [1.0, 0.2, None, None, None]


def test_condition_on_a_missing_column_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="--eligible names task_typ, which no record has"):
        bench.run(SEED, [RANKING], eligible='task_typ == "code"')


def test_dynamic_sampling_leaves_groups_without_contrast_out(bench: Bench) -> None:
    dump = [
        *SEED,
        *(
            attempt(name, resolved=True, group_id="pass", process_score=score)
            for name, score in (("p", 1), ("q", 0))
        ),
        *(attempt(name, resolved=False, group_id="fail") for name in "fh"),
        attempt("s", resolved=True, group_id="single"),
        attempt("n", resolved=None, group_id="none"),
    ]
    result = bench.run(dump, method="rloo", dynamic_sampling=True)
    assert result.sampling is not None
    assert tuple(result.sampling) == (1, 1, 1, 1, 1)
    assert bench.column() == [2 / 3, 2 / 3, -2 / 3, -2 / 3, *[None] * 6]
    assert bench.column("advantage_base")[4:] == [0.0] * 5 + [None]


def test_all_pass_group_gets_signal_from_its_ranks(bench: Bench) -> None:
    bench.run(SEED[:2], [RANKING], method="ranking-reward", assignments=("scale=none",))
    assert bench.column() == [0.5, -0.5]
    assert bench.column("grading") == ["graded"] * 2


TABLE = """
T1 = {rule = "flat", factor = 1}
T2 = {rule = "flat", factor = 0.5}
T3 = {rule = "flat", factor = 0.2}
cap = {kind = "waterfill", limit = 1.25}
"""


@pytest.mark.parametrize(
    ("flags", "expected", "told"),
    [
        (
            {},
            ("waterfill", 1.25, "table"),
            "waterfill (amplification at most 1.25; not the paper's cap), from the table",
        ),
        ({"limit": 1.5}, ("waterfill", 1.5, "flag"), "the flag wins over the table's waterfill at 1.25"),
        (
            {"cap": "none"},
            ("none", 1.25, "flag"),
            "equation 2); the flag wins over the table's waterfill at 1.25",
        ),
        ({"tiers": "flash"}, ("bounded", 1.5, "default"), "not the paper's cap), the default"),
    ],
    ids=["table", "limit", "cap", "default"],
)
def test_cap_of_the_table_holds_unless_a_flag_says_otherwise(
    bench: Bench, tmp_path: Path, flags: Record, expected: tuple[Any, ...], told: str
) -> None:
    (tmp_path / "own.toml").write_text(TABLE)
    result = bench.run(SEED, [RANKING], **{"tiers": str(tmp_path / "own.toml"), **flags})
    record = result.to_record()
    assert (*record["options"].values(), record["cap_from"]) == expected
    shown = redistribute_table(result)
    assert told in str(next(iter(shown.columns[1].cells)))
    top = {"waterfill": result.cap.limit, "bounded": 1.5, "none": 5 / 3}[str(record["options"]["cap"])]
    assert bench.column()[0] == pytest.approx(0.5 * top)


@pytest.mark.parametrize("cap", ["none", "bounded", "waterfill", "temper", "pass-recentre"])
def test_check_finds_nothing_under_the_caps_that_keep_sums(bench: Bench, cap: str) -> None:
    assert bench.run(SEED, [RANKING], cap=cap, check=True).n_broken_groups == 0


def test_check_names_what_the_papers_cap_breaks(bench: Bench) -> None:
    result = bench.run(SEED, [RANKING], cap="paper", check=True)
    assert result.n_broken_groups == 1
    moved = "the passing advantages' sum moved by -0.05; 2 failing advantages changed"
    assert result.breaches == (f'group "g": {moved}',)


@pytest.mark.parametrize("cap", ["none", "bounded", "waterfill", "temper", "pass-recentre", "paper"])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_redistributing_a_result_again_changes_nothing(
    bench: Bench, tmp_path: Path, cap: str, suffix: str
) -> None:
    dump = with_values("penalty", [0.9, 0.35, None, None])
    if suffix == "parquet":
        pl.DataFrame(dump).write_parquet(tmp_path / "in.parquet")
        dumps: tuple[str, ...] = (str(tmp_path / "in.parquet"),)
    else:
        dumps = (write_lines(tmp_path / "in.jsonl", dump),)
    outputs = [str(tmp_path / f"{number}.{suffix}") for number in (1, 2)]
    for source, output in zip((dumps, (outputs[0],)), outputs, strict=True):
        settings = {
            "cap": cap,
            "factor_column": "penalty",
            "full_copy": True,
            "output": output,
            "dumps": source,
        }
        bench.run([], [RANKING], **settings)
    first, second = (
        pl.read_parquet(path) if suffix == "parquet" else pl.read_ndjson(path) for path in outputs
    )
    assert second.select(first.columns).equals(first, null_equal=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "grpo", "factor_column": "x"}, "--factor-column is not for --method grpo"),
        ({"method": "grpo", "factor": "0.5"}, "--factor is not for --method grpo"),
        ({"cap": "none", "limit": 3.0}, "--limit is 3, and --cap none bounds nothing"),
        ({"method": "grpo", "limit": 2.0}, "--limit is not for --method grpo"),
        ({"method": "downweight", "factor": "0.5", "limit": 2.0}, "--limit is not for --method downweight"),
        ({"method": "downweight", "factor": "0.5", "cap": "none"}, "--cap is not for --method downweight"),
        ({"method": "grpo", "tiers": "strict"}, "--tiers is not for --method grpo"),
        ({"method": "dr-grpo", "tiers": "flash"}, "--tiers is not for --method dr-grpo"),
        (
            {"factor": "0.5", "tiers": "strict"},
            "--tiers is strict, and without --rankings nothing has a tier",
        ),
        ({"factor": "0.5", "factor_column": "x"}, "--factor-column and --factor exclude each other"),
        ({"factor": "open('x')"}, "--factor: \"open('x')\" does not belong in an expression"),
        ({"method": "rloo", "per_turn": True}, "--per-turn is not for --method rloo"),
        ({"method": "gigpo", "per_turn": True, "per_token": "m"}, "--per-turn and --per-token exclude"),
        ({"method": "gigpo", "per_turn": True, "full_copy": True}, "--per-turn and --full-copy exclude"),
        ({"method": "rloo", "per_token": "m", "full_copy": True}, "--per-token and --full-copy exclude"),
        (
            {"method": "gigpo", "assignments": ("discount=2",)},
            "--set discount is '2', expected a number from 1e-12 to 1",
        ),
        (
            {"method": "gigpo", "assignments": ("episode_over=x",)},
            "--set episode_over is 'x', expected one of",
        ),
        ({"method": "ranking-reward"}, "--rankings is missing"),
        (
            {"method": "papo", "assignments": ("alpha=1",)},
            "--set 'alpha': no option of method papo, the nearest is",
        ),
        ({"method": "rloo", "assignments": ("alpha=1",)}, "--set 'alpha': method rloo has no options to set"),
        ({"method": "edas", "assignments": ("alpha",)}, "--set is 'alpha', expected NAME=VALUE"),
        ({"method": "edas", "assignments": ("alpha=nan",)}, "--set alpha is 'nan', expected a number from 0"),
        (
            {"method": "edas", "assignments": ("kappa=0",)},
            "--set kappa is '0', expected a number from 1e-12 to 1e+06",
        ),
        (
            {"method": "papo", "assignments": ("process_weight=1e308",)},
            "--set process_weight is '1e308', expected a number from 0 to 1e+06",
        ),
        ({"method": "edas", "assignments": ("scale=sd",)}, "--set scale is 'sd', expected one of std, none"),
        ({"method": "grpo", "assignments": ("ddof=2",)}, "--set ddof is '2', expected 0 or 1"),
        ({"method": "rloo", "like": "trl"}, "--like is for --method grpo"),
        ({"method": "grpo", "like": "jax"}, "--like is 'jax', expected one of verl, trl, nemo"),
        ({"method": "grpo", "eligible": "a = 1"}, '--eligible is "a = 1": '),
    ],
)
def test_settings_that_make_no_sense_are_refused(bench: Bench, settings: Record, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        bench.run(SEED, **settings)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("assignment", "hint"),
    [
        ("epsilon=1", "epsilon is an option of grpo"),
        ("cap=paper", "leave --set out"),
        ("nothing=1", "leave --set out"),
    ],
)
def test_an_option_of_another_method_is_told_where_it_belongs(
    bench: Bench, assignment: str, hint: str
) -> None:
    with pytest.raises(UsageError, match="method rloo has no options to set") as caught:
        bench.run(SEED, method="rloo", assignments=(assignment,))
    assert (caught.value.hint or "").startswith(hint)


def test_presets_of_trainers(bench: Bench) -> None:
    bench.run(SEED, method="grpo", like="trl")
    assert bench.column()[0] == pytest.approx(0.5 / (3**-0.5 + 1e-4), abs=1e-15)
    bench.run(SEED, method="grpo", like="nemo", assignments=("leave_one_out=false", "ddof=0"))
    assert bench.column()[0] == pytest.approx(0.5 / (0.5 + 1e-6), abs=1e-15)


def test_limit_beside_a_table_without_a_cap_is_refused_unless_a_flag_names_a_cap(
    bench: Bench, tmp_path: Path
) -> None:
    flat = "".join(f"{tier} = {{rule = 'flat', factor = 0.5}}\n" for tier in ("T1", "T2", "T3"))
    table = tmp_path / "table.toml"
    table.write_text(f"{flat}[cap]\nkind = 'none'\n")
    with pytest.raises(UsageError, match="--limit is 3, and the tier table's cap, none, bounds nothing"):
        bench.run(SEED, [RANKING], tiers=str(table), limit=3.0)
    assert bench.run(SEED, [RANKING], tiers=str(table), limit=3.0, cap="bounded").cap.limit == 3.0


def test_tiers_are_taken_where_their_ties_or_cap_are_used(bench: Bench, tmp_path: Path) -> None:
    assert bench.run(SEED, [RANKING], method="ranking-reward", tiers="strict").tiers == "strict"
    flat = "".join(f"{tier} = {{rule = 'flat', factor = 0.5}}\n" for tier in ("T1", "T2", "T3"))
    table = tmp_path / "table.toml"
    table.write_text(f"{flat}[cap]\nkind = 'temper'\n")
    assert bench.run(SEED, factor="0.5", tiers=str(table)).cap.cap == "temper"
