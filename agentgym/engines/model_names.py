"""Whether the name of a model stands for a folder or for a repository of the hub, decided before anything is loaded."""

from pathlib import Path

from agentgym.errors import BadConfig

SECONDS = 10.0
"""That the hub has to answer; the library that loads models asks again for the better part of a minute."""


def check_model(name: str) -> None:
    """Raise BadConfig unless `name` is a folder that is there, or a model that the hub or its cache here has.

    What looks like a path is never looked for on the hub.
    """
    if Path(name).expanduser().exists():
        return
    if is_path(name):
        raise BadConfig(
            f"no folder {name!r}. Expected the folder of a model or of a training run, or the name of a model on the hub"
        )
    try:
        from huggingface_hub import HfApi, try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
    except ImportError:
        return  # the engine says which extra it wants
    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return
        HfApi().model_info(name, timeout=SECONDS)
    except (HFValidationError, RepositoryNotFoundError):
        raise BadConfig(f"no folder {name!r} here, and the hub has no model of that name") from None
    except Exception as error:  # of whichever HTTP library the hub's client uses
        said = str(error).strip().split("\n")[0][:200]
        raise BadConfig(
            f"no folder {name!r} here, and the hub cannot be reached for a model of that name ({said}). "
            "Pass the path of a folder, or download the model on a machine with a connection"
        ) from None


def is_path(name: str) -> bool:
    """Whether a name can only be meant as a path: names of the hub are NAME or OWNER/NAME."""
    first = name.split("/")[0]
    return (
        name.startswith(("/", ".", "~"))
        or "\\" in name
        or name.count("/") != name.strip("/").count("/")
        or ("/" in name and (name.count("/") > 1 or first == "runs" or Path(first).is_dir()))
    )
