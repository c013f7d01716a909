"""The arm of the training benchmark that is TRL's GRPOTrainer, over its own loop of turns (`environment_factory`).

The environment's `step` is the tool `act`; a response template reads every reply as one call of it, since a model of random
weights would never write one. Everything else is TRL's: it renders prompts, generates turn by turn with `generate`,
calls the tools, scores, and updates once per generation.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
import trl
from train_arms import Setting, memory, summary, time_backward
from train_env import Clock, Errands

from agentgym.rollout.play import Job
from agentgym.trainers.model.policy import load_policy

ROWS = 8  # of a micro-batch: the fastest of 4, 8, 16 and 32, by a tenth

# What the policy's own template renders, and tool calls, which TRL wants to see in a template.
TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}{{ '<|act|>' + message['content'] }}"
    "{%- for call in message.get('tool_calls') or [] -%}"
    "{{ call['function']['name'] }}{{ call['function']['arguments'] | tojson }}"
    "{%- endfor -%}{{ '<|end|>' }}"
    "{%- else -%}{{ message['content'] }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|act|>' }}{%- endif -%}"
)
RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|act|>",
    "fields": {
        "tool_calls": {
            "open_pattern": r"(?=[\s\S])",
            "close_pattern": r"\Z",
            "repeats": True,
            "content": "text",
            "transform": {"type": "function", "function": {"name": "act", "arguments": {"action": "{content}"}}},
        },
        "content": {"close_pattern": r"\Z", "content": "text"},
    },
}


def environment(setting: Setting, seconds: dict[str, float]) -> type:
    """Return the class that TRL makes its environments of: the same tasks, seeds and commands as in the other arms."""

    class Errand:
        env: Errands

        def __init__(self) -> None:
            self.env = Errands(lengths=setting.lengths, horizon=max(setting.lengths), **setting.env)
            self.paid, self.resets = 0.0, 0

        def reset(self, number: int, **_: Any) -> str:
            started = time.perf_counter()
            task = self.env.numbered(number, "train")
            self.paid, self.over = 0.0, False
            job = Job(task, next(attempts), number // setting.tasks, task.id)
            observation, _info = self.env.reset(seed=job.env_seed, options={"task": task})
            seconds["env"] = seconds.get("env", 0.0) + time.perf_counter() - started
            return observation

        def act(self, action: str) -> str:
            """Carry out an action.

            Args:
                action: The action.
            """
            started = time.perf_counter()
            observation, reward, *_ = self.env.step(action)
            self.paid += reward
            seconds["env"] = seconds.get("env", 0.0) + time.perf_counter() - started
            return observation

        def get_reward(self) -> float:
            self.act("")  # TRL generates after every call: the last reply is carried out here
            return self.paid

    attempts = (attempt for _ in iter(int, 1) for attempt in range(setting.group))
    return Errand


class TimedTrainer(trl.GRPOTrainer):
    """GRPOTrainer that tells the clock what it took and how many tokens it computed."""

    clock: Clock
    prefilled: int = 0
    real: int = 0
    """Tokens of all rows, padding left out."""

    def _generate_single_turn(self, prompt_ids: Any, *arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        completions, logprobs = super()._generate_single_turn(prompt_ids, *arguments, **options)
        self.clock.engine += time.perf_counter() - started
        width = max(map(len, prompt_ids))
        self.clock.engine_steps += max(map(len, completions))
        self.clock.engine_rows += sum(map(len, completions))
        self.prefilled += width * len(prompt_ids)
        return completions, logprobs

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        loss = super().compute_loss(*arguments, **options)
        self.clock.forward += time.perf_counter() - started
        return loss

    def _get_per_token_logps_and_entropies(self, model: Any, ids: Any, mask: Any, *arguments: Any, **options: Any) -> Any:
        self.clock.positions += ids.numel()
        self.real += int(mask.sum())
        return super()._get_per_token_logps_and_entropies(model, ids, mask, *arguments, **options)


class Laps(transformers.TrainerCallback):
    """Starts the clock when the first step is done."""

    reset: Any
    """A function that sets what is counted to 0."""

    def __init__(self) -> None:
        self.walls: list[float] = []
        self.cpus: list[float] = []

    def on_step_end(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
        del arguments, control
        self.walls.append(time.perf_counter())
        self.cpus.append(time.process_time())
        if state.global_step == 1:
            self.reset()


def measure(folder: Path, setting: Setting, scratch: Path) -> dict[str, Any]:
    """Run one step to warm up and the setting's steps on the clock; return what they took."""
    warnings.filterwarnings("ignore")
    before = memory()
    (turns,) = setting.lengths
    model, tokenizer = load_policy(folder)
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, RESPONSE
    count = setting.tasks * (setting.steps + 1)
    rows = datasets.Dataset.from_dict({"prompt": [[{"role": "user", "content": ""}]] * count, "number": list(range(count))})
    seconds: dict[str, float] = {}
    laps, clock = Laps(), Clock()
    trainer = TimedTrainer(
        model,
        args=arguments(setting, turns, scratch),
        train_dataset=rows,
        processing_class=tokenizer,
        environment_factory=environment(setting, seconds),
        callbacks=[laps],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.clock = clock
    time_backward(trainer.accelerator, clock)

    def reset() -> None:
        seconds.clear()
        for name, value in vars(Clock()).items():
            setattr(clock, name, value)
        trainer.prefilled = trainer.real = 0

    laps.reset = reset
    trainer.train()
    return found(trainer, laps, setting, turns, seconds, before)


def found(
    trainer: TimedTrainer, laps: Laps, setting: Setting, turns: int, seconds: dict[str, float], before: float
) -> dict[str, Any]:
    """Return the measures of a finished training."""
    clock, wall, cpu = trainer.clock, laps.walls[-1] - laps.walls[0], laps.cpus[-1] - laps.cpus[0]
    episodes = setting.episodes * setting.steps
    sampled = clock.engine_rows
    if sampled != episodes * turns * setting.reply:
        raise SystemExit(f"TRL sampled {sampled} tokens; expected {episodes} x {turns} x {setting.reply}")
    shares = {"rollout": clock.engine, "forward": clock.forward, "backward": clock.backward}
    shares |= {"env": seconds["env"], "waiting": max(wall - cpu, 0.0)}
    ends = episodes * (turns - 1)  # the end of a reply cut by length, which TRL does not write
    row_tokens = trainer.real + ends
    processed = trainer.prefilled + sampled + clock.positions
    return summary(episodes, sampled, processed, wall, cpu, shares, before) | {
        "turns": episodes * turns,
        "prefilled": trainer.prefilled,
        "decoded": sampled,
        "positions": clock.positions,
        "row_tokens": row_tokens,
        "rows_per_engine_step": clock.engine_rows / clock.engine_steps,
    }


def arguments(setting: Setting, turns: int, scratch: Path) -> trl.GRPOConfig:
    """Return the settings: one update per generation of all episodes, in micro-batches, nothing else switched on."""
    return trl.GRPOConfig(
        output_dir=str(scratch),
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=setting.episodes // ROWS,
        num_generations=setting.group,
        max_completion_length=4000,
        max_tool_calling_iterations=turns - 1,
        generation_kwargs={"max_new_tokens": setting.reply, "min_new_tokens": setting.reply},
        temperature=1.0,
        beta=0.0,
        loss_type="dapo",
        max_steps=1 + setting.steps,
        shuffle_dataset=False,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
