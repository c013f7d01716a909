"""An engine as verifiers' training client asks one: `POST /inference/v1/generate`, tokens in and tokens out."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import transformers

from agentgym.engines.scripted import ByteTokenizer

TOKENS = ByteTokenizer()
Sampled = list[tuple[list[int], list[int], list[float]]]


def tokenizer_folder(path: Path) -> Path:
    """Write a folder that a renderer can load a tokenizer from."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=TOKENS.backend_tokenizer,
        eos_token=TOKENS.eos_token,
        pad_token="<|endoftext|>",
        chat_template=TOKENS.chat_template,
    )
    tokenizer.save_pretrained(path)
    (path / "config.json").write_text('{"model_type": "qwen3"}')
    return path


@contextmanager
def engine(says: Callable[[str], str]) -> Iterator[tuple[str, Sampled]]:
    """Serve replies to the text of prompts; yields the address, and every prompt with its tokens and log-probabilities."""
    sampled_replies: Sampled = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.tell({"object": "list", "data": [{"id": "model", "object": "model", "max_model_len": 65536}]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = request["token_ids"]
            ids = [*TOKENS.encode(says(TOKENS.decode(prompt))), TOKENS.eos_token_id]
            logprobs = [-0.001 * (1 + place + len(prompt) % 97) for place in range(len(ids))]
            sampled_replies.append((prompt, ids, logprobs))
            token_logprobs = [{"token": f"token_id:{id}", "logprob": value} for id, value in zip(ids, logprobs, strict=True)]
            choice = {"index": 0, "token_ids": ids, "logprobs": {"content": token_logprobs}, "finish_reason": "stop"}
            self.tell({"request_id": str(len(sampled_replies)), "choices": [choice]})

        def tell(self, answer: Any) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", sampled_replies
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()
