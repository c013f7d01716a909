"""Third-party agents: functions that call a base URL, and programs that run in the task's sandbox."""
