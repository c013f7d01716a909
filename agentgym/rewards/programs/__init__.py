"""Judging programs, in Code and SWE: values that cross the sandbox border, and what runs inside."""
