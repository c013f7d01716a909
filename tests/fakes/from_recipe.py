"""Train a recipe in as many processes as were started: `python from_recipe.py RECIPE`, with RANK and WORLD_SIZE set."""

import sys
from pathlib import Path

from agentgym.trainers import train
from agentgym.trainers.config.recipe_files import read_config

if __name__ == "__main__":
    train(read_config(Path(sys.argv[1])))
