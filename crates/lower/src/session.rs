//! One MLIR context and what emission into it shares.

use crate::LowerOptions;
use ir::{DType, Error, Result, TensorType};
use melior::Context;
use melior::dialect::DialectHandle;
use melior::ir::operation::OperationLike;
use melior::ir::r#type::{IntegerType, RankedTensorType};
use melior::ir::{Attribute, Module, Type};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// A context that knows `func` and takes any other op as it comes. Creating one takes some 20 µs.
pub(crate) fn context() -> Context {
    let context = Context::new_with_threading(false);
    context.set_allow_unregistered_dialects(true);
    DialectHandle::func().load_dialect(&context);
    context
}

/// Runs `f`; what MLIR complains about meanwhile is collected instead of printed.
pub(crate) fn complaints<T>(context: &Context, f: impl FnOnce() -> T) -> (T, String) {
    let messages = std::rc::Rc::new(RefCell::new(String::new()));
    let sink = messages.clone();
    let id = context.attach_diagnostic_handler(move |d| {
        let mut all = sink.borrow_mut();
        if !all.is_empty() {
            all.push_str("; ");
        }
        all.push_str(&d.to_string());
        true
    });
    let result = f();
    context.detach_diagnostic_handler(id);
    (result, messages.take())
}

/// Interned types and attributes of one context, and the options.
pub(crate) struct Session<'c> {
    pub(crate) context: &'c Context,
    pub(crate) options: &'c LowerOptions,
    types: RefCell<FxHashMap<TensorType, Type<'c>>>,
    parsed: RefCell<FxHashMap<String, Attribute<'c>>>,
}

impl<'c> Session<'c> {
    pub(crate) fn new(context: &'c Context, options: &'c LowerOptions) -> Session<'c> {
        Session { context, options, types: RefCell::default(), parsed: RefCell::default() }
    }

    /// The attribute that `text` spells.
    pub(crate) fn parse(&self, text: String) -> Result<Attribute<'c>> {
        if let Some(&known) = self.parsed.borrow().get(&text) {
            return Ok(known);
        }
        let (attribute, why) = complaints(self.context, || Attribute::parse(self.context, &text));
        let attribute = attribute.ok_or_else(|| Error::internal(format!("MLIR does not parse `{text}`: {why}")))?;
        self.parsed.borrow_mut().insert(text, attribute);
        Ok(attribute)
    }

    pub(crate) fn tensor(&self, ty: &TensorType) -> Result<Type<'c>> {
        if let Some(&known) = self.types.borrow().get(ty) {
            return Ok(known);
        }
        let shape: smallvec::SmallVec<[u64; 6]> = ty.shape.iter().map(|&d| d as u64).collect();
        let made = RankedTensorType::new(&shape, self.element(ty.dtype)?, None).into();
        self.types.borrow_mut().insert(ty.clone(), made);
        Ok(made)
    }

    fn element(&self, dtype: DType) -> Result<Type<'c>> {
        use DType::*;
        let signless = |bits| Ok(IntegerType::new(self.context, bits).into());
        let unsigned = |bits| Ok(IntegerType::unsigned(self.context, bits).into());
        let parse = |text| {
            Type::parse(self.context, text).ok_or_else(|| Error::internal(format!("MLIR does not know `{text}`")))
        };
        match dtype {
            Bool => signless(1),
            I8 => signless(8),
            I16 => signless(16),
            I32 => signless(32),
            I64 => signless(64),
            U8 => unsigned(8),
            U16 => unsigned(16),
            U32 => unsigned(32),
            U64 => unsigned(64),
            F8E4M3FN => parse("f8E4M3FN"),
            F8E5M2 => parse("f8E5M2"),
            BF16 => parse("bf16"),
            F16 => parse("f16"),
            F32 => parse("f32"),
            F64 => parse("f64"),
            C64 => parse("complex<f32>"),
            C128 => parse("complex<f64>"),
        }
    }

    /// Refuses a module that MLIR finds ill-formed (a value used before it is defined, say).
    pub(crate) fn check(&self, module: &Module<'c>) -> Result<()> {
        match complaints(self.context, || module.as_operation().verify()) {
            (true, _) => Ok(()),
            (false, why) => Err(Error::internal(format!("the emitted module is ill-formed: {why}"))),
        }
    }
}
