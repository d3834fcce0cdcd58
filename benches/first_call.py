"""The first call of a model in a fresh process, with empty caches and with full ones, and where its time goes.

    python benches/first_call.py --models gpt2,resnet50 --json out.json

Each measurement is a process of its own. It imports PyTorch with Dynamo, AOTAutograd, and inductor or TorchTPU, makes
the model, and times one step: for training forward, backward and a compiled AdamW update. `cold` starts with an empty
cache folder, `warm` with what the cold run left. `ours` is the time inside TorchTPU's backend less what the plugin
took to compile and to run; `plugin` is that; the rest of the whole is Dynamo and AOTAutograd. A warm start's `load` is
all that happens after capture: our backend and the plugin together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))


def measure(model: str, mode: str, backend: str, size: str) -> dict[str, Any]:
    """One first call, in this process."""
    import torch
    import torch._dynamo
    import torch._functorch.aot_autograd
    import torchtpu
    from meter import Meter, metered_compiles, metered_plugin
    from models import make_step
    from zoo import ZOO

    if backend == "inductor":
        import torch._inductor.compile_fx

    entry, meter = ZOO[model], Meter()
    with torch._dynamo.config.patch(**entry.dynamo), metered_compiles(meter):
        step = make_step(entry, size, mode, backend)
        start, processor = time.perf_counter(), time.process_time()
        with metered_plugin(meter):
            step()
        whole, processor = time.perf_counter() - start, time.process_time() - processor
    stats = torchtpu.stats()
    result = {"whole": whole, "processor": processor, "load_average": os.getloadavg()[0]}
    if backend == "torchtpu":
        result |= {
            "ours": meter.our_compiles + meter.our_calls,
            "plugin": meter.plugin_compiles + meter.plugin_calls,
            "load": meter.compiles + meter.calls,
            "compiles": stats["compiles"],
            "disk_hits": stats["disk_hits"],
            "fallbacks": len(stats["fallbacks"]),
        }
    return result


def child(model: str, mode: str, backend: str, size: str, cache: str) -> dict[str, Any]:
    """The same in a fresh process whose caches are in the folder `cache`."""
    command = [sys.executable, __file__, "--child", model, mode, backend, size]
    env = {**os.environ, "TORCHTPU_CACHE_DIR": f"{cache}/torchtpu", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # users' Python files are compiled once
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    if run.returncode:
        return {"failure": (run.stderr.strip().splitlines() or ["no message"])[-1][:160]}
    return dict(json.loads(run.stdout.splitlines()[-1]))


def rows(model: str, mode: str, backends: list[str], size: str) -> list[dict[str, Any]]:
    """A cold start of each backend, and a warm one of ours."""
    starts = [(b, s) for b in backends for s in ("cold", "warm") if b == "torchtpu" or s == "cold"]
    with tempfile.TemporaryDirectory() as cache:
        about = [{"model": model, "mode": mode, "backend": b, "start": s} for b, s in starts]
        return [row | child(model, mode, row["backend"], size, cache) for row in about]


def show(row: dict[str, Any]) -> None:
    text = f"{row['model']:13s} {row['mode']:9s} {row['backend']:8s} {row['start']}  "
    if "failure" in row:
        print(f"{text} failed: {row['failure']}", flush=True)
        return
    text += f"{row['whole']:7.2f} s, processor {row['processor']:6.2f} s"
    if "ours" in row:
        share = row["ours"] / row["whole"]
        text += (
            f"   ours {row['ours']:6.3f} s ({share:4.0%})   plugin {row['plugin']:6.2f} s   load {row['load']:6.2f} s"
        )
    print(f"{text}   load average {row['load_average']:.1f}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        model, mode, backend, size = sys.argv[2:]
        print(json.dumps(measure(model, mode, backend, size)))
        return
    from models import MODES
    from zoo import ZOO

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(ZOO), help="comma-separated; all: %(default)s")
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--backends", default="inductor,torchtpu", help="default: %(default)s")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    report = []
    for model in options.models.split(","):
        for mode in options.modes.split(","):
            for row in rows(model, mode, options.backends.split(","), "small" if options.small else "full"):
                show(row)
                report.append(row)
            if options.json:
                options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
