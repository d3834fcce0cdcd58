//! The optimized program that a plugin keeps with an executable: what it says, and how it reads.

mod attributes;
mod proto;
mod text;

use std::sync::Arc;

use prost::Message;

use crate::error::{Error, Result};
use crate::executable::Signature;
use crate::ffi::RawExecutable;
use crate::types::{ElementType, TensorType};
use proto::{HloModuleProto, HloModuleProtoWithConfig, ShapeProto};

/// A program as the plugin's compiler left it, in the plugin's own format.
#[derive(Debug, Clone)]
pub struct OptimizedProgram {
    /// `hlo` (an `HloModuleProto`) or `hlo_with_config` (the same with its configuration).
    pub format: String,
    /// The serialized program.
    pub bytes: Vec<u8>,
}

impl OptimizedProgram {
    pub(crate) fn of(executable: &RawExecutable) -> Result<OptimizedProgram> {
        let (format, bytes) = executable.optimized_program()?;
        Ok(OptimizedProgram { format, bytes })
    }

    /// The program as text in the style of HLO, for people: fusions, layouts and source positions included.
    /// Constants of more than sixteen elements are elided, and so are attributes that only a compiler needs.
    ///
    /// # Errors
    /// [`Error::Decode`] for formats other than HLO and for bytes that do not decode.
    pub fn to_text(&self) -> Result<String> {
        Ok(text::print(&self.module()?))
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

    fn module(&self) -> Result<HloModuleProto> {
        let decoded = match self.format.as_str() {
            "hlo" => HloModuleProto::decode(self.bytes.as_slice()),
            "hlo_with_config" => HloModuleProtoWithConfig::decode(self.bytes.as_slice())
                .map(|module| module.hlo_module.unwrap_or_default()),
            other => return Err(Error::Decode(format!("its format is `{other}`"))),
        };
        decoded.map_err(|error| Error::Decode(error.to_string()))
    }
}

/// `xla.PrimitiveType` numbers of the element types, which are not the C API's.
const PRIMITIVE_TYPES: [(i32, ElementType); 29] = [
    (1, ElementType::Pred),
    (2, ElementType::S8),
    (3, ElementType::S16),
    (4, ElementType::S32),
    (5, ElementType::S64),
    (6, ElementType::U8),
    (7, ElementType::U16),
    (8, ElementType::U32),
    (9, ElementType::U64),
    (10, ElementType::F16),
    (11, ElementType::F32),
    (12, ElementType::F64),
    (15, ElementType::C64),
    (16, ElementType::Bf16),
    (17, ElementType::Token),
    (18, ElementType::C128),
    (19, ElementType::F8E5M2),
    (20, ElementType::F8E4M3Fn),
    (21, ElementType::S4),
    (22, ElementType::U4),
    (23, ElementType::F8E4M3B11Fnuz),
    (24, ElementType::F8E5M2Fnuz),
    (25, ElementType::F8E4M3Fnuz),
    (26, ElementType::S2),
    (27, ElementType::U2),
    (28, ElementType::F8E4M3),
    (29, ElementType::F8E3M4),
    (32, ElementType::F4E2M1Fn),
    (33, ElementType::F8E8M0Fnu),
];

/// `xla.PrimitiveType.TUPLE`.
const TUPLE: i32 = 13;

fn element_type(primitive_type: i32) -> Option<ElementType> {
    PRIMITIVE_TYPES.iter().find(|(number, _)| *number == primitive_type).map(|(_, ty)| *ty)
}

fn tensor_type(shape: &ShapeProto) -> Result<TensorType> {
    let ty = element_type(shape.element_type)
        .ok_or_else(|| Error::Decode(format!("an argument has primitive type {}", shape.element_type)))?;
    Ok(TensorType::new(ty, shape.dimensions.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_has_a_primitive_type() {
        for &ty in ElementType::ALL.iter().filter(|&&ty| ty != ElementType::Invalid) {
            assert!(PRIMITIVE_TYPES.iter().any(|(_, known)| *known == ty), "{ty}");
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
