"""The plan of a dump is that of going through its records one by one."""

import json
from random import Random

import pytest

from gagar_cli.core.conditions import parse_condition
from gagar_cli.grading_plan import plan_groups
from gagar_cli.io.dump import open_dump
from gagar_cli.io.read_options import ReadOptions


def records(seed: int, *, has_segments: bool) -> list[dict]:
    random = Random(seed)
    made = []
    for group in range(12):
        for number in range(random.randint(1, 12)):
            one = {"group_id": f"g{group}", "trajectory_id": f"t{number}", "step": group % 3}
            one |= {"reward": float(random.random() < 0.5), "infra_failure": random.random() < 0.15}
            one["kind"] = random.choice(["a", "b"])
            segments = range(random.choice([1, 3])) if has_segments else ()
            made += [{**one, "segment": segment} for segment in segments] or [one]
    random.shuffle(made)
    return made


def planned_by_hand(lines: list[dict], kinds: str) -> tuple[list, list]:
    """Jobs with their rows, and skipped groups, in the order of the dump."""
    first = {}
    for row, one in enumerate(lines):
        first.setdefault((one["step"], one["group_id"], one["trajectory_id"]), (row, one))
    groups = {key: [] for key in dict.fromkeys(key[:2] for key in first)}
    for key, found in first.items():
        groups[key[:2]].append(found)
    jobs, skipped = [], []
    for key, members in groups.items():
        valid = [(row, one) for row, one in members if not one["infra_failure"]]
        passing = [one for _, one in valid if one["reward"] == 1]
        n_candidates = sum(one["kind"] in kinds for one in passing)
        if n_candidates > 1 and len(passing) < len(valid):
            rows = [row for row, one in valid if one["reward"] < 1 or one["kind"] in kinds]
            jobs.append((key, rows))
        else:
            skipped.append(key)
    return jobs, skipped


@pytest.mark.parametrize("max_ids_in_memory", [10**9, 0], ids=["in memory", "apart"])
@pytest.mark.parametrize("kinds", ["ab", "a"])
@pytest.mark.parametrize("has_segments", [False, True], ids=["whole", "segments"])
@pytest.mark.parametrize("seed", range(4))
def test_jobs_are_the_eligible_groups_with_their_rows(tmp_path, seed, has_segments, kinds, max_ids_in_memory):
    lines = records(seed, has_segments=has_segments)
    path = tmp_path / "dump.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    condition = parse_condition('kind == "a"', "--eligible") if kinds == "a" else None
    options = ReadOptions(max_ids_in_memory=max_ids_in_memory, extras=("kind",))
    with open_dump([str(path)], options) as dump:
        plan = plan_groups(dump, condition=condition)
    jobs, skipped = planned_by_hand(lines, kinds)
    assert [(tuple(job.key), list(job.rows)) for job in plan.jobs] == jobs
    assert jobs, "nothing to compare"
    assert [tuple(ranking.key) for ranking in plan.skipped] == skipped
    n_all = len({(one["step"], one["group_id"], one["trajectory_id"]) for one in lines})
    assert (plan.n_groups, plan.n_trajectories) == (12, n_all)


def test_rows_side_by_side_are_a_range(tmp_path):
    """Tuples of the rows of millions of groups take more memory than the index."""
    lines = [
        {"group_id": group, "trajectory_id": str(number), "reward": float(number % 2)}
        for group in "gh"
        for number in range(4)
    ]
    path = tmp_path / "dump.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    with open_dump([str(path)], ReadOptions()) as dump:
        assert [job.rows for job in plan_groups(dump).jobs] == [range(4), range(4, 8)]
