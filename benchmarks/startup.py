"""Start-up: `gagar --help` against `python -c "import typer"`, run in turn; ratios of medians and pair by pair.

Absolute times depend on the machine and its neighbours; the ratio is what the design bounds (at most 2). A command that
does something cannot start sooner than what it is made of: tables are polars' and numpy's. Typer has pydantic check each
value, but for those that are plainly right.
"""

import os
import statistics
import subprocess
import sys
import time

RUNS = 21
COMMANDS = {
    "gagar --help": [sys.executable, "-m", "gagar_cli", "--help"],
    "gagar --version": [sys.executable, "-m", "gagar_cli", "--version"],
    "gagar tiers": [sys.executable, "-m", "gagar_cli", "tiers", "--json"],
    "import typer": [sys.executable, "-c", "import typer"],
    "typer, pydantic": [sys.executable, "-c", "import typer, pydantic"],
    "typer, numpy, polars": [sys.executable, "-c", "import typer, numpy, polars"],
    "pass": [sys.executable, "-c", "pass"],
}
# What is installed has its bytecode; without, a command compiles a hundred modules each time.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(argv: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for argv in COMMANDS.values():
        measure(argv)
    for _ in range(RUNS):
        for name, argv in COMMANDS.items():
            times[name].append(measure(argv))
    base = times["import typer"]
    print(f"{'command':20} {'median ms':>10} {'ratio to import typer (min / median / max of pairs)':>50}")
    for name, values in times.items():
        ratios = sorted(value / other for value, other in zip(values, base, strict=True))
        spread = f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}"
        print(f"{name:20} {statistics.median(values):10.1f} {spread:>50}")


if __name__ == "__main__":
    main()
