"""The job of `benchmarks/grade.py` for inspect_ai: the same endpoint, ten calls a sample, tools in the same process.

Run by `grade.py --inspect PYTHON` with an interpreter that has inspect_ai and openai; it is no dependency of gagar.
"""

import sys
import tempfile

from inspect_ai import Task, eval  # noqa: A004 - the library's name
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, execute_tools, get_model
from inspect_ai.solver import Generate, TaskState, solver
from inspect_ai.tool import Tool, tool

PAGE = "a line of a tool's answer\n" * 100


def page_tool(name: str) -> Tool:
    @tool(name=name)
    def made() -> Tool:
        async def execute(
            candidate: str = "",  # noqa: ARG001 - the schema of the tool
            candidates: list[str] | None = None,  # noqa: ARG001
            turns: list[int] | None = None,  # noqa: ARG001
        ) -> str:
            """Show a page.

            Args:
                candidate: one of them
                candidates: some of them
                turns: of its turns
            """
            return PAGE

        return execute

    return made()


@tool(name="submit_ranking")
def submit() -> Tool:
    async def execute(candidates: list[dict[str, object]]) -> str:  # noqa: ARG001 - the tool's schema
        """Submit the ranking.

        Args:
            candidates: all of them
        """
        return "accepted"

    return execute


@solver
def converse():
    names = ("overview", "view_patch", "compare_patches", "list_turns", "view_turns", "view_test_output")
    tools = [*map(page_tool, names), submit()]

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - the library's signature
        state.messages.insert(0, ChatMessageSystem(content="x" * 6000))
        for _ in range(10):
            state.output = await get_model().generate(state.messages, tools=tools)
            state.messages.append(state.output.message)
            done = await execute_tools(state.messages, tools)
            state.messages.extend(done.messages)
        return state

    return solve


if __name__ == "__main__":
    n_groups, url, concurrency = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    task = Task(dataset=[Sample(input=f"group {number}") for number in range(n_groups)], solver=converse())
    with tempfile.TemporaryDirectory() as folder:
        model = get_model("openai/mock", base_url=url, api_key="none", responses_api=False)
        logs = eval(task, model=model, max_connections=concurrency, log_dir=folder, display="none")
        sys.exit(0 if logs[0].status == "success" else 1)
