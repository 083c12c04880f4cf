"""Groupwise agentic grading and advantage redistribution for the rollouts of code agents."""

__version__ = "0.1.0"
