// What PyTorch's transformer layers call in inference instead of their own ops, said in ops that run on the device.

#include <ATen/ATen.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <unordered_set>

#include "shim.h"

namespace torchtpu {

namespace {

// `nn.TransformerEncoder` makes nested tensors of padded ones where padding is at the end, which this device has none of.
bool is_left_aligned(const at::Tensor&, const at::Tensor&) {
  return false;
}

// A mask as attention adds it: `kind` is 0 for (queries, keys), 1 for (rows, keys), 2 for all four dimensions.
std::optional<at::Tensor> addend(const std::optional<at::Tensor>& mask, std::optional<int64_t> kind, at::ScalarType type) {
  if (!mask || !mask->defined()) return std::nullopt;
  const auto wide = kind == 1 ? mask->view({mask->size(0), 1, 1, mask->size(1)}) : *mask;
  return wide.scalar_type() == at::kBool ? wide.logical_not() : wide.to(type);
}

struct Attention {
  int64_t heads;
  const at::Tensor &inputs_weight, &inputs_bias, &output_weight, &output_bias;

  at::Tensor of(const at::Tensor& x, const std::optional<at::Tensor>& mask, std::optional<int64_t> kind) const {
    const auto rows = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts = at::linear(x, inputs_weight, inputs_bias)
                           .view({rows, length, 3, heads, width / heads})
                           .permute({2, 0, 3, 1, 4});
    const auto query = parts[0];
    const auto mixed =
        at::scaled_dot_product_attention(query, parts[1], parts[2], addend(mask, kind, query.scalar_type()));
    return at::linear(mixed.transpose(1, 2).reshape({rows, length, width}), output_weight, output_bias);
  }
};

at::Tensor encoder_layer(
    const at::Tensor& src, int64_t width, int64_t heads, const at::Tensor& inputs_weight, const at::Tensor& inputs_bias,
    const at::Tensor& output_weight, const at::Tensor& output_bias, bool use_gelu, bool norm_first, double eps,
    const at::Tensor& norm_weight_1, const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
    const at::Tensor& norm_bias_2, const at::Tensor& up_weight, const at::Tensor& up_bias, const at::Tensor& down_weight,
    const at::Tensor& down_bias, const std::optional<at::Tensor>& mask, std::optional<int64_t> kind) {
  const Attention attention{heads, inputs_weight, inputs_bias, output_weight, output_bias};
  const auto first_norm = [&](const at::Tensor& x) {
    return at::layer_norm(x, {width}, norm_weight_1, norm_bias_1, eps);
  };
  const auto second_norm = [&](const at::Tensor& x) {
    return at::layer_norm(x, {width}, norm_weight_2, norm_bias_2, eps);
  };
  const auto feed_forward = [&](const at::Tensor& x) {
    const auto up = at::linear(x, up_weight, up_bias);
    return at::linear(use_gelu ? at::gelu(up) : at::relu(up), down_weight, down_bias);
  };
  if (norm_first) {
    const auto x = src + attention.of(first_norm(src), mask, kind);
    return x + feed_forward(second_norm(x));
  }
  const auto x = first_norm(src + attention.of(src, mask, kind));
  return second_norm(x + feed_forward(x));
}

// Which of its ops PyTorch takes for attention: the CPU's choice, whose fused kernel is one op of the table. That has no
// rule for batches of calls and for forward derivatives, the composed form has.
int64_t attention_choice(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    double dropout, bool causal, std::optional<double> scale, bool grouped) {
  for (const auto* t : {&query, &key, &value}) {
    if (wants_parts(*t)) return static_cast<int64_t>(sdp::SDPBackend::math);
  }
  return at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout, causal, scale, grouped);
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The gradients of fused attention, which have no derivatives themselves. Where these are wanted, the composed form is
// differentiated, in whose place the fused one was taken.
Gradients attention_gradients(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& out,
    const at::Tensor& sums, double dropout, bool causal, const std::optional<at::Tensor>& mask, std::optional<double> scale) {
  const std::vector<at::Tensor> given{query, key, value};
  const auto tracked = [](const at::Tensor& t) { return t.requires_grad(); };
  if (!at::GradMode::is_enabled() || !(tracked(grad) || std::any_of(given.begin(), given.end(), tracked))) {
    const at::AutoDispatchBelowAutograd below;
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, key, value, out, sums, dropout, causal, mask, scale);
  }
  const auto bias = mask && mask->defined() ? mask : std::nullopt;
  std::vector<at::Tensor> own;  // one may have been computed from another
  for (const auto& t : given) own.push_back(tracked(t) ? t.view_as(t) : t.detach().requires_grad_());
  const auto mixed = std::get<0>(at::_scaled_dot_product_attention_math(
      own[0], own[1], own[2], bias, dropout, causal, {}, scale, query.size(1) != key.size(1)));
  const auto grads = torch::autograd::grad({mixed}, own, {grad}, /*retain_graph=*/true, /*create_graph=*/true);
  return {grads[0], grads[1], grads[2]};
}

}  // namespace

void register_transformer_ops(torch::Library& aten, std::unordered_set<std::string>& taken) {
  aten.impl("_transformer_encoder_layer_fwd", &encoder_layer);
  aten.impl("_nested_tensor_from_mask_left_aligned", &is_left_aligned);
  static torch::Library gradients(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  gradients.impl("_scaled_dot_product_flash_attention_for_cpu_backward", &attention_gradients);
  taken.insert("aten::_transformer_encoder_layer_fwd.default");
  taken.insert("aten::_nested_tensor_from_mask_left_aligned.default");
}

}  // namespace torchtpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torchtpu::attention_choice)
}  // namespace at::native
