"""What is measured on a GPU, by cell: see `benchmarks/gpu.sh`."""
