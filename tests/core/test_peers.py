"""Every peer column of the reference vectors, and what the methods do where those have none."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gagar_cli.core.batches import Batch
from gagar_cli.core.double_double import from_floats
from gagar_cli.core.estimators import METHODS, PRESETS, Options, estimate
from gagar_cli.core.gagar import gagar
from gagar_cli.core.grouping import outline_groups
from gagar_cli.core.peers import dr_grpo, edas, grpo, papo, ranking_reward, recode, rloo

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
DOUBLE, SINGLE = 1e-13, 2e-6
"""Peers that compute in float64, and those that cast to float32 (relative to 1)."""
TRL_DEVIATION = 5e-8
"""TRL's deviation is float32 in the vectors, the rest float64."""
Group = dict[str, Any]
BATCH_METHODS = sorted(name for name, method in METHODS.items() if "turns" not in method.needs)


def vector_groups() -> list[Group]:
    path = SHARED / "vectors" / "vectors.json"
    return json.loads(path.read_text())["groups"] if path.is_file() else []


def by_group(function: Callable[..., None]) -> Callable[..., None]:
    marked = pytest.mark.parametrize("group", vector_groups(), ids=lambda group: group["id"])(function)
    absent = pytest.mark.skipif(
        not vector_groups(), reason="the reference vectors are not beside this checkout"
    )
    return pytest.mark.shared(absent(marked))


def batch_of(
    rewards: list[float],
    passed: list[bool] | None = None,
    *,
    valid: list[bool] | None = None,
    process: list[float] | None = None,
    errors: list[str | None] | None = None,
    standing: list[int] | None = None,
    well_formed: list[bool] | None = None,
    eligible: list[bool] | None = None,
) -> Batch:
    """One group; whoever has reward 1 passed, everything is valid and well formed unless told otherwise."""
    size = len(rewards)
    names = sorted({error for error in errors or [] if error is not None})
    codes = [-1 if error is None else names.index(error) for error in errors or [None] * size]
    return Batch(
        rewards=np.array([rewards], dtype=float),
        is_valid=np.array([valid or [True] * size]),
        is_passed=np.array([passed or [reward >= 1 for reward in rewards]]),
        is_graded=np.array([True]),
        factors=from_floats(np.ones((1, size))),
        is_eligible=None if eligible is None else np.array([eligible]),
        standing=np.array([standing or [-1] * size]),
        process=np.array([process or [math.nan] * size], dtype=float),
        is_well_formed=np.array([well_formed or [True] * size]),
        error_class=np.array([codes]),
    )


def raw_batch(group: Group) -> Batch:
    """All rows of a vector with their rewards as they are, as the trainers were run."""
    return batch_of([math.nan if row["reward"] is None else row["reward"] for row in group["input"]])


def judged_batch(group: Group, *, process: str = "process") -> Batch:
    """Valid rows, violations failed, rewards 0 and 1: how the comparison methods were run."""
    rows = group["input"]
    is_passed = [row["passed"] and not row["integrity_violation"] for row in rows]
    tiers = [0 if row["tier"] is None else int(row["tier"][1]) for row in rows]
    return batch_of(
        [float(passed) for passed in is_passed],
        is_passed,
        valid=[not row["infra_invalid"] for row in rows],
        process=[row[process] for row in rows],
        errors=[None if row["error"] is None else row["error"].strip().lower() for row in rows],
        standing=[
            tier * 100 + row["rank"] if tier and passed else -1
            for tier, row, passed in zip(tiers, rows, is_passed, strict=True)
        ],
        well_formed=[bool(row["format_ok"]) for row in rows],
    )


def assert_near(computed: np.ndarray, expected: list[float | None], tolerance: float) -> None:  # type: ignore[type-arg]
    wanted = [math.nan if value is None else value for value in expected]
    assert computed[0].tolist() == pytest.approx(wanted, abs=tolerance, rel=tolerance, nan_ok=True)


def is_comparable(group: Group) -> bool:
    """Not where peers make NaN of a whole group, or the raw reward of a group of one: we do not (METHODS 7)."""
    rewards = [row["reward"] for row in group["input"]]
    return None not in rewards and len(rewards) > 1


@by_group
def test_grpo_and_rloo_are_those_of_verl(group: Group) -> None:
    if not is_comparable(group):
        return
    batch, peer = raw_batch(group), group["peers"]["verl_0.9.1"]
    assert_near(grpo(batch, **PRESETS["verl"]).advantage, peer["grpo_std"], DOUBLE)  # type: ignore[arg-type]
    assert_near(grpo(batch).advantage, peer["grpo_vectorized_std"], SINGLE)
    assert_near(dr_grpo(batch).advantage, peer["grpo_mean"], DOUBLE)
    assert_near(dr_grpo(batch).advantage, peer["grpo_vectorized_mean"], SINGLE)
    assert_near(rloo(batch).advantage, peer["rloo"], DOUBLE)
    assert_near(rloo(batch).advantage, peer["rloo_vectorized"], DOUBLE)


@by_group
def test_grpo_and_rloo_are_those_of_trl(group: Group) -> None:
    batch, peer = raw_batch(group), group["peers"]["trl_1.16.0"]
    # TRL leaves a NaN row out and gives it 0; here it is invalid and has no advantage.
    is_valid = ~np.isnan(batch.rewards)
    batch = replace(batch, is_valid=is_valid)

    def expected(name: str) -> list[float | None]:
        return [value if valid else None for value, valid in zip(peer[name], is_valid[0], strict=True)]

    trl = grpo(batch, **PRESETS["trl"]).advantage  # type: ignore[arg-type]
    assert_near(trl, expected("grpo_group"), TRL_DEVIATION)
    assert_near(trl, expected("grpo_batch"), TRL_DEVIATION)
    assert_near(dr_grpo(batch).advantage, expected("grpo_none"), DOUBLE)
    assert_near(rloo(batch).advantage, expected("rloo"), DOUBLE)


@by_group
def test_grpo_and_rloo_are_those_of_nemo(group: Group) -> None:
    if None in [row["reward"] for row in group["input"]]:
        return
    batch, peer = raw_batch(group), group["peers"]["nemo_rl"]
    assert_near(grpo(batch, **PRESETS["nemo"]).advantage, peer["grpo_loo_std(default)"], SINGLE)  # type: ignore[arg-type]
    assert_near(grpo(batch).advantage, peer["grpo_std"], SINGLE)
    assert_near(dr_grpo(batch).advantage, peer["grpo_mean"], SINGLE)
    assert_near(rloo(batch).advantage, peer["rloo(loo,nostd)"], SINGLE)


@by_group
def test_papo_is_the_official_one(group: Group) -> None:
    peer, coarse = group["peers"]["papo"], judged_batch(group, process="prm")
    assert_near(papo(coarse).advantage, peer["std"], DOUBLE)
    assert_near(papo(coarse, scale="none").advantage, peer["mean"], DOUBLE)
    assert_near(papo(judged_batch(group)).advantage, peer["std_continuous_process"], DOUBLE)
    assert_near(papo(coarse, process_over="group").advantage, peer["fullnorm_ablation"], DOUBLE)


@by_group
def test_edas_is_that_of_its_code(group: Group) -> None:
    peer, batch = group["peers"]["edas"], judged_batch(group)
    if len(group["input"]) == 1:
        return  # verl's base is the raw reward
    assert_near(edas(batch, alpha=0.4).advantage, peer["on_grpo_std_a0.4_b0.2_k2"], DOUBLE)
    assert_near(edas(batch, alpha=0.4, scale="none").advantage, peer["on_drgrpo_a0.4_b0.2_k2"], DOUBLE)
    assert_near(edas(batch).advantage, peer["on_grpo_std_a0.2_b0.2_k2"], DOUBLE)
    assert_near(edas(batch, alpha=5).advantage, peer["on_grpo_std_a5_b0.2_k2(clip_binds)"], DOUBLE)


@by_group
def test_recode_is_grpo_over_the_composite_reward(group: Group) -> None:
    peer, batch = group["peers"]["recode_cg_grpo"], judged_batch(group)
    if len(group["input"]) == 1:
        return
    assert_near(recode(batch).advantage, peer["grpo_std"], 1e-12)
    assert_near(recode(batch, scale="none").advantage, peer["grpo_mean"], DOUBLE)


@by_group
def test_ranking_reward_is_grpo_over_rewards_with_ranks(group: Group) -> None:
    peer, batch = group["peers"]["groupwise_ranking_reward"], judged_batch(group)
    if len(group["input"]) == 1:
        return
    assert_near(ranking_reward(batch).advantage, peer["grpo_std"], DOUBLE)
    assert_near(ranking_reward(batch, scale="none").advantage, peer["grpo_mean"], DOUBLE)


@by_group
def test_papers_cap_is_that_of_the_public_transcription(group: Group) -> None:
    peer, exact = group["peers"].get("gar_reference_kekmodel"), group["gagar_exact"]
    if peer is None or exact["status"] != "mixed" or not group["graded"]:
        return
    factors = np.ones((1, len(group["input"])))
    for index, factor in zip(exact["valid_index"], exact["q"], strict=True):
        factors[0, index] = float(Fraction(factor or "1"))
    rewards = [
        0.0 if row["integrity_violation"] or row["reward"] is None else row["reward"]
        for row in group["input"]
    ]
    made = gagar(
        replace(judged_batch(group), rewards=np.array([rewards]), factors=from_floats(factors)), "paper"
    )
    assert_near(made.advantage, peer["advantage"], DOUBLE)
    assert made.multiplier[0] == pytest.approx(peer["lam_used"], abs=1e-13)
    assert bool(made.is_capped[0]) == peer["capped"]


@by_group
def test_dynamic_sampling_keeps_what_verl_keeps_but_for_groups_of_one(group: Group) -> None:
    """verl looks at the deviation of raw rewards, this at valid passes after integrity."""
    rows, peer = group["input"], group["peers"]["dynamic_sampling_verl_keep"]
    if peer is None or any(row["infra_invalid"] or row["integrity_violation"] for row in rows):
        return
    batch = raw_batch(group)
    outlines = outline_groups(np.zeros(len(rows), dtype=int), batch.is_passed[0], ~batch.is_valid[0], 1)
    assert bool(outlines.is_mixed[0]) == (peer and len(rows) > 1)


def test_scores_that_are_equal_by_rounding_only_move_nothing() -> None:
    """Rewards of 0.3 and 0.1 + 0.2 differ in the last bit: ε keeps that from becoming an advantage of size 1."""
    batch = batch_of([0.1 + 0.2, 0.3, 0.3, 0.3], [False] * 4)
    assert np.abs(grpo(batch).advantage).max() < 1e-9
    assert np.abs(grpo(batch, **PRESETS["trl"]).advantage).max() < 1e-11  # type: ignore[arg-type]


@pytest.mark.parametrize("reward", [0.0, 1.0])
@pytest.mark.parametrize("name", BATCH_METHODS)
def test_group_of_one_gets_nothing(name: str, reward: float) -> None:
    batch = batch_of([reward], process=[0.5], standing=[0 if reward else -1], errors=[None])
    assert estimate(name, batch).advantage.tolist() == [[0.0]]


@pytest.mark.parametrize("name", BATCH_METHODS)
def test_invalid_rows_leave_every_statistic(name: str) -> None:
    more = {"process": [1.0, 0.5, 0.2, 0.1], "standing": [0, 1, -1, -1], "errors": [None, None, "a", "b"]}
    alone = estimate(name, batch_of([1.0, 1.0, 0.0, 0.0], **more))  # type: ignore[arg-type]
    padded = {"process": [math.nan] * 4, "standing": [0] * 4, "errors": [None, None, "a", "c"]}
    batch = batch_of(
        [1.0, 1.0, 0.0, 0.0, math.nan, 1.0, 0.0, 9.0],
        valid=[True] * 4 + [False] * 4,
        **{key: [*more[key], *padded[key]] for key in more},  # type: ignore[arg-type, misc]
    )
    advantage = estimate(name, batch).advantage[0]
    assert advantage[:4].tolist() == pytest.approx(alone.advantage[0].tolist(), abs=1e-15)
    assert np.isnan(advantage[4:]).all()


def test_edas_of_one_kind_of_error_pushes_all_failures_down() -> None:
    """S = 0.5 and β = 0.2: Δ = −0.1 for each."""
    made = edas(batch_of([1, 1, 0, 0], errors=[None, None, "a", "a"]), scale="none")
    assert made.advantage[0].tolist() == pytest.approx([0.5, 0.5, -0.6, -0.6])
    assert np.isnan(made.reward_equivalent).all()


def test_edas_leaves_failures_of_bad_form_alone() -> None:
    batch = batch_of([1, 0, 0], errors=[None, "a", "a"], well_formed=[True, True, False])
    assert edas(batch).advantage.tolist() == grpo(batch).advantage.tolist()


def test_ranking_reward_counts_ties_half() -> None:
    """u = 1, ¼, ¼ over r = 1, less ½: r' = 1.5, .75, .75, 0, mean .75."""
    made = ranking_reward(batch_of([1, 1, 1, 0], standing=[0, 4, 4, -1]), scale="none")
    assert made.advantage.tolist() == [[0.75, 0.0, 0.0, -0.75]]


def test_process_weight_weighs_the_process() -> None:
    batch = batch_of([1, 1, 0, 0], process=[1, 0, 0, 0])
    assert recode(batch, scale="none", process_weight=0.5).advantage[0].tolist() == [
        0.875,
        0.375,
        -0.625,
        -0.625,
    ]
    assert papo(batch, scale="none", process_weight=0.5).advantage[0].tolist() == [0.75, 0.25, -0.5, -0.5]


@pytest.mark.parametrize("name", ["recode", "papo", "edas", "ranking-reward"])
def test_rows_outside_get_grpo(name: str) -> None:
    batch = batch_of(
        [1, 1, 0, 0],
        process=[1, 0.5, 0.3, 0.2],
        standing=[0, 1, -1, -1],
        errors=[None, None, "a", "a"],
        eligible=[False] * 4,
    )
    assert estimate(name, batch).advantage.tolist() == grpo(batch).advantage.tolist()
    centred = estimate(name, batch, Options(scale="none"))
    assert centred.advantage.tolist() == [[0.5, 0.5, -0.5, -0.5]]
    assert centred.reward_equivalent.tolist() == [[1, 1, 0, 0]]


@pytest.mark.parametrize("name", ["gagar", "gagar-reward", "downweight"])
def test_passes_outside_keep_their_base_while_the_others_share(name: str) -> None:
    batch = batch_of([1, 1, 1, 0], eligible=[True, True, False, True])
    batch = replace(batch, factors=from_floats(np.array([[1.0, 0.5, 0.1, 1.0]])))
    advantage = estimate(name, batch, Options(cap="none")).advantage[0]
    expected = [0.25, 0.125, 0.25, -0.75] if name == "downweight" else [1 / 3, 1 / 6, 0.25, -0.75]
    assert advantage.tolist() == pytest.approx(expected)


def test_missing_input_is_refused() -> None:
    batch = replace(batch_of([1, 0]), process=None)
    with pytest.raises(ValueError, match="lacks an input"):
        papo(batch)


@st.composite
def groups(draw: st.DrawFn) -> Batch:
    """Passes and failures with everything that any method reads."""
    n_passed, n_failed = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    size = n_passed + n_failed
    assume(size > 1)

    def listed(values: st.SearchStrategy[Any], count: int) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    sixteenths = st.integers(0, 16).map(lambda number: number / 16)
    batch = batch_of(
        [1.0] * n_passed + [0.0] * n_failed,
        process=listed(sixteenths, size),
        standing=listed(st.integers(0, 3), n_passed) + [-1] * n_failed,
        errors=[None] * n_passed + listed(st.sampled_from("abc"), n_failed),
        well_formed=listed(st.booleans(), size),
    )
    factors = listed(st.sampled_from([1.0, 0.85, 0.4, 0.2]), n_passed) + [1.0] * n_failed
    return replace(batch, factors=from_floats(np.array([factors])))


def shuffled(batch: Batch, order: list[int]) -> Batch:
    chosen = {
        name: getattr(batch, name)[:, order]
        for name in (
            "rewards",
            "is_valid",
            "is_passed",
            "standing",
            "process",
            "is_well_formed",
            "error_class",
        )
    }
    return replace(batch, **chosen, factors=type(batch.factors)(*(part[:, order] for part in batch.factors)))


OPTIONS = [Options(), Options(scale="none"), Options(leave_one_out=True)]


@given(groups(), st.sampled_from(BATCH_METHODS), st.sampled_from(OPTIONS), st.randoms(use_true_random=False))
def test_shuffling_a_group_shuffles_its_result(
    batch: Batch, name: str, options: Options, random: Any
) -> None:
    order = list(range(batch.rewards.shape[1]))
    random.shuffle(order)
    straight = estimate(name, batch, options).advantage[0][order]
    assert estimate(name, shuffled(batch, order), options).advantage[0] == pytest.approx(straight, abs=1e-13)


SUMS_TO_ZERO = ["gagar", "gagar-reward", "dr-grpo", "grpo", "rloo", "recode", "papo", "ranking-reward"]


@given(groups(), st.sampled_from(SUMS_TO_ZERO), st.sampled_from(OPTIONS[:2]))
def test_advantages_sum_to_zero(batch: Batch, name: str, options: Options) -> None:
    made = estimate(name, batch, options)
    assert made.advantage.sum() == pytest.approx(0.0, abs=1e-9 if options.scale == "std" else 1e-13)
    centred = made.reward_equivalent - made.reward_equivalent.mean()
    assert centred == pytest.approx(made.advantage, abs=1e-9 if options.scale == "std" else 1e-13)


@given(groups(), st.sampled_from(["papo", "ranking-reward"]))
def test_mean_only_additions_keep_the_passes_total_and_the_failures(batch: Batch, name: str) -> None:
    made = estimate(name, batch, Options(scale="none"))
    is_passed = batch.is_passed
    assert made.advantage[is_passed].sum() == pytest.approx(made.base[is_passed].sum(), abs=1e-13)
    assert made.advantage[~is_passed] == pytest.approx(made.base[~is_passed], abs=1e-15)
    if is_passed.any() and not is_passed.all() and name == "papo":
        assert made.advantage[is_passed].min() > made.advantage[~is_passed].max() - 1e-12


@given(groups(), st.sampled_from(OPTIONS[:2]))
def test_edas_leaves_passes_alone_and_bounds_its_change(batch: Batch, options: Options) -> None:
    base = (dr_grpo if options.scale == "none" else grpo)(batch).advantage
    made = estimate("edas", batch, options).advantage
    assert made[batch.is_passed].tolist() == base[batch.is_passed].tolist()
    assert (np.abs(made - base) <= np.abs(base) / 2 + 1e-15).all()


@given(groups(), st.sampled_from(BATCH_METHODS))
def test_groups_of_a_batch_do_not_touch_each_other(batch: Batch, name: str) -> None:
    """The group twice, and between them its mirror: each is what it is alone."""
    order = list(range(batch.rewards.shape[1]))[::-1]
    parts = [batch, shuffled(batch, order), batch]
    names = [
        "rewards", "is_valid", "is_passed", "is_graded", "standing", "process", "is_well_formed", "error_class",
    ]  # fmt: skip
    together = Batch(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names},
        factors=type(batch.factors)(
            *(np.concatenate(same) for same in zip(*(p.factors for p in parts), strict=True))
        ),
    )
    alone = estimate(name, batch).advantage[0].tolist()
    made = estimate(name, together).advantage
    assert made[0].tolist() == alone
    assert made[2].tolist() == alone
