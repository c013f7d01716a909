"""Models of this size are fastest on one thread, and tests run side by side."""

import torch

torch.set_num_threads(1)
