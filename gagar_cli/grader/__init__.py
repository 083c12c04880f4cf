"""The grading of one group: workspace, tools, conversation, endpoint."""
