"""A log of the maker's verdicts in a file next to its output, so that an interrupted run can resume."""

import json
from collections.abc import Mapping
from pathlib import Path


class Journal:
    """Verdicts by candidate key, each written immediately. An existing file with other settings is overwritten."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self.path = path
        self.verdicts: dict[str, dict[str, object]] = {}
        head = json.dumps(settings, sort_keys=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines[:1] == [head]:
            for line in lines[1:]:
                try:
                    entry = json.loads(line)
                except ValueError:  # an incomplete line from an interruption
                    continue
                self.verdicts[entry["key"]] = entry
        self._file = path.open("w", encoding="utf-8")
        self._file.write(head + "\n")
        for entry in self.verdicts.values():
            self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def keep(self, key: str, verdict: Mapping[str, object]) -> None:
        """Append the verdict on the candidate with this key."""
        self.verdicts[key] = {"key": key, **verdict}
        self._file.write(json.dumps(self.verdicts[key]) + "\n")
        self._file.flush()

    def close(self, *, done: bool) -> None:
        """Close the file; if the run is complete (`done`), remove it."""
        self._file.close()
        if done:
            self.path.unlink()
