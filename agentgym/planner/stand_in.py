"""Substitute for a model's tokenizer in plans: trained on an environment's text, with tokens of similar length."""

# tokenizers and transformers are typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable, Sequence
from itertools import chain

from transformers import PreTrainedTokenizerFast

from agentgym import registry
from agentgym.core.env import Task
from agentgym.core.play import episode_text
from agentgym.trainers.model.policy import trained_bpe

VOCABULARY = 6000
EPISODES = 12
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
"""Pre-tokenization of Qwen2.5 and similar models: words, single digits, punctuation, line breaks."""
TEMPLATE = (
    "{%- if messages[0]['role'] == 'system' -%}{%- set said = messages[0]['content'] -%}{%- else -%}"
    "{%- set said = 'You are a helpful assistant.' -%}{%- endif -%}"
    "{{- '<|im_start|>system\\n' + said -}}"
    "{%- if tools -%}{{- '\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n"
    "You are provided with function signatures within <tools></tools> XML tags:\\n<tools>' -}}"
    "{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}"
    "{{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}'
    "\\n</tool_call>' -}}{%- endif -%}{{- '<|im_end|>\\n' -}}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'tool' -%}"
    "{%- if loop.index0 == 0 or messages[loop.index0 - 1]['role'] != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}"
    "{{- '\\n<tool_response>\\n' + message['content'] + '\\n</tool_response>' -}}"
    "{%- if loop.last or messages[loop.index0 + 1]['role'] != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}"
    "{%- elif message['role'] != 'system' or not loop.first -%}"
    "{{- '<|im_start|>' + message['role'] -}}"
    "{%- if message['content'] or not message['tool_calls'] -%}{{- '\\n' + message['content'] -}}{%- endif -%}"
    "{%- for call in message['tool_calls'] or [] -%}"
    "{{- '\\n<tool_call>\\n{\"name\": \"' + call['function']['name'] + '\", \"arguments\": ' -}}"
    "{{- call['function']['arguments'] | tojson -}}{{- '}\\n</tool_call>' -}}{%- endfor -%}"
    "{{- '<|im_end|>\\n' -}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""A chat template that renders like Qwen2.5's, tools included."""


def stand_in(envs: Sequence[tuple[str, dict[str, object]]], seed: int) -> PreTrainedTokenizerFast:
    """Return a chat tokenizer whose tokens are words that the environments (id and options) print."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    tokenizer = trained_bpe(
        chain.from_iterable(printed(env, options, seed) for env, options in envs), SPLIT, VOCABULARY, special
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def printed(env: str, options: dict[str, object], seed: int) -> Iterable[str]:
    """Yield the texts of a few episodes: first observation, instruction, and the turns of the expert if there is one."""
    env_made = registry.make(env, **options)
    for number in range(EPISODES):
        text = episode_text(env_made, lambda _, __: next(iter(env_made.expert()), None), env_made.reset(seed=seed + number))
        yield next(text)
        yield from _prompts(env_made.task)
        try:
            yield from text
        except NotImplementedError:
            return


def _prompts(task: Task) -> Iterable[str]:
    yield task.instruction
