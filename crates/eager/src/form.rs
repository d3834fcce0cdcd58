//! Programs that no op asks for, which give a value another form.

use crate::cells::Held;
use crate::core::Core;
use crate::error::{Error, Result};
use ir::alias::Layout;
use ir::eager::CellType;
use ir::{DType, Shape};
use runtime::{Executable, ExecuteOptions};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Programs that are kept. Where results are cut is data, so there is no end of them.
const MOST: usize = 256;

/// What is made of a value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Its first elements in each dimension.
    Cut(Shape),
    /// Elements of another type, of which there are at least so many: see [`ir::eager::flatten`].
    Elements(DType, usize),
}

/// By the type of a value and the form it gets: the program, and the type that it gives.
pub(crate) type Forms = FxHashMap<(CellType, Form), (Arc<Executable>, CellType)>;

impl Core {
    /// `value`, of type `ty`, in the form `form`, and its type then.
    ///
    /// # Errors
    /// `Invalid`, if a value of that type has no such form; what the plugin refuses.
    pub(crate) fn formed(
        &self,
        value: &Held,
        ty: &CellType,
        form: Form,
        device: usize,
    ) -> Result<(Arc<Held>, CellType)> {
        if let Form::Cut(sizes) = &form
            && sizes[1..] == ty.layout.sizes[1..]
            && let Some(rows) = value.buffer()?.first_rows(sizes[0])?
        {
            return Ok((Held::new(rows, self.ledger(device)), cut(ty, sizes)));
        }
        let (executable, next) = self.forming((ty.clone(), form))?;
        let options = ExecuteOptions { device: Some(self.device(device)?), ..ExecuteOptions::default() };
        let mut run = executable.execute(&[value.buffer()?], &options)?;
        let output = run.outputs.pop().ok_or_else(|| Error::internal("no output"))?;
        Ok((Held::new(output, self.ledger(device)), next))
    }

    fn forming(&self, key: (CellType, Form)) -> Result<(Arc<Executable>, CellType)> {
        if let Some(known) = self.lock().forms.get(&key) {
            return Ok(known.clone());
        }
        let (ty, form) = &key;
        let (graph, next) = match form {
            Form::Cut(sizes) => (ir::eager::cut(ty, sizes)?, cut(ty, sizes)),
            Form::Elements(dtype, places) => ir::eager::flatten(ty, *dtype, *places)?,
        };
        let made = (self.session().kernel(&graph)?.executable, next);
        let mut state = self.lock();
        if state.forms.len() >= MOST {
            state.forms.clear();
        }
        state.forms.insert(key, made.clone());
        Ok(made)
    }
}

/// The type of a value of type `ty` that is cut down to `sizes`.
fn cut(ty: &CellType, sizes: &Shape) -> CellType {
    let order = ty.layout.dense_order().unwrap_or_else(|| (0..sizes.len()).collect());
    CellType { dtype: ty.dtype, layout: Layout::dense(sizes, &order) }
}
