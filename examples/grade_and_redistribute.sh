#!/bin/sh
# Grade the demo dump with the offline model and print one line an attempt with its new advantage.
set -eu
demo_data=$(python3 -c 'from importlib.resources import files; print(files("gagar_cli") / "demo_data")')
dump=$demo_data/demo-rollouts.jsonl

gagar grade "$dump" --model offline --repos "$demo_data/repositories" -o - |
    gagar redistribute "$dump" --rankings - -o -
