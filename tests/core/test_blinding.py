from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.blinding import blind_ids, permute
from gagar_cli.core.schema import GroupKey

KEY = GroupKey(3, "task")
IDS = st.lists(st.text(min_size=1), unique=True, max_size=20)


@given(IDS, st.integers(0, 5))
def test_every_trajectory_gets_one_blind_id(ids: list[str], seed: int):
    names = blind_ids(ids, seed, KEY, prefix="c")
    assert sorted(names.values()) == sorted(ids)
    assert list(names) == [f"c{number:02d}" for number in range(1, len(ids) + 1)]


@given(IDS, st.randoms())
def test_the_order_does_not_depend_on_the_dump(ids: list[str], random):
    shuffled = random.sample(ids, len(ids))
    assert permute(ids, 0, KEY) == permute(shuffled, 0, KEY)


def test_seed_and_group_change_the_order():
    ids = [str(number) for number in range(12)]
    orders = {tuple(permute(ids, seed, GroupKey(None, name))) for seed in (0, 1) for name in ("a", "b")}
    assert len(orders) == 4
