"""Training steps spread over eight virtual CPU devices compute what they compute on one."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torchtpu import _native, _plugins
from torchtpu._errors import CompileError, Error
from torchtpu._sharding import from_dtensors, native_mesh, native_shard
from torchtpu._step import Step, capture_step

BATCH, LENGTH = 8, 16

COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")
TENSOR_PARALLEL: dict[str, Any] = {
    **{f"model.*.{name}.weight": ("model", None) for name in COLUMNS},
    **{f"model.*.{name}.weight": (None, "model") for name in ROWS},
}
BY_DATA: dict[str, Any] = {"input_ids": ("data",), "labels": ("data",)}
FULLY: dict[str, Any] = {**BY_DATA, "*inv_freq": None, "*": ("data",)}

# Each kind of parallelism: its mesh, its shardings, the collectives it cannot do without, and of how many parts of the
# weights and their state one device holds one.
WAYS: dict[str, tuple[dict[str, int], dict[str, Any], set[str]]] = {
    "data": ({"data": 8}, BY_DATA, {"all-reduce"}),
    "tensor": ({"model": 8}, TENSOR_PARALLEL, {"all-reduce"}),
    "fully_sharded": ({"data": 8}, FULLY, {"all-gather"}),
    "sequence": (
        {"data": 2, "sequence": 4},
        {"input_ids": ("data", "sequence"), "labels": ("data", "sequence")},
        {"all-reduce", "all-gather"},
    ),
    "data_and_tensor": ({"data": 2, "model": 4}, {**BY_DATA, **TENSOR_PARALLEL}, {"all-reduce"}),
}


def llama() -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=8, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def tokens() -> dict[str, Tensor]:
    ids = torch.randint(0, 64, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "labels": ids}


@functools.cache
def step(optimizer: type[torch.optim.Optimizer], **options: Any) -> Step:
    """A step of a Llama whose optimizer has stepped once."""
    model, batch = llama(), tokens()
    steps = optimizer(model.parameters(), **options)
    model(**batch).loss.backward()
    steps.step()
    return capture_step(model, batch, optimizer=steps, return_gradients=True)


def adamw() -> Step:
    return step(torch.optim.AdamW, lr=1e-2)


def fresh(step: Step) -> list[Tensor]:
    return [t.detach().clone() for t in step.arguments.values()]


def run(program: Any, step: Step) -> dict[str, Tensor]:
    """Loss, gradients, and everything that was updated."""
    arguments = fresh(step)
    results = program(arguments)
    gradients = {f"gradient of {name}": t for name, t in zip(step.gradients, results[1:], strict=True)}
    return {"loss": results[0], **gradients, **dict(zip(step.arguments, arguments, strict=True))}


@functools.cache
def on_one_device(optimizer: str) -> dict[str, Tensor]:
    captured = {"adamw": adamw, "sgd": sgd}[optimizer]()
    return run(_native.Program(captured.trace.to_bytes(), plugin=_plugins.current()), captured)


def sgd() -> Step:
    return step(torch.optim.SGD, lr=1e-1, momentum=0.9)


def partitioned(step: Step, mesh: dict[str, int], shard: dict[str, Any]) -> _native.Partitioned:
    return _native.Partitioned(
        step.trace.to_bytes(), plugin=_plugins.current(), mesh=native_mesh(mesh), shard=native_shard(shard)
    )


def collectives(hlo: str) -> set[str]:
    return set(re.findall(r"\b(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(", hlo))


def assert_equal_runs(got: dict[str, Tensor], wanted: dict[str, Tensor], step: Step) -> None:
    assert got.keys() == wanted.keys()
    for name, expected in wanted.items():
        torch.testing.assert_close({name: got[name]}, {name: expected})
    changed = [n for n, t in step.arguments.items() if n in step.gradients and not torch.equal(t, got[n])]
    assert changed == step.gradients, "every parameter is updated"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_step_on_eight_devices_is_that_on_one(way: str, optimizer: str) -> None:
    mesh, shard, wanted = WAYS[way]
    captured = adamw() if optimizer == "adamw" else sgd()
    program = partitioned(captured, mesh, shard)
    assert wanted <= collectives(program.hlo()), way
    assert_equal_runs(run(program, captured), on_one_device(optimizer), captured)


def test_a_captured_step_is_that_of_pytorch() -> None:
    """The second step: at the first, PyTorch makes a momentum of the gradient, and there is none to capture."""
    model, batch = llama(), tokens()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    got = on_one_device("sgd")
    torch.testing.assert_close(got["loss"], loss.detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(got[f"gradient of {name}"], parameter.grad)
        torch.testing.assert_close(got[name], parameter.detach())


def size(t: Tensor) -> int:
    return t.numel() * t.element_size()


def test_a_device_holds_its_part_of_the_arguments() -> None:
    captured = adamw()
    whole = {name: size(t) for name, t in captured.arguments.items()}
    replicated = sum(n for name, n in whole.items() if name.endswith((".step", "inv_freq")))
    assert partitioned(captured, {"data": 1}, {}).argument_bytes == sum(whole.values())
    fully = partitioned(captured, {"data": 8}, FULLY).argument_bytes
    assert fully == (sum(whole.values()) - replicated) // 8 + replicated
    split = [name for name in whole if re.search(r"\.(?:\w+_proj)\.weight", name) and not name.endswith(".step")]
    tensor = partitioned(captured, {"model": 8}, TENSOR_PARALLEL).argument_bytes
    assert tensor == sum(n // 8 if name in split else n for name, n in whole.items())


def test_state_follows_its_parameter() -> None:
    shardings = dict(partitioned(sgd(), {"model": 2}, {"*.q_proj.weight": (None, "model")}).inputs())
    name = "model.layers.1.self_attn.q_proj.weight"
    assert shardings[name] == shardings[f"optimizer.{name}.momentum_buffer"] == '(None, "model")'
    assert shardings["model.norm.weight"] == "(None,)"


def test_results_can_be_sharded_too() -> None:
    captured = sgd()
    at = 1 + captured.gradients.index("lm_head.weight")
    program = partitioned(captured, {"data": 8}, {**BY_DATA, f"output.{at}": ("data",)})
    assert_equal_runs(run(program, captured), on_one_device("sgd"), captured)
    assert re.search(
        r'-> \(.*tensor<64x32xf32> \{sdy.sharding = #sdy.sharding<@mesh, \[\{"data"\}, \{\}\]>\}', program.stablehlo()
    )


@pytest.mark.parametrize(
    ("mesh", "shard", "message"),
    [
        ({}, {}, "the mesh has no axes"),
        ({"data": 0}, {}, "mesh axis `data` has size 0"),
        ({"data": 8}, {"input_id": ("data",)}, "matches no input of the program\n.*the nearest names are `input_ids`"),
        ({"data": 8}, {"labels": ("rows",)}, "the mesh has no axis `rows`\n.*its axes are `data`"),
        ({"data": 8}, {"labels": ("data", "data")}, "axis `data` is used twice"),
        ({"data": 3}, {"labels": ("data",)}, r"dimension 0 of input `labels`, a i64\[8,16\], has 8 elements"),
        ({"data": 8}, {"*norm.weight": (None, "data")}, "is for 2 dimensions, but `.*`, which it matches, has 1"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_compiled(
    mesh: dict[str, int], shard: dict[str, Any], message: str
) -> None:
    with pytest.raises(CompileError, match=message):
        partitioned(sgd(), mesh, shard)


def test_specs_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match="not a tuple with an entry per dimension"):
        native_shard({"x": "data"})
    with pytest.raises(TypeError, match="no axis, tuple of axes, or None"):
        native_shard({"x": (3,)})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="not a number of devices"):
        native_mesh({"data": 2.5})  # type: ignore[dict-item]
    assert native_shard({"x": (("a", "b"), None, "c"), "y": None}) == [("x", [["a", "b"], [], ["c"]]), ("y", [])]


def test_arguments_that_do_not_fit_are_refused_before_anything_runs() -> None:
    captured = sgd()
    program = partitioned(captured, {"data": 8}, BY_DATA)
    arguments = fresh(captured)
    at = list(captured.arguments).index("labels")
    arguments[at] = arguments[at][:4]
    with pytest.raises(Error, match=r"`labels`.*must be a tensor of i64\[8,16\], got i64\[4,16\]"):
        program(arguments)
    assert_equal_runs(run(program, captured), on_one_device("sgd"), captured)


@pytest.fixture
def fake_process_group() -> Any:
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield
    dist.destroy_process_group()


def test_shardings_of_dtensors_are_read(fake_process_group: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "model"))
    model = llama()
    attention, mlp = "model.layers.*.self_attn", "model.layers.*.mlp"
    columns = [f"{attention}.{name}_proj" for name in "qkv"] + [f"{mlp}.gate_proj", f"{mlp}.up_proj"]
    plan: dict[str, Any] = {name: ColwiseParallel() for name in columns}
    plan |= {name: RowwiseParallel() for name in (f"{attention}.o_proj", f"{mlp}.down_proj")}
    parallelize_module(model, mesh["model"], plan)
    ids = distribute_tensor(tokens()["input_ids"], mesh, [Shard(0), Replicate()])
    axes, shard = from_dtensors(model, {"input_ids": ids})
    assert axes == {"data": 2, "model": 4}
    assert shard["input_ids"] == ("data", None)
    assert shard["model.layers.0.self_attn.q_proj.weight"] == ("model", None)
    assert shard["model.layers.1.mlp.down_proj.weight"] == (None, "model")
    fully_shard(model, mesh=mesh["data"])
    axes, shard = from_dtensors(model)
    assert shard["model.layers.0.self_attn.q_proj.weight"] == (("model", "data"), None)
    assert shard["model.layers.1.mlp.down_proj.weight"] == ("data", "model")
    assert shard["model.norm.weight"] == ("data",)
    linear = torch.nn.Linear(16, 16, bias=False)
    linear.weight = torch.nn.Parameter(distribute_tensor(linear.weight, mesh, [Shard(0), Shard(0)]))
    assert from_dtensors(linear) == ({"data": 2, "model": 4}, {"weight": (("data", "model"), None)})
    with pytest.raises(Error, match="no parameter, buffer or input is a DTensor"):
        from_dtensors(llama())


def test_tied_weights_are_one_input_whose_gradient_is_the_sum() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(8, 4)
            self.head = torch.nn.Linear(4, 8, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: Tensor) -> Tensor:
            return torch.nn.functional.cross_entropy(self.head(self.embedding(ids)), ids)

    model, ids = Tied(), torch.tensor([1, 5, 3])
    step = capture_step(model, {"ids": ids}, loss=lambda output: output)
    assert sorted(step.arguments) == ["embedding.weight", "ids"]
    plugin = _plugins.find("cpu")
    program = _native.Partitioned(step.trace.to_bytes(), plugin=plugin, mesh=[("data", 2)], shard=[])
    loss, gradient = program([t.detach() for t in step.arguments.values()])
    expected = model(ids)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(gradient, model.embedding.weight.grad)
