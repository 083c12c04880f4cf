"""Where the code of a candidate may run, and nowhere else."""
