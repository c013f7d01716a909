"""What judging a program takes, in Code as in SWE: values that cross a border, and what runs there."""
