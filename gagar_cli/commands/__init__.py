"""One thin module a command: parse, call the use case, print the result, exit."""
