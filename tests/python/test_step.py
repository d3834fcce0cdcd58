"""``torchtpu.capture_step``: what models, batches and optimizers it takes, and that a step does what eager does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchtpu
from torch import Tensor, nn
from torch.nn import functional
from torchtpu import Step, _native, _plugins

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))


def run(step: Step) -> tuple[list[Tensor], dict[str, Tensor]]:
    """What the step gives, and its arguments after it."""
    arguments = [t.detach().clone() for t in step.arguments.values()]
    results = _native.Program(step.trace.to_bytes(), plugin=_plugins.current())(arguments)
    return results, dict(zip(step.arguments, arguments, strict=True))


def check_gradients(model: nn.Module, inputs: dict[str, Any], loss: Callable[[Any], Tensor] = lambda y: y) -> Step:
    step = torchtpu.capture_step(model, inputs, loss=loss)
    expected = loss(model(**inputs))
    expected.backward()
    gradients = [dict(model.named_parameters())[name].grad for name in step.gradients]
    torch.testing.assert_close(run(step)[0], [expected.detach(), *gradients])
    assert f" {len(step.arguments)} inputs, {len(gradients)} gradients>" in repr(step)
    return step


# What the model holds.


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = torch.tensor([3.0, 4.0])

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


class Constants(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(8, 2), Scale()
        self.register_buffer("offset", torch.tensor([5.0, 6.0]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return (self.scale(self.layer(x) + self.offset) * torch.tensor([1.0, 2.0])).mean()


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu())


def test_the_backward_stands_in_the_modules_of_its_forward() -> None:
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = torchtpu.capture_step(model, torch.randn(5, 4), loss=lambda y: y.square().mean(), optimizer=optimizer)
    modules: dict[str, set[str]] = {}
    for node in step.trace.program["graph_module"]["graph"]["nodes"]:
        stack = node["metadata"].get("nn_module_stack", "")
        modules.setdefault(node["target"].split(".")[3], set()).add(stack.split(";")[-1].split(",")[0])
    assert modules["addmm"] == modules["mm"] == {"body", "head"}
    assert modules["threshold_backward"] == modules["mean"] == modules["add_"] == {""}


def test_literals_and_plain_tensors_are_inputs_of_the_step() -> None:
    step = check_gradients(Constants(), {"x": X})
    assert {"offset", "scale.by", "lifted_tensor_0", "x"} < set(step.arguments)
    specs = step.trace.program["graph_module"]["signature"]["input_specs"]
    held = {spec["tensor_constant"]["tensor_constant_name"] for spec in specs if "tensor_constant" in spec}
    assert held == {"scale.by", "lifted_tensor_0"}


def test_literals_in_branches_are_inputs_of_the_step() -> None:
    class Branches(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return torch.cond(x.sum() > 0, lambda y: y * torch.tensor([1.0, 2.0]), lambda y: y * 3, (y,)).sum()

    check_gradients(Branches(8, 2), {"x": X})


def test_the_loss_may_hold_tensors() -> None:
    labels = torch.tensor([0, 1, 1, 0])
    check_gradients(nn.Linear(8, 2), {"input": X}, lambda output: functional.cross_entropy(output, labels))


class Weighted(nn.Module):
    """A loss with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([1.0, 2.0]))

    def forward(self, output: Tensor) -> Tensor:
        return (output * self.weight).mean()


def test_the_loss_may_be_a_module() -> None:
    assert "loss.weight" in check_gradients(nn.Linear(8, 2), {"input": X}, Weighted()).arguments


class Checked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        y = y @ y.mT + 4 * torch.eye(4)
        inverse = torch.cond(x.sum() > 0, lambda y: torch.linalg.inv(y).contiguous(), lambda y: y.clone(), (y,))
        return torch.linalg.cholesky(y).sum() + torch.linalg.solve(y, x).sum() + inverse.sum()


def test_checks_of_factorisations_are_left_out() -> None:
    check_gradients(Checked(), {"x": X})


def test_what_is_printed_is_left_out() -> None:
    class Prints(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            torch._higher_order_ops.print("{}", y)
            return y.sum()

    step = check_gradients(Prints(8, 2), {"x": X})
    assert not any("print" in node["target"] for node in step.trace.program["graph_module"]["graph"]["nodes"])


# The batch.


class Optional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, double: bool = False, scale: float = 1.0, pair: Any = None
    ) -> Tensor:
        y = self.layer(x) * scale * (2 if double else 1)
        if pair is not None:
            y = y * pair[0]["by"] + pair[1]
        return (y if mask is None else y * mask).mean()


@pytest.mark.parametrize(
    "others",
    [
        {"mask": None},
        {"mask": None, "double": True, "scale": 2.5},
        {"pair": ({"by": torch.tensor([1.0, 2.0])}, 3), "mask": torch.tensor([1.0, 0.0])},
    ],
    ids=["none", "numbers", "nested"],
)
def test_inputs_that_are_no_tensors_are_passed_on(others: dict[str, Any]) -> None:
    tensors = torch.utils._pytree.tree_leaves(others)
    step = check_gradients(Optional(), {"x": X, **others})
    assert len(step.arguments) == 3 + sum(isinstance(t, Tensor) for t in tensors)


def test_inputs_may_be_called_as_ops_are() -> None:
    class Called(nn.Linear):
        def forward(self, add: Tensor, mul: Tensor, mul_1: Tensor, arg0_1: Tensor) -> Tensor:
            return (super().forward(add) * mul + add * mul_1 + arg0_1).sum()

    batch = {name: torch.randn(8, 8) for name in ("add", "mul", "mul_1", "arg0_1")}
    assert list(check_gradients(Called(8, 8), batch).arguments)[2:] == list(batch)


def test_an_input_called_as_a_buffer_is_refused() -> None:
    class Namesakes(nn.Linear):
        def forward(self, bias: Tensor) -> Tensor:
            return super().forward(bias).sum()

    with pytest.raises(torchtpu.Error, match=r"holds a tensor called `bias` and is given another"):
        torchtpu.capture_step(Namesakes(8, 2), {"bias": X})


class Scaled(nn.Linear):
    def forward(self, x: Tensor, by: Tensor | float = 1.0) -> Tensor:
        return (super().forward(x) * by).sum()


@pytest.mark.parametrize("batch", [X, (X,), [X, 2.0], (X, torch.arange(2.0))])
def test_a_batch_may_come_in_order(batch: Any) -> None:
    model = Scaled(8, 2)
    step = torchtpu.capture_step(model, batch)
    names = dict(zip(("x", "by"), [batch] if isinstance(batch, Tensor) else batch))
    assert step.trace.to_bytes() == torchtpu.capture_step(model, names).trace.to_bytes()
    torch.testing.assert_close(run(step)[0][0], model(**names).detach())


def test_a_batch_that_forward_does_not_take_is_refused() -> None:
    class Unnamed(nn.Linear):
        def forward(self, *of: Tensor) -> Tensor:
            return super().forward(of[0]).sum()

    with pytest.raises(torchtpu.Error, match=r"`forward\(x: .*\) -> .*` does not take the batch: too many positional"):
        torchtpu.capture_step(Scaled(8, 2), (X, X, X))
    with pytest.raises(torchtpu.Error, match=r"the arguments of `forward\(\*of: .*\).*` have no names: wrap the model"):
        torchtpu.capture_step(Unnamed(8, 2), X)


# What is data.


class Selects(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y[y > 0].sum()


class Reads(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y.sum() * y[0, 0].item()


class Branches(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x).sum()
        return y if y > 0 else -y


@pytest.mark.parametrize(
    ("model", "line", "op", "message"),
    [
        (Selects, "y[y > 0]", "aten.index.Tensor", "size of its result depends on the data .*: mask with torch.where"),
        (Reads, ".item()", "aten.item.default", "a number is read out of a tensor"),
        (Branches, "if y > 0", None, "branches on the data of a tensor .*choose with torch.where"),
    ],
)
def test_what_is_data_is_refused_with_its_line(model: type[nn.Linear], line: str, op: str | None, message: str) -> None:
    with pytest.raises(torchtpu.Error, match=message) as raised:
        torchtpu.capture_step(model(8, 2), {"x": X})
    lines, first = inspect.getsourcelines(model)
    at = first + next(i for i, text in enumerate(lines) if line in text)
    assert (raised.value.op, raised.value.file, raised.value.line) == (op, __file__, at)
    assert f"({__file__}:{at})" in str(raised.value)


# The optimizer.


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.Adagrad, {"lr": 0.5, "lr_decay": 0.1}),
        (torch.optim.Adafactor, {"lr": 0.5, "weight_decay": 0.1}),
        (torch.optim.Adafactor, {"lr": 1e-4, "maximize": True}),
        (torch.optim.SGD, {"lr": torch.tensor(0.5), "momentum": 0.9}),
        (torch.optim.AdamW, {"lr": torch.tensor(0.5)}),
    ],
)
@pytest.mark.parametrize(
    ("dtype", "within"),
    # A step in bf16 rounds less often than eager does.
    [(torch.float32, {}), (torch.bfloat16, {"rtol": 0.016, "atol": 0.01})],
    ids=["f32", "bf16"],
)
def test_a_step_updates_as_eager_does(
    optimizer: type[torch.optim.Optimizer], options: dict[str, Any], dtype: torch.dtype, within: dict[str, float]
) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(8, 2).to(dtype), X.to(dtype)
    steps = optimizer(model.parameters(), **options)

    def loss(output: Tensor) -> Tensor:
        return output.float().square().mean()

    def update() -> None:
        steps.zero_grad()
        loss(model(x)).backward()
        steps.step()

    update()
    step = torchtpu.capture_step(model, {"input": x}, optimizer=steps, loss=loss)
    _, updated = run(step)
    update()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(updated[name], parameter.detach(), **within)
        for key, state in steps.state[parameter].items():
            if isinstance(state, Tensor):
                torch.testing.assert_close(updated[f"optimizer.{name}.{key}"], state, **within)


def test_the_arguments_of_a_step_are_its_inputs() -> None:
    model = nn.Linear(8, 2)
    steps = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.5))
    step = torchtpu.capture_step(model, {"input": X}, optimizer=steps, loss=torch.sum)
    assert len(step.arguments) == len(step.trace.program["graph_module"]["graph"]["inputs"])


class Clipping(torch.optim.Optimizer):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: None = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad.norm() > 1:
                parameter.sub_(parameter.grad)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (torch.optim.LBFGS, r"LBFGS computes the loss again .*`closure`.*another optimizer, or without one"),
        (Clipping, r"Clipping \(.*test_step\.py:\d+\) branches on the data of a tensor.*another optimizer"),
    ],
)
def test_optimizers_whose_work_is_data_are_refused(optimizer: type[torch.optim.Optimizer], message: str) -> None:
    model = nn.Linear(8, 2)
    with pytest.raises(torchtpu.Error, match=message):
        torchtpu.capture_step(model, {"input": X}, optimizer=optimizer(model.parameters()), loss=torch.sum)


def test_an_optimizer_is_left_as_it_was() -> None:
    before = dict(vars(torch.optim._adafactor)), torch.compiler.is_compiling()
    model = nn.Linear(8, 2)
    steps = torch.optim.Adafactor(model.parameters())
    torchtpu.capture_step(model, {"input": X}, optimizer=steps, loss=torch.sum)
    assert (dict(vars(torch.optim._adafactor)), torch.compiler.is_compiling()) == before
    assert not steps.state


def test_what_is_no_module_or_optimizer_is_refused() -> None:
    model = nn.Linear(8, 2)
    with pytest.raises(TypeError, match="expected a module, got a function: wrap what computes the loss"):
        torchtpu.capture_step(lambda x: x.sum(), {"x": X})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a module, got the class Linear"):
        torchtpu.capture_step(nn.Linear, {"input": X})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"such as torch.optim.SGD\(model.parameters\(\)\), got the class SGD"):
        torchtpu.capture_step(model, {"input": X}, loss=torch.sum, optimizer=torch.optim.SGD)  # type: ignore[arg-type]
