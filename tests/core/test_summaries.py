"""What all summaries share."""

from gagar_cli.core.summaries import SCHEMA_VERSION, by_start, renamed, versioned


def test_the_number_of_the_schema_stands_first():
    assert list(versioned({"b": 1, "a": 2})) == ["schema_version", "b", "a"]
    assert versioned({})["schema_version"] == SCHEMA_VERSION == 1


def test_renamed_keys_keep_their_place_and_others_their_name():
    assert list(renamed({"c": 1, "a": 2, "b": 3}, {"a": "x"}).items()) == [("c", 1), ("x", 2), ("b", 3)]


def test_reasons_that_differ_behind_the_colon_are_one_the_most_frequent_first():
    found = by_start({"late": 2, "endpoint: 503": 1, "endpoint: a: b": 2})
    assert list(found.items()) == [("endpoint", 3), ("late", 2)]
