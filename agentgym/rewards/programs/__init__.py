"""Program grading, for Code and SWE: values that cross the sandbox border, and the code that runs inside."""
