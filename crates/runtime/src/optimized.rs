//! The optimized program that a plugin keeps with an executable: what it says, and how it reads.

use std::sync::Arc;

use hlo::primitive;
use hlo::proto::{HloModuleProto, ShapeProto};

use crate::error::{Error, Result};
use crate::executable::Signature;
use crate::ffi::RawCompiled;
use crate::types::{ElementType, TensorType};

/// A program as the plugin's compiler left it, in the plugin's own format.
#[derive(Debug, Clone)]
pub struct OptimizedProgram {
    /// `hlo` (an `HloModuleProto`) or `hlo_with_config` (the same with its configuration).
    pub format: String,
    /// The serialized program.
    pub bytes: Vec<u8>,
}

impl OptimizedProgram {
    pub(crate) fn of(executable: &RawCompiled) -> Result<OptimizedProgram> {
        let (format, bytes) = executable.optimized_program()?;
        Ok(OptimizedProgram { format, bytes })
    }

    /// The program as text in the style of HLO, for people: fusions, layouts and source positions included.
    /// Constants of more than sixteen elements are elided, and so are attributes that only a compiler needs.
    ///
    /// # Errors
    /// [`Error::Decode`] for formats other than HLO and for bytes that do not decode.
    pub fn to_text(&self) -> Result<String> {
        Ok(hlo::print(&self.module()?))
    }

    /// Arguments and donations of the program's entry.
    ///
    /// # Errors
    /// [`Error::Decode`], also for arguments that are no tensors.
    pub fn signature(&self) -> Result<Signature> {
        let module = self.module()?;
        let shape = module.host_program_shape.unwrap_or_default();
        let inputs = shape.parameters.iter().map(|shape| Ok(Arc::new(tensor_type(shape)?)));
        let inputs: Vec<Arc<TensorType>> = inputs.collect::<Result<_>>()?;
        let aliased = module.input_output_alias.unwrap_or_default().entries;
        let donors = module.buffer_donor.unwrap_or_default().entries;
        let numbers = aliased.iter().map(|entry| entry.parameter_number);
        let numbers = numbers.chain(donors.iter().map(|entry| entry.parameter_number));
        let donated: Vec<usize> = numbers.filter_map(|number| usize::try_from(number).ok()).collect();
        Ok(Signature { inputs, donated: Vec::new() }.donating(donated))
    }

    /// The program itself.
    ///
    /// # Errors
    /// [`Error::Decode`] for formats other than HLO and for bytes that do not decode.
    pub fn module(&self) -> Result<HloModuleProto> {
        hlo::decode(&self.format, &self.bytes).map_err(Error::Decode)
    }
}

fn tensor_type(shape: &ShapeProto) -> Result<TensorType> {
    let named = |name| ElementType::ALL.iter().copied().find(|ty| ty.name() == name);
    let ty = primitive::name(shape.element_type)
        .and_then(named)
        .ok_or_else(|| Error::Decode(format!("an argument has primitive type {}", shape.element_type)))?;
    Ok(TensorType::new(ty, shape.dimensions.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_has_a_primitive_type() {
        for &ty in ElementType::ALL.iter().filter(|&&ty| ty != ElementType::Invalid) {
            let number = (0..64).find(|&number| primitive::name(number) == Some(ty.name()));
            let bits = number.map(primitive::bits);
            assert_eq!(bits.map(|bits| bits as usize), Some(ty.bits()), "{ty}");
        }
    }

    #[test]
    fn garbage_and_foreign_formats_are_errors() {
        let decode = |format: &str, bytes: &[u8]| {
            let program = OptimizedProgram { format: format.to_owned(), bytes: bytes.to_owned() };
            program.to_text().map_err(|error| error.to_string())
        };
        let foreign = decode("llo", &[]).expect_err("not HLO");
        assert_eq!(foreign, "cannot decode the optimized program: its format is `llo`");
        assert!(decode("hlo", &[0xff; 40]).is_err());
    }
}
