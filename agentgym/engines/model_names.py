"""Checks of a model's name before anything is loaded. The name is that of a folder, a hub repository or an API's model.

An API's model (`chat:openai/NAME`) implies an address and the environment variable with the key.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import BadConfig

KEY = "AGENTGYM_API_KEY"
"""Environment variable with the API key for a server given by its address."""
SECONDS = 10.0
"""Timeout in seconds for a request to the hub; the library that loads models would retry for almost a minute."""


def check_model(name: str) -> None:
    """Check that `name` is an existing folder, or a model on the hub or in its local cache.

    A name that looks like a path is not looked up on the hub. Without the package huggingface_hub, hub names are not
    checked.

    Raises:
        BadConfig: the model does not exist, or the hub cannot be reached.
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
        return  # the engine reports the missing extra
    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return
        HfApi().model_info(name, timeout=SECONDS)
    except (HFValidationError, RepositoryNotFoundError):
        raise BadConfig(f"no folder {name!r} here, and the hub has no model of that name") from None
    except Exception as error:  # errors of the hub client's HTTP library
        reason = str(error).strip().split("\n")[0][:200]
        raise BadConfig(
            f"no folder {name!r} here, and the hub cannot be reached for a model of that name ({reason}). "
            "Pass the path of a folder, or download the model on a machine with a connection"
        ) from None


def is_path(name: str) -> bool:
    """Return True if a name is a path, rather than a hub name (NAME or OWNER/NAME).

    A name OWNER/NAME is a path if OWNER is `runs` or an existing folder.
    """
    first = name.split("/")[0]
    return (
        name.startswith(("/", ".", "~"))
        or "\\" in name
        or name.count("/") != name.strip("/").count("/")
        or ("/" in name and (name.count("/") > 1 or first == "runs" or Path(first).is_dir()))
    )


@dataclass(frozen=True, slots=True)
class Provider:
    """An API provider such as OpenAI: its address, and the environment variable with the key."""

    address: str
    key_env: str
    address_env: str
    """Environment variable that overrides the address; the provider's own packages use it too."""
    limit: str = "max_tokens"
    """Request parameter of this provider for the maximum tokens of a reply."""

    @property
    def url(self) -> str:
        """Address of the API, taken from the variable `address_env` if that is set."""
        return os.environ.get(self.address_env, "").strip() or self.address


ANTHROPIC = "anthropic"
PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL", "max_completion_tokens"),
    ANTHROPIC: Provider("https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY", "TOGETHER_BASE_URL"),
}


def provider_of(target: str) -> tuple[Provider, str] | None:
    """Return the provider and the model of `PROVIDER/NAME`; None if the target is an address.

    Raises:
        BadConfig: the target is neither an address nor PROVIDER/NAME with a known provider.
    """
    if target.startswith(("http://", "https://")):
        return None
    name, _, model = target.partition("/")
    if name not in PROVIDERS or not model:
        raise BadConfig(
            f"chat:{target} names no server; expected chat:URL#MODEL with an address such as http://localhost:8000/v1, or "
            f"{', '.join(f'chat:{known}/NAME' for known in PROVIDERS)}"
        )
    return PROVIDERS[name], model


def as_chat(name: str) -> str:
    """Return a hint for errors about an unknown model: how to name a model that is served by an API."""
    if name.startswith(("http://", "https://")):
        return f"A server's model is chat:{name}{'' if '#' in name else '#MODEL'}"
    kind, _, model = name.partition(":")
    if model and kind in PROVIDERS:
        return f"A model of its API is chat:{kind}/{model}"
    if name.partition("/")[0] in PROVIDERS:
        return f"A model of its API is chat:{name}"
    forms = ", ".join(f"chat:{known}/{model or name}" for known in PROVIDERS)
    return f"A model behind an API is {forms}, or chat:URL#MODEL"
