"""The offline model: a rule-based grader behind the chat-completions protocol. Not a language model."""
