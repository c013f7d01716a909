"""One attempt of browser-use at a browser that runs already: browsed.py < a line of JSON > a line of JSON."""

import asyncio
import json
import os
import sys

os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_LOGGING_LEVEL": "result", "BROWSER_USE_VERSION_CHECK": "false"}
from browser_use import Agent, Browser, ChatOpenAI


async def main() -> None:
    job = json.loads(sys.stdin.readline())
    llm = ChatOpenAI(
        model=job["model"], base_url=job["base_url"], api_key=job["api_key"], temperature=None, frequency_penalty=None,
        max_completion_tokens=job["tokens"], max_retries=0,
    )  # fmt: skip
    agent = Agent(
        task=job["instruction"], llm=llm, browser=Browser(cdp_url=job["cdp"]), use_vision=False, flash_mode=True,
        use_judge=False, enable_planning=False, max_failures=2, final_response_after_failure=False, message_compaction=False,
        override_system_message="Use the browser.", max_clickable_elements_length=1500, directly_open_url=False,
    )  # fmt: skip
    history = await agent.run(max_steps=job["steps"])
    errors = [error for error in history.errors() if error]
    print("@" + json.dumps({"answer": history.final_result(), "steps": len(history.history), "errors": errors}), flush=True)
    os._exit(0)  # its watchdogs take their time


asyncio.run(main())
