// What PyTorch's transformer layers call in inference instead of their own ops, said in ops that run on the device.

#include <ATen/ATen.h>

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

}  // namespace

void register_transformer_ops(torch::Library& aten, std::unordered_set<std::string>& taken) {
  aten.impl("_transformer_encoder_layer_fwd", &encoder_layer);
  aten.impl("_nested_tensor_from_mask_left_aligned", &is_left_aligned);
  taken.insert("aten::_transformer_encoder_layer_fwd.default");
  taken.insert("aten::_nested_tensor_from_mask_left_aligned.default");
}

}  // namespace torchtpu
