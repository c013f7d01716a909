#!/bin/sh
# transformers takes a registered attention function for a kernel of the hub when its name contains "flash".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.19.0
cat >"$folder/probe.py" <<'PROBE'
import sys
from importlib.metadata import version

import torch
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2
)


def outcome(name):
    AttentionInterface.register(name, sdpa_attention_forward)
    model = LlamaForCausalLM(config)
    try:
        model.set_attn_implementation(name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return tuple(model(torch.tensor([[1, 2, 3]])).logits.shape)


print("transformers", version("transformers"))
print("expected: both registered functions are used; a name is only a name")
seen = {name: outcome(name) for name in ("my-varlen", "my-flash")}
for name, what in seen.items():
    print(f"seen: {name}:", str(what)[:300])
sys.exit(not (seen["my-varlen"] == (1, 3, 32) and str(seen["my-flash"]).startswith("ValueError: Could not find")))
PROBE
"$folder/venv/bin/python" "$folder/probe.py"
