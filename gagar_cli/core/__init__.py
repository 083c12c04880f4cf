"""Pure: values in, values out. No files, network, subprocess, clock, environment or global randomness."""
