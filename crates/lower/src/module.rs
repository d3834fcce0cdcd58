//! A finished module: bytes.

use crate::session::{complaints, context};
use ir::{Error, Result};
use melior::Context;
use melior::ir::operation::{OperationLike, OperationPrintingFlags};

/// A StableHLO module as MLIR bytecode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    bytecode: Vec<u8>,
    donated: Vec<usize>,
}

/// How to print a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Print source locations.
    pub locations: bool,
    /// Leave out the elements of constants that have more than this many. The text is then for reading only.
    pub elide: Option<usize>,
}

impl Module {
    pub(crate) fn new(module: &melior::ir::Module<'_>, donated: Vec<usize>) -> Module {
        Module { bytecode: module.as_operation().write_bytecode(), donated }
    }

    /// What plugins compile.
    pub fn bytecode(&self) -> &[u8] {
        &self.bytecode
    }

    /// What plugins compile.
    pub fn into_bytecode(self) -> Vec<u8> {
        self.bytecode
    }

    /// Positions of the arguments that give their memory to a result, ascending.
    pub fn donated(&self) -> &[usize] {
        &self.donated
    }

    /// MLIR text without locations. Plugins compile it too.
    ///
    /// # Errors
    /// See [`Module::text_with`].
    pub fn text(&self) -> Result<String> {
        self.text_with(TextOptions::default())
    }

    /// MLIR text.
    ///
    /// # Errors
    /// `Internal`, if MLIR does not read its own bytecode back.
    pub fn text_with(&self, options: TextOptions) -> Result<String> {
        let context = context();
        let (module, why) = complaints(&context, || read(&context, &self.bytecode));
        let module = module.ok_or_else(|| Error::internal(format!("MLIR does not read its bytecode: {why}")))?;
        let mut flags = OperationPrintingFlags::new().enable_debug_info(options.locations, false);
        if let Some(limit) = options.elide {
            flags = flags.elide_large_elements_attributes(limit);
        }
        module.as_operation().to_string_with_flags(flags).map_err(|e| Error::internal(e.to_string()))
    }
}

/// melior's parser takes text without NUL bytes only.
#[allow(unsafe_code)]
fn read<'c>(context: &'c Context, bytecode: &[u8]) -> Option<melior::ir::Module<'c>> {
    let source = mlir_sys::MlirStringRef { data: bytecode.as_ptr().cast(), length: bytecode.len() };
    // SAFETY: the context and the bytes outlive the call, which copies what it keeps; the result is null or a module
    // of `context`, owned by nobody else.
    unsafe { melior::ir::Module::from_option_raw(mlir_sys::mlirModuleCreateParse(context.to_raw(), source)) }
}
