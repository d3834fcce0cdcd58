//! Numbers and types of the trace under the present bindings.

use super::{Binding, Importer, Scope, known};
use crate::alias::Layout;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::literal::Number;
use crate::ops::Scalar;
use crate::symbol::{Expr, Sym};
use crate::trace::codes;
use crate::trace::schema::{SymBool, SymBoolArgument, SymFloat, SymFloatArgument, SymInt, SymIntArgument, TensorMeta};
use crate::types::{Shape, TensorType};
use crate::{ensure, invalid};
use std::sync::Arc;

/// PyTorch's limit on dimensions.
const MAX_RANK: usize = 64;

impl<'t> Importer<'t> {
    /// The value of an expression.
    pub(super) fn symbolic(&self, text: &'t str) -> Result<Scalar> {
        if let Some(sym) = self.expressions.borrow().get(text) {
            return Ok(scalar(sym.clone()));
        }
        let expr = Expr::parse(text)?;
        let sym = self.sym(&expr, text.into())?;
        self.expressions.borrow_mut().insert(text, sym.clone());
        Ok(scalar(sym))
    }

    /// `expr`, spelled `text`, with its value.
    pub(super) fn sym(&self, expr: &Expr, text: Arc<str>) -> Result<Sym> {
        let free = expr.free();
        if let Some(name) = free.iter().find(|s| self.context.symbols.get(s).is_none()) {
            return Err(self.unbound(name));
        }
        let value = expr.evaluate(&|s| self.context.symbols.get(s))?;
        let (learned, given): (Vec<_>, Vec<_>) = free.iter().cloned().partition(|s| self.context.symbols.is_learned(s));
        if learned.is_empty() {
            return Ok(Sym { expr: text, free, value });
        }
        // Nobody outside could evaluate it: the program holds for this value.
        self.context.symbols.consult(&Sym { expr: text.clone(), free: given.into(), value });
        Ok(Sym { expr: text, free: Arc::new([]), value })
    }

    /// Binds the symbols that stand for extents of the value called `name`, and have no value, to those that it has.
    pub(super) fn learn(&self, scope: &Scope<'t>, name: &str, shape: &[usize]) -> Result<()> {
        let Some(meta) = scope.graph.tensor_values.get(name) else { return Ok(()) };
        for (size, &extent) in meta.sizes.iter().zip(shape) {
            let SymInt::AsExpr(e) = size else { continue };
            if let Expr::Symbol(symbol) = Expr::parse(&e.expr_str)?
                && self.context.symbols.get(&symbol).is_none()
            {
                self.context.symbols.learn(symbol, extent as i64);
            }
        }
        Ok(())
    }

    fn unbound(&self, name: &str) -> Error {
        if name.starts_with('u') {
            return Error::unsupported(format!("`{name}` depends on the data of a tensor"))
                .with_help("make the size or number independent of tensor values, or compile the part without it");
        }
        let range = self.trace.range_constraints.get(name);
        let range = range.map(|r| format!(" in {}", super::inputs::range_text(r))).unwrap_or_default();
        Error::invalid(format!("symbol `{name}` has no value"))
            .with_help(format!("give it one{range}: `--dim {name}=8`, or inputs from whose shapes it follows"))
    }

    /// The number behind `s`; the program depends on it from here on.
    pub(super) fn consult(&self, s: &Scalar) -> Number {
        match s {
            Scalar::Known(n) => *n,
            Scalar::Symbolic(sym) => self.context.symbols.consult(sym),
        }
    }

    /// A size, without the program depending on it.
    fn int(&self, i: &'t SymInt) -> Result<i64> {
        let number = match i {
            SymInt::AsInt(i) => return Ok(*i),
            SymInt::AsExpr(e) => match self.symbolic(&e.expr_str)? {
                Scalar::Known(n) => n,
                Scalar::Symbolic(s) => s.value,
            },
        };
        match number {
            Number::Int(i) => Ok(i),
            other => Err(Error::invalid(format!("a size is {other:?}"))),
        }
    }

    /// Makes the program depend on the symbols in `meta`'s sizes.
    pub(super) fn depend_on(&self, meta: &'t TensorMeta) -> Result<()> {
        for size in &meta.sizes {
            if let SymInt::AsExpr(e) = size {
                self.consult(&self.symbolic(&e.expr_str)?);
            }
        }
        Ok(())
    }

    /// The type and layout of a tensor value.
    pub(super) fn tensor_meta(&self, scope: &Scope<'t>, name: &str) -> Result<(DType, Layout)> {
        let Some(meta) = scope.graph.tensor_values.get(name) else { invalid!("the trace gives no type for `{name}`") };
        self.layout_of(name, meta)
    }

    /// The element type of a tensor value, whose extents may not be known yet.
    pub(super) fn recorded_dtype(&self, scope: &Scope<'t>, name: &str) -> Result<DType> {
        let Some(meta) = scope.graph.tensor_values.get(name) else { invalid!("the trace gives no type for `{name}`") };
        codes::dtype(meta.dtype)
    }

    pub(super) fn layout_of(&self, name: &str, meta: &'t TensorMeta) -> Result<(DType, Layout)> {
        if let Some(layout) = meta.layout {
            codes::layout(layout)?;
        }
        let dtype = codes::dtype(meta.dtype)?;
        ensure!(meta.sizes.len() <= MAX_RANK, "`{name}` has {} dimensions", meta.sizes.len());
        let number = |i: &'t SymInt| -> Result<usize> {
            let i = self.int(i)?;
            usize::try_from(i).map_err(|_| Error::invalid(format!("`{name}` has an extent or stride of {i}")))
        };
        let sizes = meta.sizes.iter().map(number).collect::<Result<Shape>>()?;
        let bytes =
            TensorType { dtype, shape: sizes.clone() }.checked_numel().and_then(|n| n.checked_mul(dtype.size()));
        ensure!(bytes.is_some_and(|b| b <= isize::MAX as usize), "`{name}` of extents {:?} is too large", &sizes[..]);
        if meta.strides.len() != meta.sizes.len() {
            return Ok((dtype, Layout::contiguous(sizes)));
        }
        let strides = meta.strides.iter().map(number).collect::<Result<_>>()?;
        Ok((dtype, Layout { sizes, strides, offset: 0 }))
    }

    /// The number that the trace's table of values gives for `name`; `None` where it has none or it depends on data.
    pub(super) fn tabled(&self, scope: &Scope<'t>, name: &str) -> Option<Scalar> {
        let graph = scope.graph;
        let text = if let Some(v) = graph.sym_int_values.get(name) {
            match v {
                SymInt::AsInt(i) => return Some(known(Number::Int(*i))),
                SymInt::AsExpr(e) => &e.expr_str,
            }
        } else if let Some(v) = graph.sym_float_values.get(name) {
            match v {
                SymFloat::AsFloat(x) => return Some(known(Number::Float(x.0))),
                SymFloat::AsExpr(e) => &e.expr_str,
            }
        } else {
            match graph.sym_bool_values.get(name)? {
                SymBool::AsBool(b) => return Some(known(Number::Bool(*b))),
                SymBool::AsExpr(e) => &e.expr_str,
            }
        };
        self.symbolic(text).ok()
    }

    /// The number called `name`.
    pub(super) fn number(&self, scope: &Scope<'t>, name: &str) -> Result<Scalar> {
        match scope.names.get(name) {
            Some(Binding::Number(s)) => Ok(s.clone()),
            Some(_) => invalid!("`{name}` is used as a number, but is none"),
            None => invalid!("value `{name}` is used, but nothing defines it"),
        }
    }

    pub(super) fn sym_int(&self, scope: &Scope<'t>, a: &SymIntArgument) -> Result<Scalar> {
        match a {
            SymIntArgument::AsInt(i) => Ok(known(Number::Int(*i))),
            SymIntArgument::AsName(name) => self.number(scope, name),
        }
    }
    pub(super) fn sym_float(&self, scope: &Scope<'t>, a: &SymFloatArgument) -> Result<Scalar> {
        match a {
            SymFloatArgument::AsFloat(x) => Ok(known(Number::Float(x.0))),
            SymFloatArgument::AsInt(i) => Ok(known(Number::Int(*i))),
            SymFloatArgument::AsName(name) => self.number(scope, name),
        }
    }
    pub(super) fn sym_bool(&self, scope: &Scope<'t>, a: &SymBoolArgument) -> Result<Scalar> {
        match a {
            SymBoolArgument::AsBool(b) => Ok(known(Number::Bool(*b))),
            SymBoolArgument::AsName(name) => self.number(scope, name),
        }
    }
}

/// A number without symbols is known.
fn scalar(sym: Sym) -> Scalar {
    if sym.free.is_empty() { Scalar::Known(sym.value) } else { Scalar::Symbolic(sym) }
}
