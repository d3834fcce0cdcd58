//! What the eager device has to know of an op beyond what it computes.

use super::{Entry, Rule, Variant};

/// How PyTorch's CPU lays out the first result of a call that makes new tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strides {
    /// As PyTorch's meta kernel says.
    Meta,
    /// In rows.
    Rows,
    /// In the memory format that the strides of this argument suggest.
    Suggested(&'static str),
    /// In rows if this argument lies in rows, as one with a single channel may in any format, and those before it suggest
    /// the same format; else as its strides suggest.
    RowsOrSuggested(&'static str),
    /// As whatever is computed element by element of the first two arguments, if both are tensors.
    ByElement,
    /// As a roll does: without `dims` in rows, else as the strides of what is rolled suggest.
    Rolled,
    /// As the kernel does that the CPU picks for a convolution of these arguments.
    Convolved,
}

/// What a call needs besides being handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Nothing.
    #[default]
    Plain,
    /// It writes one value everywhere: elements that it writes in place may share their places.
    Fill,
    /// Its first argument chooses, and may be of bytes, which PyTorch deprecates and its meta kernel refuses.
    Choice,
    /// Numbers alone say how large the `out` is that it writes.
    Range,
    /// It is a convolution, in whose place `torch.jit.trace` records `_convolution`.
    Convolution,
}

impl Entry {
    /// How the CPU lays out the first result, and the place of the argument that decides, or 0.
    pub fn strides(&self) -> (Strides, usize) {
        if self.variant != Variant::Functional {
            return (Strides::Meta, 0);
        }
        let strides = self.def.strides;
        let place = match strides {
            Strides::Suggested(name) | Strides::RowsOrSuggested(name) => self.schema.position(name),
            _ => None,
        };
        (strides, place.unwrap_or(0))
    }

    /// What calls of this overload need.
    pub fn manner(&self) -> Manner {
        let applies = match self.def.manner {
            Manner::Plain | Manner::Choice => true,
            Manner::Convolution => self.variant == Variant::Functional,
            Manner::Fill => self.variant == Variant::InPlace,
            Manner::Range => self.variant == Variant::Out,
        };
        if applies { self.def.manner } else { Manner::Plain }
    }

    /// Whether it gives what only the data tells: a tensor of a size that is data, or a number.
    pub fn gives_data(&self) -> bool {
        matches!(self.def.rule, Rule::Bounded(_)) || self.def.schema.starts_with("aten::_local_scalar_dense(")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn arguments_that_decide_strides_are_in_the_schemas() {
        for entry in ops::names().into_iter().filter_map(ops::find) {
            if let Strides::Suggested(name) | Strides::RowsOrSuggested(name) = entry.def.strides {
                assert!(entry.schema.position(name).is_some(), "{} has no argument {name}", entry.schema.name);
            }
        }
    }

    #[test]
    fn an_overload_is_called_in_its_own_manner() {
        let manner = |name| ops::find(name).map(|entry: Entry| entry.manner());
        assert_eq!(manner("aten::fill_.Scalar"), Some(Manner::Fill));
        assert_eq!(manner("aten::fill.Scalar"), Some(Manner::Plain));
        assert_eq!(manner("aten::fill.Scalar_out"), Some(Manner::Plain));
        assert_eq!(manner("aten::arange.start_out"), Some(Manner::Range));
        assert_eq!(manner("aten::arange.start_step"), Some(Manner::Plain));
        assert_eq!(manner("aten::where.self_out"), Some(Manner::Choice));
    }

    #[test]
    fn only_new_tensors_are_laid_out() {
        let strides = |name| ops::find(name).map(|entry: Entry| entry.strides());
        assert_eq!(strides("aten::div.Tensor"), Some((Strides::ByElement, 0)));
        assert_eq!(strides("aten::div_.Tensor"), Some((Strides::Meta, 0)));
        assert_eq!(strides("aten::div.out"), Some((Strides::Meta, 0)));
        assert_eq!(strides("aten::native_batch_norm_backward.default"), Some((Strides::RowsOrSuggested("input"), 1)));
    }
}
