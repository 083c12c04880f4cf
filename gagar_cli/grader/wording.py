"""Every fixed text of a conversation that is neither a Markdown prompt nor a tool's schema.

How it is opened, how tools are explained where an endpoint has no native calls, what is said when the model is asked
again, and what stands in place of what is left out. All of it is part of `prompt_version`, by being here. What a tool
shows, and what a check finds wrong with a call or a submission, is told where it is found out.
"""

from gagar_cli.grader.tool_schemas import SUBMIT

RANK_ALL = (
    "Rank the {n_candidates} passing attempts ({first} to {last}); {n_references} failing attempts are there as "
    "context. Start with `overview`."
)
JUDGE_ONE = "Judge the attempt {name}. Start with `overview`."
GUESS = (
    "The ranking is settled and will not change. Last question: the attempts were written by different policies. "
    "Say for each candidate which of them you think wrote it; where you cannot tell, guess. "
    f"Answer with one call of {SUBMIT}."
)

MANUAL = """

# Tools and replies

You call tools by writing JSON. Every reply is exactly one object of this form and nothing else:

{"calls": [{"tool": "NAME", "arguments": {…}}, …]}

The results come back in the next message, each under a line `[result NUMBER NAME ARGUMENTS]`. The tools, each with the
JSON schema of its arguments:
"""
MANUAL_TOOL = "- `{name}`: {description} Arguments: {arguments}"
RESULT = "[result {number} {heading}]\n{content}"
NOTHING_SAID = "(nothing)"
"""In place of an empty reply."""

ASK_AGAIN = "{what}. {how}; end with " + SUBMIT + "."
WAS_CUT_OFF = "your reply was cut off at its largest length; {told}"
CALL_A_TOOL = "Call a tool"
WRITE_A_CALL = 'Reply with {"calls": […]} that calls a tool'
NO_CALL = "the reply calls no tool"
NO_ACTION = "the reply holds no JSON object with `calls`"
BROKEN_ACTION = "the JSON of the reply is not valid: {why}"
BROKEN_TAGGED = "the JSON of a <tool_call> is not valid: {why}"
NO_CALLS = "`calls` is empty"
NO_CALL_OBJECT = "a call must be an object with `tool` and `arguments`"
NO_CALL_NAME = "a call must name one `tool`"
TWO_ARGUMENTS = "a call must have its `arguments` once"
NO_ARGUMENTS = "error: the arguments are not a JSON object: {given}"
TOO_MANY_CALLS = "error: at most {n} calls in one reply"
FEW_LEFT = "{replies} left: call " + SUBMIT + " now"

ACCEPTED = "accepted"
NOT_RUN = "not run: a ranking was accepted in the same reply"
NOT_ACCEPTED = "error: not accepted, submit again:\n{what}"
PROVE = "prove each with a finding, or withdraw it"

LEFT_OUT = "[left out to save room: "
RESULT_LEFT_OUT = LEFT_OUT + "{n} characters; to see them again: {call}]"
OUTPUT_LEFT_OUT = LEFT_OUT + "{head}; its output: {call}]"
SAME_CALL = "the same call"


def all_texts() -> dict[str, str]:
    """The texts by name."""
    return {name: text for name, text in globals().items() if name.isupper() and isinstance(text, str)}
