"""The package's rewards: what a run may pay beside the environment's own, one file each."""
