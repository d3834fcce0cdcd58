"""Our programs beside JAX's: the same models, compiled by libtpu for a TPU that is not there.

    python benches/beside_jax.py agree
    python benches/beside_jax.py tpu [--only NAME] [--target v5e:1x1] [--reports FOLDER] [--page docs/optimizer.md]

`jax_models.py` has the models in JAX. `agree` computes each on the CPU with its entry's weights and data, beside
PyTorch: its output, loss and gradients, and updates by AdamW, in f32 within the tolerances of torch.testing, its output
also in bf16 within what rounding every result may do. `tpu` takes both through `tputc check` and compares flops, HBM
bytes, peak memory and roofline of libtpu's own programs; the same reader reads both. Products of f32 have the precision
`highest` in both. `--reports` keeps programs and reports, to look into; those that are there are not made again.

JAX is no dependency of TorchTPU. It is wanted beside the jaxlib that the tests use, in a folder of its own:

    .venv/bin/python -m pip install --no-deps --target FOLDER jax==0.10.2 opt_einsum
    PYTHONPATH=FOLDER .venv/bin/python benches/beside_jax.py agree
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot  # also puts the tests' folder into the path
import torch
from fuse import TPUTC, between_marks

MODELS = ("gpt2", "llama", "vit")
MEASURES = {
    "GFLOP": ("cost", "flops", 1e9),
    "HBM MiB": ("cost", "hbm_bytes", 1 << 20),
    "peak MiB": ("memory", "peak", 1 << 20),
    "roofline µs": ("cost", "seconds", 1e-6),
}
# Of a bf16 model's output, in its largest: two rounded runs of the same arithmetic differ by a few of its 2^-8.
BF16_TOLERANCE = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("agree", "tpu"))
    parser.add_argument("--only", default="", help="models whose names hold this")
    parser.add_argument("--target", default="v5e:1x1")
    parser.add_argument("--reports", type=Path, help="where reports are kept")
    parser.add_argument("--page", type=Path, help="where the table goes, between its marks")
    args = parser.parse_args()
    if args.reports:
        args.reports.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("jax") is None:
        sys.exit("this bench compares with JAX, which is not installed: --help says how to")
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    {"agree": agree, "tpu": on_tpu}[args.what](args)


# --- what they compute -----------------------------------------------------------------------------------------------


def agree(args: argparse.Namespace) -> None:
    for name in (name for name in MODELS if args.only in name):
        agree_on_output(name, "full", torch.bfloat16)
        for size in aot.zoo.SIZES:
            agree_on_output(name, size, torch.float32)
        agree_on_gradients(name)
        agree_on_update(name)
        print(f"{name}: output, loss, gradients and update agree", flush=True)


def agree_on_output(name: str, size: aot.zoo.Size, dtype: torch.dtype) -> None:
    import jax_models

    entry, model = aot.zoo.ZOO[name], jax_models.MODELS[name]
    module, batch = entry.build(size, dtype=dtype).eval(), entry.batch(size, dtype=dtype)
    with torch.no_grad():
        output = module(**batch.inputs)
    expected = output if isinstance(output, torch.Tensor) else output.logits
    forward, _ = jax_models.functions(name, module)
    inputs = jax_models.to_jax(batch.inputs[model.data])
    got = to_torch(forward(model.convert(module.state_dict()), inputs))
    if dtype == torch.bfloat16:
        away = (got - expected).abs().max() / expected.abs().max()
        assert away <= BF16_TOLERANCE, f"{name}'s outputs in bf16 are {away:.3f} apart"
    else:
        torch.testing.assert_close(got, expected)


def agree_on_gradients(name: str) -> None:
    import jax
    import jax_models

    entry, model = aot.zoo.ZOO[name], jax_models.MODELS[name]
    module, batch = entry.build(), entry.batch()
    entry.loss(module, batch).backward()
    forward, _ = jax_models.functions(name, module)
    inputs, targets = jax_models.to_jax(batch.inputs[model.data]), jax_models.to_jax(batch.targets)
    loss = lambda params: model.loss(forward(params, inputs), targets)  # noqa: E731
    value, gradients = jax.value_and_grad(loss)(model.convert(module.state_dict()))
    torch.testing.assert_close(to_torch(value), entry.loss(module, batch).detach())
    named = dict(module.named_parameters(remove_duplicate=False))
    expected = model.convert({n: named[n].grad for n in module.state_dict()})
    close(gradients, expected)


def agree_on_update(name: str) -> None:
    """Two steps with the same random gradients, the second of which has moments to go on from."""
    import jax
    import jax_models

    module = aot.zoo.ZOO[name].build()
    convert = jax_models.MODELS[name].convert
    optimizer = torch.optim.AdamW(module.parameters())
    params = jax.tree.map(lambda leaf: leaf.copy(), convert(module.state_dict()))
    state = jax_models.adamw_state(params)
    for seed in range(2):
        torch.manual_seed(seed)
        for parameter in module.parameters():
            parameter.grad = torch.randn_like(parameter)
        named = dict(module.named_parameters(remove_duplicate=False))
        gradients = convert({n: named[n].grad for n in module.state_dict()})
        params, state = jax_models.adamw(params, gradients, state)
        optimizer.step()
    close(params, convert(module.state_dict()))


def close(got: Any, expected: Any) -> None:
    import jax

    pairs = zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True)
    for (path, one), other in pairs:
        name = jax.tree_util.keystr(path)
        torch.testing.assert_close(to_torch(one), to_torch(other), msg=lambda text, name=name: f"{name}: {text}")


def to_torch(array: Any) -> torch.Tensor:
    import numpy as np

    return torch.from_numpy(np.array(array, dtype=np.float32))


# --- what libtpu makes of them ---------------------------------------------------------------------------------------


def on_tpu(args: argparse.Namespace) -> None:
    cells = itertools.product((name for name in MODELS if args.only in name), aot.KINDS, aot.DTYPES)
    with tempfile.TemporaryDirectory() as folder:
        found = {cell: both(*cell, args.target, args.reports or Path(folder)) for cell in cells}
    table = [
        f"| model, {args.target} | | | {' | '.join(MEASURES)} |",
        "|---|---|---|" + "---:|" * len(MEASURES),
        *(
            f"| {' | '.join(cell)} | {' | '.join(compared(m, pair) for m in MEASURES)} |"
            for cell, pair in found.items()
        ),
        "",
        verdict(found),
    ]
    print("\n".join(table))
    if args.page:
        between_marks(args.page, "jax", table)


Pair = tuple[dict[str, Any], dict[str, Any]]


def both(name: str, kind: str, dtype: str, target: str, folder: Path) -> Pair:
    """The reports on our program and on JAX's."""
    import jax_models

    def ours() -> bytes:
        return aot.capture(aot.zoo.ZOO[name], kind, aot.DTYPES[dtype]).to_bytes()

    def jaxs() -> bytes:
        return jax_models.lowered(name, kind, aot.DTYPES[dtype]).encode()

    stem = folder / f"{name}-{kind}-{dtype}-{target.replace(':', '-')}"
    return report(ours, stem.with_suffix(".ours.json"), target), report(jaxs, stem.with_suffix(".jax.mlir"), target)


def report(program: Callable[[], bytes], file: Path, target: str) -> dict[str, Any]:
    """What `tputc check` says of a program, which is written to `file`, whose ending says what it is."""
    kept = file.with_suffix(file.suffix + ".report")
    if not kept.exists():
        file.write_bytes(program())
        command = [TPUTC, "check", file, "--target", target, "--format", "json", "--quiet"]
        kept.write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    (found,) = json.loads(kept.read_text())
    return dict(found)


def figures(measure: str, pair: Pair) -> list[float]:
    part, field, unit = MEASURES[measure]
    return [side[part][field] / unit for side in pair]


def compared(measure: str, pair: Pair) -> str:
    ours, jaxs = figures(measure, pair)
    return f"{ours:.4g} / {jaxs:.4g} = {ours / jaxs:.3f}"


def verdict(found: dict[tuple[str, str, str], Pair]) -> str:
    """Where ours is more, by more than a thousandth, of what does not depend on our clock."""
    more = [
        f"{' '.join(cell)} ({measure} x{ours / jaxs:.3f})"
        for cell, pair in found.items()
        for measure in MEASURES
        for ours, jaxs in [figures(measure, pair)]
        if measure != "roofline µs" and ours > 1.001 * jaxs
    ]
    return f"Ours / JAX's = ratio. More than JAX's: {', '.join(more) or 'none'}."


if __name__ == "__main__":
    main()
