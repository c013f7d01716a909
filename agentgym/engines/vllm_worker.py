"""What runs inside vLLM's worker processes: named to vLLM as `worker_extension_cls`."""

from typing import Any


class WeightReload:
    """Mixed into vLLM's worker class by vLLM itself."""

    def reload_from_folder(self, folder: str) -> None:
        """Reload weights in place, the tied head included.

        vLLM 0.32 prepares a head that shares the embedding's weights when the model is first loaded (on CPUs: packs a
        copy) and leaves it out of a reload, since no tensor of the folder bears its name.
        """
        worker: Any = self
        worker.reload_weights(weights_path=folder)
        head = getattr(worker.get_model(), "lm_head", None)
        method = getattr(head, "quant_method", None)
        if method is not None:
            method.process_weights_after_loading(head)
