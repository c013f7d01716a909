"""Attempts of browser-use at browsers that run already: a line of JSON for each, answered by a line of JSON.

browser-use is imported once; every attempt is a fork of this process, since its watchdogs take their time to end.
"""

import asyncio
import json
import os
import sys
from typing import Any

os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_LOGGING_LEVEL": "result", "BROWSER_USE_VERSION_CHECK": "false"}
from browser_use import Agent, Browser, ChatOpenAI, Tools

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what packages print goes to standard error: it could begin within a line of ours
LEFT_OUT = [
    "search",
    "extract",
    "search_page",
    "find_elements",
    "find_text",
    "evaluate",
    "screenshot",
    "save_as_pdf",
    "upload_file",
    "write_file",
    "read_file",
    "replace_file",
    "switch",
    "close",
    "dropdown_options",
    "select_dropdown",
    "send_keys",
]
"""Actions that reach beyond the browser, would ask the model again, or make the prompt long: each is a schema in it."""


async def attempt(job: dict[str, Any]) -> None:
    llm = ChatOpenAI(
        model=job["model"], base_url=job["base_url"], api_key=job["api_key"], temperature=None, frequency_penalty=None,
        max_completion_tokens=job["tokens"], max_retries=0,
    )  # fmt: skip
    agent = Agent(
        task=job["instruction"], llm=llm, browser=Browser(cdp_url=job["cdp"]), use_vision=False, flash_mode=True,
        use_judge=False, enable_planning=False, max_failures=2, final_response_after_failure=False, message_compaction=False,
        override_system_message="Use the browser.", max_clickable_elements_length=1500, directly_open_url=False,
        tools=Tools(exclude_actions=LEFT_OUT), llm_timeout=270, step_timeout=280,
    )  # fmt: skip
    history = await agent.run(max_steps=job["steps"])
    errors = [error for error in history.errors() if error]
    record = {
        "answer": history.final_result(),
        "steps": len(history.history),
        "errors": errors,
        "actions": history.action_names(),
    }
    print(json.dumps(record), file=answers, flush=True)


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(asyncio.wait_for(attempt(json.loads(line)), 280))
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        print(json.dumps({"broken": True}), file=answers, flush=True)
