//! Samples of good and bad calls, written as text beside each op.
//!
//! The arguments follow the schema: positional first, then `name=value`. `f32[3,4]` is a tensor; `i64[5]{0..10}` draws
//! its values from a range; `[1, -1]` is a list, of tensors too; `none`, `true`, `1e-5`, `inf`, `'tanh'`; an element type
//! stands bare, `f16`; a memory format `channels_last`; a device `device(cpu)`.

/// One sample call.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The arguments.
    pub args: &'static str,
    /// A part of the error message that the call must give; `None` for a call that must work.
    pub error: Option<&'static str>,
}

/// A call that works and agrees with PyTorch.
pub const fn ok(args: &'static str) -> Sample {
    Sample { args, error: None }
}

/// A call that is refused with a message that holds `error`.
pub const fn err(args: &'static str, error: &'static str) -> Sample {
    Sample { args, error: Some(error) }
}
