import pytest

from gagar_cli.sandbox.versions import engine_problem, needs_own_filter, read_engine_facts, runc_problem

DOCKER = {
    "Version": "20.10.24+dfsg1",
    "KernelVersion": "6.1.0",
    "Components": [{"Name": "Engine", "Version": "20.10.24"}, {"Name": "runc", "Version": "1.1.5+ds1"}],
}
INFO = {"Runtimes": {"runc": {}, "runsc": {}}, "DefaultRuntime": "runc"}


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1.0.0", "CVE-2024-21626"),
        ("1.1.5+ds1", "CVE-2024-21626"),
        ("1.1.12", "CVE-2025-31133"),
        ("1.2.7", "CVE-2025-31133"),
        ("1.3.0-rc.1", "CVE-2025-31133"),
        ("1.3.2", "CVE-2025-31133"),
        ("1.4.0-rc.2", "CVE-2025-31133"),
        ("homemade", "cannot be read"),
    ],
)
def test_a_runc_with_a_known_hole_is_told(version, told):
    assert told in runc_problem(version)


@pytest.mark.parametrize("version", ["1.2.8", "v1.2.9", "1.3.3", "1.3.4+ds1", "1.4.0", "2.0"])
def test_a_mended_runc_is_not(version):
    assert runc_problem(version) is None


def test_facts_are_read_off_the_answers_of_an_engine():
    facts = read_engine_facts(DOCKER, INFO)
    assert (facts.engine, facts.major, facts.runc) == ("docker 20.10.24+dfsg1", 20, "1.1.5+ds1")
    assert (facts.runtimes, facts.default_runtime, facts.is_podman) == (("runc", "runsc"), "runc", False)
    assert "io_uring" in engine_problem(facts)


def test_an_engine_of_25_has_a_good_filter():
    assert engine_problem(read_engine_facts({**DOCKER, "Version": "25.0.1"}, INFO)) is None


def test_podman_is_told_from_docker():
    version = {
        "Version": "4.3.1",
        "Components": [
            {"Name": "Podman Engine", "Version": "4.3.1"},
            {"Name": "OCI Runtime (runc)", "Version": "runc version 1.1.5+ds1\ncommit: 1.1.5"},
        ],
    }
    facts = read_engine_facts(version, {})
    assert (facts.engine, facts.is_podman, facts.runtimes) == ("podman 4.3.1", True, ())
    assert facts.runc == "1.1.5+ds1"
    assert engine_problem(facts) is None


def test_an_engine_that_says_nothing_is_no_accident():
    facts = read_engine_facts({}, {})
    assert (facts.major, facts.runc, facts.kernel) == (None, None, "unknown")


@pytest.mark.parametrize(
    ("version", "is_needed"),
    [("20.10.24+dfsg1", True), ("24.0.9", True), ("25.0.0", False), ("28.2.2", False), ("unknown", True)],
)
def test_the_filter_of_an_old_engine_is_replaced(version, is_needed):
    assert needs_own_filter(read_engine_facts({"Version": version}, INFO)) == is_needed
