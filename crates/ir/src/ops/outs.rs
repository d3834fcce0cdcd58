//! In whose words an `out=` overload refuses a tensor of another element type than the result, where PyTorch's
//! kernel takes no other: most convert.

use super::support::{cpp_type, torch_name};
use crate::DType;

/// The refusal of the `out` tensor at a place: of the element type that it should have, and of the one that it has.
pub type OutWords = fn(usize, DType, DType) -> String;

/// As PyTorch's `resize_output` and structured kernels say it.
pub(super) fn typed(_: usize, want: DType, have: DType) -> String {
    format!("Expected out tensor to have dtype {}, but got {} instead", cpp_type(want), cpp_type(have))
}

/// As its iterators over tensors do, if told not to convert.
pub(super) fn iterated(_: usize, want: DType, have: DType) -> String {
    format!("Found dtype {} but expected {}", torch_name(have), torch_name(want))
}

/// As its checks of a scalar type do.
pub(super) fn scalar_type(_: usize, want: DType, have: DType) -> String {
    format!("expected scalar_type {} but found {}", torch_name(want), torch_name(have))
}

pub(super) fn kthvalue(place: usize, _: DType, _: DType) -> String {
    let values = place == 0;
    if values { "output values must be of same type as input" } else { "output indices must be of scalar type Long" }
        .to_owned()
}

pub(super) fn median(place: usize, want: DType, have: DType) -> String {
    let (want, have) = (torch_name(want), torch_name(have));
    if place == 0 {
        return format!(
            "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but type \
             torch.{have}Tensor does not equal torch.{want}Tensor (while checking arguments for median)"
        );
    }
    format!(
        "Expected tensor for argument #1 'indices' to have scalar type {want}; but got torch.{have}Tensor instead \
         (while checking arguments for median)"
    )
}

pub(super) fn mode(place: usize, want: DType, have: DType) -> String {
    let output = if place == 0 { "values" } else { "indices" };
    format!("expected scalar type '{}' but got '{}' for {output} output", torch_name(want), torch_name(have))
}

pub(super) fn take(_: usize, want: DType, have: DType) -> String {
    format!(
        "take(): self and out expected to have the same dtype, but got self.dtype = {} and out.dtype = {}",
        torch_name(want),
        torch_name(have)
    )
}

pub(super) fn complex(_: usize, want: DType, have: DType) -> String {
    let (want, have) = (torch_name(want), torch_name(have));
    format!("Expected object of scalar type {want} but got scalar type {have} for argument 'out'")
}

pub(super) fn searchsorted(_: usize, want: DType, have: DType) -> String {
    let narrow = if want == DType::I32 { "True" } else { "False" };
    format!(
        "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on \
         whether out_int32 flag is True, but we got output tensor's dtype {} and out_int32 flag is {narrow}",
        torch_name(have)
    )
}
