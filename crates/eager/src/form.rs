//! Programs that no op asks for, which give values another form.

use crate::build::{Reform, Seen};
use crate::cells::{Held, TypeId};
use crate::core::{Core, Request, State, hash};
use crate::error::{Error, Result};
use crate::plan::{Extents, Kernel, Output, Plan, Source, Value};
use ir::Shape;
use ir::alias::Layout;
use ir::eager::CellType;
use runtime::{Executable, ExecuteOptions};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Programs that are kept. Where results are cut is data, so there is no end of them.
const MOST: usize = 256;

/// By the type of a value and the sizes that it is cut down to.
pub(crate) type Shortened = FxHashMap<(CellType, Shape), Arc<Executable>>;

/// Cells of a call from which on there are too many ways for them to lie to have a program for each: of n tensors that are
/// alike but for the storages that they are views of, 2^n.
const MANY_CELLS: usize = 8;
/// Ways that such a call's cells may lie in before they are laid flat. Few enough to end soon, and more than a loop has whose
/// tensors come from the same places each time.
const MANY_FORMS: usize = 4;
/// Calls with cells that were laid flat that are remembered: of cells drawn at random there is no end of them.
const MOST_LAID: usize = 1 << 14;

/// In how many ways the cells of calls lie.
#[derive(Default)]
pub(crate) struct Forms {
    /// By the words of a call of many cells, the ways that had plans.
    counts: FxHashMap<u64, usize>,
    /// How often the cells of calls were laid flat, by their words and types.
    laid: FxHashMap<u64, usize>,
    /// What lays cells of a type flat.
    flatteners: FxHashMap<TypeId, Arc<Kernel>>,
}

impl Forms {
    /// Counts another way for the cells of `request` to lie.
    pub(crate) fn count(&mut self, request: &Request<'_>) {
        if request.cells.len() >= MANY_CELLS {
            *self.counts.entry(hash(request.words, &[])).or_default() += 1;
        }
    }
}

impl State {
    /// Whether the cells of a call that has no plan are to be laid flat first. In-place ops leave cells as they write them, so a
    /// form that comes again and again gets a plan of its own: once it has come as often as its words have plans, so that cells
    /// drawn at random get the next one ever later.
    pub(crate) fn is_to_lie_flat(&mut self, request: &Request<'_>, types: &[TypeId], of_call: u64) -> bool {
        let is_flat = |&ty: &TypeId| self.cells.ty(ty).is_none_or(|ty| ty.is_flat());
        if request.cells.len() < MANY_CELLS || types.iter().all(is_flat) {
            return false;
        }
        let plans = self.forms.counts.get(&hash(request.words, &[])).copied().unwrap_or(0);
        if plans < MANY_FORMS {
            return false;
        }
        if self.forms.laid.len() >= MOST_LAID {
            self.forms.laid.clear();
        }
        let times = self.forms.laid.entry(of_call).or_default();
        *times += 1;
        *times <= plans
    }
}

impl Core {
    /// The first elements in each dimension of `value`, of type `ty`, and their type.
    ///
    /// # Errors
    /// `Invalid`, if there are no such; what the plugin refuses.
    pub(crate) fn cut_down(
        &self,
        value: &Held,
        ty: &CellType,
        sizes: Shape,
        device: usize,
    ) -> Result<(Arc<Held>, CellType)> {
        let order = ty.layout.dense_order().unwrap_or_else(|| (0..sizes.len()).collect());
        let next = CellType { dtype: ty.dtype, layout: Layout::dense(&sizes, &order) };
        if sizes[1..] == ty.layout.sizes[1..]
            && let Some(rows) = value.buffer()?.first_rows(sizes[0])?
        {
            return Ok((Held::new(rows, self.ledger(device)), next));
        }
        let executable = self.cutting((ty.clone(), sizes))?;
        let options = ExecuteOptions { device: Some(self.device(device)?), ..ExecuteOptions::default() };
        let mut run = executable.execute(&[value.buffer()?], &options)?;
        let output = run.outputs.pop().ok_or_else(|| Error::internal("no output"))?;
        Ok((Held::new(output, self.ledger(device)), next))
    }

    fn cutting(&self, key: (CellType, Shape)) -> Result<Arc<Executable>> {
        if let Some(known) = self.lock().shortened.get(&key) {
            return Ok(known.clone());
        }
        let made = self.session().kernel(&ir::eager::cut(&key.0, &key.1)?)?;
        let mut state = self.lock();
        if state.shortened.len() >= MOST {
            state.shortened.clear();
        }
        state.shortened.insert(key, made.clone());
        Ok(made)
    }

    /// Lays each of a call's cells flat, by a program of its own that all cells of its type share. How the cells came to lie
    /// otherwise decides nothing from then on.
    ///
    /// # Errors
    /// What the plugin refuses.
    pub(crate) fn lay_flat(&self, request: &Request<'_>) -> Result<()> {
        for slot in 0..request.cells.len() {
            let state = self.lock();
            let types = state.types_of(request.cells)?;
            let seen = state.seen(request.cells, &types);
            drop(state);
            let Some(ty) = seen.types[slot].as_deref().filter(|ty| !ty.is_flat()) else { continue };
            let reform = Reform { slot, dtype: ty.dtype, places: ty.layout.numel().unwrap_or(0) };
            let plan = Arc::new(self.reforming(request, types, &seen, None, &[reform])?);
            let mut state = self.lock();
            if let Some(kernel) = &plan.kernel {
                state.forms.flatteners.insert(plan.types[slot], kernel.clone());
            }
            if state.types_of(request.cells)? == plan.types {
                self.run(state, &plan, request)?;
            } // else another thread has given a cell another form
        }
        Ok(())
    }

    /// The plan by which some of a call's cells get elements of other types; the call's own comes after it.
    ///
    /// # Errors
    /// `Invalid`, if a cell's bytes mean nothing as such elements.
    pub(crate) fn reforming(
        &self,
        request: &Request<'_>,
        types: SmallVec<[TypeId; 8]>,
        seen: &Seen,
        bound: Option<i64>,
        reforms: &[Reform],
    ) -> Result<Plan> {
        let of = |reform: &Reform| {
            let ty = seen.types[reform.slot].as_deref().ok_or_else(|| Error::internal("a cell without a type"))?;
            Ok((ty, reform.dtype, reform.places))
        };
        let (graph, next) = ir::eager::flatten(&reforms.iter().map(of).collect::<Result<Vec<_>>>()?)?;
        let kernel = self.kernel(graph);
        let bytes = |ty: &CellType| (ty.layout.numel().unwrap_or(0) * ty.dtype.size()) as u64;
        let outputs = next.iter().map(|ty| Output { bytes: bytes(ty), replaces: None }).collect();
        let mut state = self.lock();
        let next = reforms.iter().zip(next).enumerate();
        let written = next.map(|(i, (reform, ty))| (reform.slot, state.cells.intern(ty), Value::Output(i))).collect();
        Ok(Plan {
            words: request.words.into(),
            types,
            bound,
            guards: vec![],
            conditions: vec![],
            assumed: vec![],
            kernel: Some(kernel),
            inputs: reforms.iter().map(|reform| Source::Cell(reform.slot)).collect(),
            donated: vec![],
            outputs,
            results: vec![],
            written,
            extents: Extents::Prepared,
        })
    }
}
