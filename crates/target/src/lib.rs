//! TPU generations and slices: what a `v5e:2x2` is, and what its chips can do.
//!
//! [`Target`] is a slice as users write it. [`Chip`] is what a generation's chips have, each figure with its source.
//! Nothing here loads a compiler; whether libtpu knows a slice, only libtpu can tell.

mod chip;

pub use chip::{Chip, Generation, Host};

use std::fmt;
use std::str::FromStr;

/// A slice of one generation: `v5e:2x2`, `v5p:2x2x1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The generation.
    pub generation: Generation,
    /// Chips along each dimension of the slice's mesh: two for v2, v3, v5e and v6e, three for the others.
    pub shape: Vec<u32>,
}

/// Text that names no slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no TPU slice: {reason}")]
pub struct InvalidTarget {
    text: String,
    reason: String,
}

impl Target {
    /// The slice of one generation with this shape.
    ///
    /// # Errors
    /// For a wrong number of dimensions, and for slices without chips or with more than a pod has.
    pub fn new(generation: Generation, shape: Vec<u32>) -> Result<Target, String> {
        let dimensions = generation.chip().mesh_dimensions;
        if shape.len() != dimensions {
            let example = ["4", "2x2", "2x2x1"][dimensions.clamp(1, 3) - 1];
            return Err(format!(
                "a {generation} slice has {dimensions} dimensions, as in {generation}:{example}, not {}",
                shape.len()
            ));
        }
        let chips = shape.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
        let most = generation.chip().pod_chips;
        match chips.filter(|&chips| chips <= most) {
            None => Err(format!("it has more chips than a {generation} pod, which has {most}")),
            Some(0) => Err("it has no chips".to_owned()),
            Some(_) => Ok(Target { generation, shape }),
        }
    }

    /// What its chips have.
    pub fn chip(&self) -> &'static Chip {
        self.generation.chip()
    }

    /// How many chips it has.
    pub fn num_chips(&self) -> u32 {
        self.shape.iter().product()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(u32::to_string).collect();
        write!(f, "{}:{}", self.generation, shape.join("x"))
    }
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Target, InvalidTarget> {
        let invalid = |reason: String| InvalidTarget { text: text.to_owned(), reason };
        let (generation, shape) = text.split_once(':').unwrap_or((text, ""));
        let known = || Generation::ALL.iter().map(Generation::to_string).collect::<Vec<_>>().join(", ");
        let generation = generation
            .parse::<Generation>()
            .map_err(|()| invalid(format!("there is no generation `{generation}`; there are {}", known())))?;
        if shape.is_empty() {
            let example = if generation.chip().mesh_dimensions == 2 { "2x2" } else { "2x2x1" };
            return Err(invalid(format!("it lacks its shape, as in {generation}:{example}")));
        }
        let sizes = shape.split('x').map(|size| match size.parse::<u32>() {
            Ok(size) if !size_is_spelled_oddly(shape) => Ok(size),
            _ => Err(invalid(format!("`{shape}` is no shape such as 2x2"))),
        });
        Target::new(generation, sizes.collect::<Result<_, _>>()?).map_err(invalid)
    }
}

/// `+2x2` and `02x2` parse as numbers, and would make a second name for the same slice.
fn size_is_spelled_oddly(shape: &str) -> bool {
    shape.split('x').any(|size| size.starts_with(['+', '0']) && size != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_read_as_they_are_written() {
        for text in ["v2:2x2", "v3:4x4", "v4:2x2x1", "v5e:1x1", "v5p:16x16x16", "v6e:2x4", "tpu7x:2x2x1"] {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_is_no_slice_says_why() {
        let error = |text: &str| text.parse::<Target>().map_err(|error| error.to_string()).expect_err("is no slice");
        assert_eq!(
            error("v9:2x2"),
            "`v9:2x2` is no TPU slice: there is no generation `v9`; there are v2, v3, v4, v5e, v5p, v6e, tpu7x"
        );
        assert_eq!(error("v5e"), "`v5e` is no TPU slice: it lacks its shape, as in v5e:2x2");
        assert_eq!(error("v5p:2x2"), "`v5p:2x2` is no TPU slice: a v5p slice has 3 dimensions, as in v5p:2x2x1, not 2");
        assert_eq!(error("v5e:2y2"), "`v5e:2y2` is no TPU slice: `2y2` is no shape such as 2x2");
        assert_eq!(error("v5e:02x2"), "`v5e:02x2` is no TPU slice: `02x2` is no shape such as 2x2");
        assert!(error("v5e:0x2").ends_with("it has no chips"));
        assert!(error("v5e:65536x65536").ends_with("more chips than a v5e pod, which has 256"));
        assert!(error("v5e:100x100").ends_with("more chips than a v5e pod, which has 256"));
        assert!(error("v5p:32x32x32").ends_with("more chips than a v5p pod, which has 8960"));
    }
}
