"""What the client learns of an endpoint from its answers."""

import asyncio

import pytest

from gagar_cli.errors import ContextOverflowError, EndpointError
from gagar_cli.grader.client import CHARS_PER_TOKEN, EndpointClient, EndpointSettings, Reply
from gagar_cli.grader.refusals import MAX_RETRY_AFTER_SECONDS, retry_after_seconds

MESSAGES = [{"role": "user", "content": "hello"}]


class Asker:
    """Calls of one client, one after the other."""

    def __init__(self, endpoint, **settings) -> None:
        self._settings = EndpointSettings(
            "m", endpoint.base_url, **{"backoff_seconds": 0.001, "max_attempts": 3, **settings}
        )

    def ask(self, n: int = 1, messages=MESSAGES) -> list[Reply]:
        async def run() -> list[Reply]:
            self.client = EndpointClient(self._settings)
            try:
                return [await self.client.complete(messages, []) for _ in range(n)]
            finally:
                await self.client.close()

        return asyncio.run(run())


CAP_REFUSALS = [
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "max_tokens: Extra inputs are not permitted",
]


@pytest.mark.parametrize("words", CAP_REFUSALS)
def test_the_bound_of_a_reply_is_respelt_once_and_remembered(serve, chat, words):
    endpoint = serve((400, {"error": {"message": words}}), chat(content="a"), chat(content="b"))
    Asker(endpoint, max_output_tokens=50).ask(2)
    sent = [
        {name: value for name, value in request.items() if name.startswith("max_")}
        for request in endpoint.requests
    ]
    assert sent == [{"max_tokens": 50}, {"max_completion_tokens": 50}, {"max_completion_tokens": 50}]


def test_an_endpoint_that_takes_no_bound_is_asked_without_one(serve, chat):
    refusal = (400, {"error": {"message": CAP_REFUSALS[0]}})
    endpoint = serve(refusal, refusal, chat(content="a"))
    asker = Asker(endpoint, max_output_tokens=50)
    asker.ask()
    assert set(endpoint.requests[2]) == {"model", "messages"}
    assert asker.client.notes == ["the endpoint takes no bound of a reply: `--max-output-tokens` is not sent"]


def test_a_bound_that_was_not_sent_is_not_respelt(serve):
    with pytest.raises(EndpointError, match="refused"):
        Asker(serve((400, {"error": {"message": CAP_REFUSALS[0]}}))).ask()


OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Input length 9000 exceeds maximum allowed length 8192",
    "litellm.ContextWindowExceededError: context window exceeded",
    '{"code": "context_length_exceeded"}',
    "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 8192",
    "Please reduce the length of the messages",
    "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096",
    "The prompt has 5000 tokens, which exceeds max_model_len of 4096",
    "The number of tokens in the prompt (5000) exceeds the limit (4096)",
    "Token limit exceeded",
    "Total message token length exceed model limit",
    "Range of input length should be [1, 30720]",
]


@pytest.mark.parametrize("words", OVERFLOWS, ids=range(len(OVERFLOWS)))
def test_an_overflow_is_told_apart_in_its_many_words(serve, words):
    endpoint = serve((400, {"error": {"message": words}}))
    with pytest.raises(ContextOverflowError):
        Asker(endpoint, max_output_tokens=5).ask()
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("words", ["request entity too large", "Payload Too Large", "no"])
def test_a_request_that_is_too_large_is_an_overflow_whatever_the_words(serve, words):
    with pytest.raises(ContextOverflowError):
        Asker(serve((413, {"error": {"message": words}}))).ask()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "The response was filtered due to the prompt triggering our content management policy"),
        (400, '{"code": "content_filter"}'),
        (403, "this model requires moderation and your input was flagged"),
    ],
)
def test_what_a_service_says_of_the_content_is_this_groups_trouble_alone(serve, status, words):
    """An attempt could have been written to be refused: neither the run nor its count of refusals is to suffer."""
    endpoint = serve((status, {"error": {"message": words}}))
    with pytest.raises(EndpointError, match=f"refused the content \\(status {status}") as caught:
        Asker(endpoint).ask()
    assert not caught.value.is_fatal
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "words",
    [
        "temperature must be at most 2",
        "unknown field safety_settings",
        "no field max_seq_len",
        "the tool c01 is unknown to me",
        "no",
    ],
)
def test_other_refusals_are_what_they_are(serve, words):
    with pytest.raises(EndpointError, match="refused") as caught:
        Asker(serve((400, {"error": {"message": words}}))).ask()
    assert type(caught.value) is EndpointError


def test_tokens_are_reckoned_where_none_are_reported(serve, chat):
    body = chat(content="x" * 700)
    del body["usage"]
    (reply,) = Asker(serve(body)).ask(messages=[{"role": "user", "content": "y" * 7_000}])
    assert reply.is_estimated
    assert 7_000 / CHARS_PER_TOKEN <= reply.n_input_tokens < 7_200 / CHARS_PER_TOKEN
    assert reply.n_output_tokens == 201


def test_reported_tokens_are_no_estimate(serve, chat):
    (reply,) = Asker(serve(chat(content="x"))).ask()
    assert (reply.is_estimated, reply.n_input_tokens) == (False, 100)


@pytest.mark.parametrize(("asked", "kept"), [("3", 3.0), ("86400", MAX_RETRY_AFTER_SECONDS), ("-1", 0.0)])
def test_the_wait_that_is_asked_for_has_a_cap(asked, kept):
    import httpx2

    assert retry_after_seconds(httpx2.Response(429, headers={"retry-after": asked})) == kept


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "nan"}, None),
    ],
    ids=["both", "one that is no number", "none that is one"],
)
def test_milliseconds_go_before_seconds(headers, kept):
    import httpx2

    assert retry_after_seconds(httpx2.Response(503, headers=headers)) == kept
