// The cells of recurrent nets where their fused ops, which PyTorch takes on a device that is no CPU, have no derivative: forward
// ones, derivatives of derivatives, and batches of calls. There the cells are composed of ops that have.

#include <ATen/ATen.h>
#include <torch/library.h>

#include <initializer_list>
#include <optional>
#include <tuple>

#include "shim.h"

namespace torchtpu {

namespace {

using Bias = std::optional<at::Tensor>;

bool any_wants_parts(std::initializer_list<const at::Tensor*> tensors, std::initializer_list<const Bias*> biases) {
  for (const auto* t : tensors) {
    if (wants_parts(*t)) return true;
  }
  for (const auto* bias : biases) {
    if (*bias && wants_parts(**bias)) return true;
  }
  return false;
}

at::Tensor with(const at::Tensor& gates, const Bias& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// PyTorch's own kernel for derivatives: it is registered for every device, and under no other name.
c10::DispatchKeySet to_derivatives(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset) | c10::DispatchKeySet(c10::DispatchKey::AutogradOther);
}

// Hidden state, cell state and what only the fused op's own gradient reads.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    c10::DispatchKeySet keys, const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
    const Bias& input_bias, const Bias& hidden_bias) {
  if (!any_wants_parts({&input_gates, &hidden_gates, &cx}, {&input_bias, &hidden_bias})) {
    return at::_ops::_thnn_fused_lstm_cell::redispatch(
        to_derivatives(keys), input_gates, hidden_gates, cx, input_bias, hidden_bias);
  }
  const auto gates = (with(input_gates, input_bias) + with(hidden_gates, hidden_bias)).chunk(4, 1);
  const auto cy = gates[1].sigmoid() * cx + gates[0].sigmoid() * gates[2].tanh();
  return {gates[3].sigmoid() * cy.tanh(), cy, at::empty({0}, cx.options())};
}

// Hidden state and what only the fused op's own gradient reads.
std::tuple<at::Tensor, at::Tensor> gru_cell(
    c10::DispatchKeySet keys, const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
    const Bias& input_bias, const Bias& hidden_bias) {
  if (!any_wants_parts({&input_gates, &hidden_gates, &hx}, {&input_bias, &hidden_bias})) {
    return at::_ops::_thnn_fused_gru_cell::redispatch(
        to_derivatives(keys), input_gates, hidden_gates, hx, input_bias, hidden_bias);
  }
  const auto of_input = with(input_gates, input_bias).chunk(3, 1);
  const auto of_hidden = with(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = (of_input[0] + of_hidden[0]).sigmoid();
  const auto update = (of_input[1] + of_hidden[1]).sigmoid();
  const auto fresh = (of_input[2] + reset * of_hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::empty({0}, hx.options())};
}

}  // namespace

bool wants_parts(const at::Tensor& t) {
  return t.defined() && (t.key_set().has_any(c10::functorch_transforms_ks) || t._fw_grad(0).defined());
}

void register_recurrent_ops() {
  static torch::Library derivatives(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  derivatives.impl("_thnn_fused_lstm_cell", &lstm_cell);
  derivatives.impl("_thnn_fused_gru_cell", &gru_cell);
}

}  // namespace torchtpu
