"""Files in and out: dumps, rankings, ledgers, result files."""
