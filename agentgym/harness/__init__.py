"""Third-party agents: functions that call a base URL, and programs (harnesses) that run in the task's sandbox."""
