"""What is measured on a GPU, by phase: see `benchmarks/gpu.sh`."""
