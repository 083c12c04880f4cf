import hashlib

import pytest

from gagar_cli.core.schema import GroupKey
from gagar_cli.core.sharding import Shard, parse_shard
from gagar_cli.errors import UsageError

KEYS = [GroupKey(step, f"task-{number}") for step in (None, 0, 7) for number in range(200)]


@pytest.mark.parametrize("n_shards", [1, 2, 3, 16])
def test_every_group_is_in_exactly_one_shard(n_shards):
    holders = [sum(Shard(number, n_shards).holds(key) for number in range(1, n_shards + 1)) for key in KEYS]
    assert holders == [1] * len(KEYS)


def test_the_division_is_the_documented_digest_whatever_the_machine():
    digest = hashlib.sha256('[7,"t\\u00e4sk"]'.encode("ascii")).digest()
    number = int.from_bytes(digest[:8], "big") % 5 + 1
    assert Shard(number, 5).holds(GroupKey(7, "täsk"))


def test_shards_are_of_about_one_size():
    sizes = [sum(Shard(number, 4).holds(key) for key in KEYS) for number in range(1, 5)]
    assert min(sizes) > 110
    assert max(sizes) < 190


@pytest.mark.parametrize("text", ["", "1", "1/", "a/b", "0/4", "5/4", "1/0", "-1/2", "1/2/3", "1/999999"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(UsageError, match="--shard is"):
        parse_shard(text)


def test_a_shard_is_read():
    assert parse_shard("3/8") == Shard(3, 8)
