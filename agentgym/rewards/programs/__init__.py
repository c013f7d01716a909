"""Program grading, for Code and SWE: the values that enter and leave a sandbox, and the code that runs in it."""
