"""Environment and checkers for rows of BFCL (Berkeley Function-Calling Leaderboard), versions 3 and 4."""
