import asyncio
import json

from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.probing import EndpointReport, probe

OVERVIEW = ("overview", {})
PATCHES = [("view_patch", {"candidate": "c01"}), ("view_patch", {"candidate": "c02"})]


def action(*calls: tuple[str, dict]) -> str:
    return json.dumps({"calls": [{"tool": name, "arguments": arguments} for name, arguments in calls]})


def look(endpoint, **settings) -> tuple[EndpointReport, dict[str, tuple[str, str]]]:
    values = {"backoff_seconds": 0.001, "call_seconds": 5.0, **settings}
    report = asyncio.run(probe(EndpointSettings("m", endpoint.base_url, **values)))
    return report, {one.check: (one.state, one.detail) for one in report.findings}


def test_what_an_able_endpoint_can_do_is_told(serve, chat):
    text = [chat(content=action(OVERVIEW)), chat(content=action(*PATCHES))]
    endpoint = serve(
        (
            400,
            {
                "error": {
                    "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
                }
            },
        ),
        chat(content="ready"),
        chat(OVERVIEW),
        chat(*PATCHES),
        *text,
        chat(content=action(OVERVIEW)),
        *text,
        chat(content="ready"),
    )
    report, found = look(endpoint)
    assert report.protocol == "tools"
    assert found["bound of a reply"][0] == "max_completion_tokens"
    assert found["parallel tool calls"] == ("yes", "2 in one reply")
    assert found["cached tokens reported"] == ("yes", "40 of 100 tokens of a second call")
    assert found["JSON schema"] == ("yes", "enforced")
    assert found["model list"][0] == "no"
    assert found["long prompt"][0] == "no"
    assert found["long prompt"][1].endswith("the prompt was cut without an error")


def test_an_endpoint_without_tools_or_usage_is_graded_with_by_schema(serve, chat):
    replies = [
        chat(content="ready"),
        (400, {"error": {"message": "this model does not support tools"}}),
        chat(content=action(OVERVIEW)),
        chat(content=action(*PATCHES)),
        chat(content="A hash map maps keys to values."),
        (400, {"error": {"message": "no"}}),
        (400, {"error": {"message": "maximum context length is 4096 tokens"}}),
    ]
    for reply in replies:
        if isinstance(reply, dict):
            del reply["usage"]
    report, found = look(serve(*replies))
    assert report.protocol == "json-schema"
    assert found["usage reported"][0] == "no"
    assert found["native tool calls"][0] == "no"
    assert found["JSON schema"] == ("yes", "followed when told, not enforced")
    assert found["JSON in text"][0] == "no"
    assert found["long prompt"][0] == "no"


def test_an_endpoint_that_takes_nothing_is_left_text(serve, chat):
    refusal = (400, {"error": {"message": "tools and response_format are not supported"}})
    report, found = look(serve(chat(content="ready"), *[refusal] * 3, chat(content="ready")))
    assert [found[name][0] for name in ("native tool calls", "JSON schema", "JSON in text")] == ["no"] * 3
    assert report.protocol == "text"


def test_a_wrong_key_is_told_and_nothing_more_is_asked(serve):
    endpoint = serve((401, {"error": {"message": "bad key"}}))
    report, found = look(endpoint)
    assert report.protocol is None
    assert (found["reachable"][0], found["authorised"][0]) == ("yes", "no")
    assert "--api-key-env" in found["authorised"][1]
    assert len(endpoint.requests) == 1


def test_nobody_listening_is_told():
    settings = EndpointSettings("m", "http://127.0.0.1:9/v1", backoff_seconds=0.001)
    report = asyncio.run(probe(settings))
    assert report.protocol is None
    assert "connection failed" in report.problem


def test_the_offline_model_passes():
    report = asyncio.run(probe(EndpointSettings("offline")))
    assert report.protocol == "tools"
    assert report.to_record()["checks"]["JSON in text"]["state"] == "yes"
