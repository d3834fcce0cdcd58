//! Samples of good and bad calls, written as text beside each op.
//!
//! The arguments follow the schema: positional first, then `name=value`.
//!
//! | text | means |
//! |---|---|
//! | `f32[3,4]` | a tensor; its values are drawn by element type, see [`data`] |
//! | `i64[5]{0..10}` | values drawn from 0 up to, not including, 10 |
//! | `f32[4]{1,-0.0,nan,inf}` | these values, over and over if they are too few |
//! | `f32[3,4]:[1,3]` | strides other than row-major, in elements |
//! | `[1, -1]`, `[none, i64[3]{0..4}]` | a list, of tensors too; one number also stands for a fixed-length list |
//! | `none`, `true`, `2`, `1e-5`, `-inf`, `nan`, `2j` | `None` and numbers |
//! | `'tanh'` | a string |
//! | `f16` | an element type |
//! | `channels_last`, `contiguous_format` | a memory format |
//! | `device(cpu)`, `strided` | a device, a layout |

mod call;
pub mod data;
mod parse;

pub use call::{Expansion, Results, expand, expand_for, expansions, extent};
pub use parse::{SampleArg, SampleTensor, Values, bind};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::ops::{Entry, all, find};

    fn run(entry: &Entry, sample: &Sample) -> Result<Expansion> {
        let args = bind(entry.schema, sample.args).expect("the sample fits the schema");
        expand_for(entry, &args, &data::literals(&args, 1, false))
    }

    /// What is wrong with `sample`, if anything.
    fn complaint(entry: &Entry, sample: &Sample) -> Option<String> {
        match (run(entry, sample), sample.error) {
            (Ok(_), None) => None,
            (Err(e), Some(text)) if e.message().contains(text) => None,
            (Ok(_), Some(text)) => Some(format!("worked, but should say `{text}`")),
            (Err(e), None) => Some(e.to_string()),
            (Err(e), Some(text)) => Some(format!("says `{e}`, not `{text}`")),
        }
    }

    #[test]
    fn samples_expand_or_fail_as_they_say() {
        let mut complaints = vec![];
        for def in all() {
            let name = crate::ops::Schema::parse(def.schema).expect("schema").name;
            let entry = find(&name).expect("an entry");
            for sample in def.samples {
                let wrong = std::panic::catch_unwind(|| complaint(&entry, sample));
                let wrong = wrong.unwrap_or_else(|_| Some("panicked, or does not fit the schema".into()));
                complaints.extend(wrong.map(|w| format!("{name}({}): {w}", sample.args)));
            }
        }
        assert!(complaints.is_empty(), "{} samples:\n{}", complaints.len(), complaints.join("\n"));
    }
}
