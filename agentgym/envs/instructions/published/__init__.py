"""IFEval and IFBench: prompts with instructions that a program checks on one reply."""
