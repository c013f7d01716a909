"""A package, so that pytest keeps this folder off the path: its folders are named like packages that tests look for."""
