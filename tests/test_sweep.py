"""The sweep from file to table, JSON and plot."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.sweep import SweepSettings, SweptVariant, run, weight_summary
from gagar_cli.tables_sweep import sweep_table

NAMES = ("approach", "precision", "minimality", "side_effects", "consistency")


def candidate(name: str, tier: str, rank: int, *scores: int) -> dict[str, Any]:
    return {
        "trajectory_id": name,
        "tier": tier,
        "rank": rank,
        "scores": dict(zip(NAMES, scores, strict=False)),
    }


RANKINGS = [
    {"group_id": "g", "candidates": [candidate("a", "T1", 1, 5, 5, 5, 5, 5), candidate("b", "T3", 1, 1, 1, 1, 1, 1)]},
    {
        "group_id": "h",
        "candidates": [
            candidate("a", "T2", 1, 3, 3, 3, 3, 5),
            candidate("b", "T2", 2, 3, 3, 4, 3, 3),
            candidate("c", "T2", 2, 3, 3, 3, 4, 3),
        ],
    },
]  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    dump = [
        {"group_id": group, "trajectory_id": name, "resolved": passed}
        for group, names in (("g", "ab"), ("h", "abc"))
        for name, passed in [*((each, True) for each in names), ("x", False), ("y", False)]
    ]
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in dump))
    (tmp_path / "rankings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RANKINGS))
    return {"dumps": (str(tmp_path / "dump.jsonl"),), "rankings": str(tmp_path / "rankings.jsonl")}


def named(variants: tuple[SweptVariant, ...]) -> dict[str, SweptVariant]:
    return {f"{each.variant.axis} {each.variant.name}": each for each in variants}


def test_caps_are_told_by_what_they_change(settings: dict[str, Any]) -> None:
    result = run(SweepSettings(**settings, limits=(1.5, 2.0), n_weights=0))
    found = named(result.variants)
    # Factors (1, 0.2) make λ 5/3: 1/3 of 1 moves without a cap, 1/4 under the limit 1.5. The other group, 0.85 and two
    # of 0.4, has 85/55 at the top: half of |6/11| + 2 |3/11|, of A = 2/5 each.
    total = 2 * 0.5 + 3 * 0.4
    no_cap = found["cap none"].comparison
    assert no_cap.moved == pytest.approx((0.5 * 2 / 3 + 0.4 * 6 / 11) / total)
    assert found["default flash"].comparison.moved == pytest.approx((0.25 + 0.4 * 0.5) / total)
    assert found["cap bounded 2"].comparison == found["cap none"].comparison
    assert [found[f"cap {cap} 1.5"].cap_rate for cap in ("bounded", "paper", "waterfill")] == [1.0, 1.0, 1.0]
    assert found["cap paper 1.5"].effects.n_changed_failures == 4
    assert {each.effects.n_changed_failures for name, each in found.items() if "paper" not in name} == {0}
    assert found["default flash"].comparison.tau_b == 1.0
    assert (found["tiers none"].comparison.tau_b, found["tiers none"].comparison.n_top_changed) == (None, 0)


def test_tie_policies_change_factors_and_no_order(settings: dict[str, Any]) -> None:
    found = named(run(SweepSettings(**settings, n_weights=0)).variants)
    competition = found["ties competition"].comparison
    assert (competition.n_top_changed, competition.tau_b) == (0, 1.0)
    assert competition.moved != found["default flash"].comparison.moved


def test_weights_order_a_tier_anew(settings: dict[str, Any]) -> None:
    result = run(SweepSettings(**settings, n_weights=30, concentration=5.0, seed=1))
    found = named(result.variants)
    # W of the second group by the paper's weights: 3.2 twice, and 3.15. The best one is still among the best.
    assert found["weights the rubric's"].comparison.n_top_changed == 0
    draws = [each for each in result.variants if each.variant.name.startswith("draw")]
    assert len(draws) == 30
    assert {each.comparison.n_top_changed for each in draws} == {0, 1}
    least, mean, largest = weight_summary(result.variants)["top_changed"]
    assert (least, largest) == (0.0, 0.5)
    assert 0 < mean < 0.5


def test_same_seed_gives_the_same_sweep(settings: dict[str, Any]) -> None:
    records = [
        run(SweepSettings(**settings, seed=seed, limits=(1.5,), n_weights=8)).to_record()
        for seed in (4, 4, 5)
    ]
    assert records[0] == records[1]
    assert records[0] != records[2]
    json.dumps(records[0], allow_nan=False)


def test_groups_without_scores_keep_their_order(settings: dict[str, Any], tmp_path: Path) -> None:
    bare = [
        {**line, "candidates": [{**each, "scores": {}} for each in line["candidates"]]} for line in RANKINGS
    ]  # type: ignore[attr-defined]
    (tmp_path / "rankings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bare))
    result = run(SweepSettings(**settings, n_weights=3))
    assert result.n_without_scores == 2
    assert {each.comparison.tau_b for each in result.variants if each.variant.axis == "weights"} == {1.0}
    sweep_table(result)


def test_own_tables_join_the_built_in_ones(settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "flash.toml"
    path.write_text("\n".join(f"{tier} = {{rule = 'flat', factor = 0.5}}" for tier in ("T1", "T2", "T3")))
    found = named(run(SweepSettings(**settings, tiers=(str(path),), n_weights=0)).variants)
    assert found[f"tiers {path}"].comparison.moved == 0.0
    assert found["default flash"].comparison.moved > 0


def test_a_violation_costs_what_is_asked_for_in_every_variant(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    accused = candidate("b", "T1", 1) | {"tier": None, "rank": None, "flags": {"integrity_violation": True}}
    line = {"group_id": "g", "candidates": [candidate("a", "T1", 1), accused]}
    (tmp_path / "rankings.jsonl").write_text(json.dumps(line))
    # Without its reward the group has one pass, and a lone pass has nothing to share.
    by_reward = named(run(SweepSettings(**settings, n_weights=0)).variants)["cap none"]
    by_tier = named(run(SweepSettings(**settings, n_weights=0, integrity_action="t3")).variants)["cap none"]
    assert by_reward.comparison.moved == 0.0
    assert by_tier.comparison.moved == pytest.approx(1 / 3)


def test_plot_has_a_panel_for_each_question(settings: dict[str, Any], tmp_path: Path) -> None:
    plot = str(tmp_path / "sweep.svg")
    run(SweepSettings(**settings, plot=plot))
    tree = ElementTree.parse(plot)
    titles = [
        text.text
        for text in tree.iter("{http://www.w3.org/2000/svg}text")
        if text.get("font-weight") == "bold"
    ]
    assert [str(title).split()[0] for title in titles] == ["Share", "Share", "Largest", "Order"]
    with pytest.raises(OutputError, match="exists already"):
        run(SweepSettings(**settings, plot=plot))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"limits": (1.0,)}, "--limit is 1, expected more than 1"),
        ({"concentration": 0.0}, "--concentration is 0, expected a number from 0.1 to 1e+06"),
        ({"plot": "sweep.png"}, "--plot is sweep.png, expected a name that ends in .svg"),
        ({"rankings": "-", "dumps": ("-",)}, "the dump and --rankings are both `-`"),
        ({"tiers": ("fast",)}, "--tiers is fast: neither a built-in table"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    settings: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run(SweepSettings(**{**settings, **more}))
    assert caught.value.message.startswith(message)


def test_rankings_that_grade_nothing_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    lines = [{"group_id": "g", "status": "ungraded", "reason": "budget"}]
    (tmp_path / "rankings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    with pytest.raises(InputError, match=r"rankings.jsonl: ranks no group with passes and failures"):
        run(SweepSettings(**settings))


def test_without_a_cap_there_is_no_limit(settings: dict[str, Any]) -> None:
    records = [
        each.to_record() for each in run(SweepSettings(**settings, limits=(1.1, 2.0), n_weights=0)).variants
    ]
    limits = {str(each["name"]): each["limit"] for each in records if each["axis"] in ("default", "cap")}
    assert limits["none"] is None
    assert (limits["flash"], limits["bounded 1.1"], limits["paper 2"]) == (1.5, 1.1, 2.0)


def test_figures_of_a_variant_have_names_that_say_of_what_they_are(settings: dict[str, Any]) -> None:
    (first, *_) = run(SweepSettings(**settings, n_weights=0)).variants
    record = first.to_record()
    compared = first.comparison
    assert record["moved_share"] == compared.moved
    assert (record["n_groups_with_other_best"], record["n_groups_with_tau_b"]) == (0, compared.n_with_tau)
