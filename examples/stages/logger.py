"""A logger: agentgym train household --loggers examples.stages.logger:Table --logger.column entropy."""

import agentgym


@agentgym.logger("table")
class Table:
    """Writes one number of every step to a file, as comma-separated values."""

    def __init__(self, folder, config, *, column="reward"):
        self.column, self.file = column, (folder / "table.csv").open("a")

    def log(self, position, row):
        """Write a line."""
        self.file.write(f"{position},{row.get(self.column, '')}\n")

    def close(self):
        """Close the file."""
        self.file.close()
