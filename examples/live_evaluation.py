"""A live evaluation over HTTP that can be stopped, killed and started again: ``python live_evaluation.py --store run.sqlite``.

The example starts its own server, which scores batches as a paid service would: it takes its time, is down now and then (500), asks to
slow down (429 with Retry-After), and sometimes does not answer in time. Four workers call it. `--stop-after 20` ends the run after 20
batches, as Ctrl-C would; `kill -9` does as well. Started again with the same `--store` it goes on where it was.

What is promised: no batch whose result was recorded is evaluated again, and after a kill at most one batch per worker is, under its
old idempotency key. With `--workers 1` the finished run is batch for batch that of an unbroken one. With more workers the order in
which answers arrive is a matter of chance, and the policy's next choice depends on it, so two runs may differ, broken or not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import lrgittins as lg
from lrgittins.datasets import load_wildbench_frame

TIMEOUT = 0.5  # seconds a request may take
TRIES = 6
MAX_FAULTS = 3  # in a row that the server serves for one batch, so that six tries always get through


# ---------------------------------------------------------------------------------------------------- the service


def start_service(responses: lg.ResponseMatrix, *, latency: float, fault_rate: float, log: Path | None) -> tuple[ThreadingHTTPServer, str]:
    """A scoring service on a free local port; every batch it evaluates is one line of `log`."""
    row = {arm: k for k, arm in enumerate(responses.arms)}
    column = {example: j for j, example in enumerate(responses.examples)}
    lock = threading.Lock()
    tries: dict[str, int] = {}
    answers: dict[str, list[float]] = {}

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self.headers["Idempotency-Key"]
            with lock:
                tries[key] = number = tries.get(key, 0) + 1
            luck = chance(key, number)
            time.sleep(latency * (0.5 + luck))
            if number <= MAX_FAULTS and luck < fault_rate:
                if luck < 0.4 * fault_rate:
                    return self.reply(500, {"error": "the model crashed"})
                if luck < 0.8 * fault_rate:
                    return self.reply(429, {"error": "slow down"}, retry_after=0.02)
                time.sleep(1.5 * TIMEOUT)  # the client gives up before this
            with lock:
                if key not in answers:  # a key seen before is answered again, and neither evaluated nor charged again
                    answers[key] = [float(responses.scores[row[order["arm"]], column[example]]) for example in order["examples"]]
                    if log is not None:
                        with log.open("a", encoding="utf-8") as file:
                            file.write(json.dumps([key, order["arm"], order["examples"]]) + "\n")
            return self.reply(200, {"scores": answers[key]})

        def reply(self, status: int, body: dict[str, Any], retry_after: float | None = None) -> None:
            data = json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if retry_after is not None:
                    self.send_header("Retry-After", str(retry_after))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:
                pass  # the client has given up

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/score"


def chance(key: str, number: int) -> float:
    """A number in [0, 1) that depends on the batch and the try only, so that faults are the same in every run."""
    digest = hashlib.sha256(f"{key}/{number}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


# --------------------------------------------------------------------------------------------------- the evaluator


def ask_service(url: str, arm: str, examples: tuple[str, ...], token: str) -> list[float]:
    """Scores of a batch; faults that pass are waited out, anything else is raised (and recorded by `evaluate`)."""
    body = json.dumps({"arm": arm, "examples": list(examples)}).encode()
    pause, problem = 0.01, "no try was made"
    for _ in range(TRIES):
        request = urllib.request.Request(url, body, {"Content-Type": "application/json", "Idempotency-Key": token})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return json.load(answer)["scores"]
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise  # a wrong request does not get better
            problem = f"{error.code} {error.reason}"
            wait = float(error.headers.get("Retry-After") or pause)
            error.close()
        except OSError as error:  # timeouts, refused and broken connections
            problem, wait = str(error), pause
        time.sleep(wait)
        pause *= 2
    raise ConnectionError(f"no answer after {TRIES} tries: {problem}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("live.sqlite"), help="where the run is kept")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--budget", type=float, default=0.03, help="share of the cost of evaluating everything")
    parser.add_argument("--stop-after", type=int, help="interrupt the run after so many batches")
    parser.add_argument("--latency", type=float, default=0.01, help="mean seconds per batch")
    parser.add_argument("--fault-rate", type=float, default=0.3)
    parser.add_argument("--log", type=Path, help="a line for every batch the service evaluates")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()

    responses = lg.ResponseMatrix.from_frame(load_wildbench_frame(), arm="model", example="item")
    server, url = start_service(responses, latency=options.latency, fault_rate=options.fault_rate, log=options.log)
    done, lock = [0], threading.Lock()

    def evaluator(arm: str, examples: tuple[str, ...], *, token: str) -> list[float]:
        with lock:
            stop = options.stop_after is not None and done[0] >= options.stop_after
        if stop:
            signal.raise_signal(signal.SIGINT)  # what Ctrl-C does; the batch stays pending and comes first next time
        scores = ask_service(url, arm, examples, token)
        with lock:
            done[0] += 1
        return scores

    policy = lg.GittinsPolicy(**responses.policy_arguments(), random_state=options.seed)
    try:
        trace = lg.evaluate(
            policy, evaluator, budget=options.budget, until="budget", store=options.store, n_workers=options.workers,
            timeout=None if options.workers == 1 else 30.0, max_consecutive_failures=10, progress=not options.quiet,
        )  # fmt: skip
    except lg.LRGittinsError as error:
        print(f"live_evaluation: error: {error}", file=sys.stderr)
        return 2
    finally:
        server.shutdown()
        server.server_close()
    best = policy.recommend()
    print(
        json.dumps(
            {
                "stop_reason": trace.stop_reason,
                "best": best.arm,
                "mean": round(best.mean, 4),
                "n_evaluated": len(lg.read_store(options.store)),
                "n_batches_now": done[0],
                "n_repeated": trace.n_repeated,
            }
        )
    )
    if trace.stop_reason == "interrupted":
        print(f"stopped; start again with --store {options.store} to go on", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
