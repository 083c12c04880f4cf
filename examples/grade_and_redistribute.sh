#!/bin/sh
# Grade the dump that `gagar demo` left in a folder with the offline model, and print one line an attempt with its new advantage.
set -eu
cd "${1:-demo-output}"
gagar grade rollouts.jsonl --model offline --repos repos/ -o - |
    gagar redistribute rollouts.jsonl --rankings - -o -
