//! The alias model: what PyTorch's storages, views and in-place writes mean over immutable values.
//!
//! A *cell* stands for a storage. It holds the value last written, in the logical shape it was created with, and the
//! layout that value has in the storage. A tensor of the trace, [`TensorId`], is a strided [`Layout`] over a cell. Reading
//! a tensor turns its layout into slices, transposes, reshapes and broadcasts of the cell's value; writing one makes the
//! cell's next value. Nothing here is specific to traces: eager tensors use the same model.
//!
//! A tensor may also see a storage as other elements, such as the real parts of complex numbers: a [`Lens`].
//!
//! How a layout becomes core ops is decided by `plan`, from the two layouts alone; `steps` applies such a plan forwards
//! (a read) and backwards (a write).

mod lens;
mod plan;
mod steps;
#[cfg(test)]
mod tests;

pub use lens::{Lazy, Lens};

use crate::builder::Builder;
use crate::dtype::{Category, DType};
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::ops::TensorArg;
use crate::ops::support::torch_name;
use crate::types::{Dims, Shape, TensorType};
use crate::{ensure, invalid};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::{Ref, RefCell};
use steps::Starts;

/// Steps in elements, one per dimension. PyTorch has no negative ones.
pub type Strides = SmallVec<[usize; 6]>;

/// Where a tensor's elements lie in its storage, counted in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Extents.
    pub sizes: Shape,
    /// Step per dimension; 0 repeats (an expanded dimension).
    pub strides: Strides,
    /// Position of the first element.
    pub offset: usize,
}

/// A tensor of the traced program: a view of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(u32);

/// A storage. Tensors with equal ids share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CellId(u32);

/// The cells and tensors of one program. Methods take `&self`, as [`Builder`]'s do.
#[derive(Default)]
pub struct Aliases {
    state: RefCell<State>,
    /// For an eager device: a cell takes over the layout of a tensor that overwrites all of it, and positions in cells
    /// are inputs of the program.
    relaying: bool,
}

#[derive(Default)]
struct State {
    cells: Vec<Cell>,
    tensors: Vec<Tensor>,
}

struct Cell {
    value: ValueId,
    dtype: DType,
    /// Dense, from offset 0.
    layout: Layout,
    writes: usize,
    /// Values of views of the present value.
    reads: FxHashMap<Layout, ValueId>,
    /// What it follows, if its elements are another storage's, seen otherwise.
    origin: Option<lens::Origin>,
}

struct Tensor {
    cell: CellId,
    layout: Layout,
}

impl Layout {
    /// Row-major, from the start of the storage.
    pub fn contiguous(sizes: impl Into<Shape>) -> Layout {
        let sizes = sizes.into();
        let mut strides: Strides = sizes.iter().map(|_| 1).collect();
        for i in (1..sizes.len()).rev() {
            strides[i - 1] = strides[i].saturating_mul(sizes[i].max(1));
        }
        Layout { sizes, strides, offset: 0 }
    }

    /// Dense from the start of the storage, its dimensions from the outermost to the innermost in this order.
    pub fn dense(sizes: &Shape, order: &[usize]) -> Layout {
        let dense = Layout::contiguous(order.iter().map(|&d| sizes[d]).collect::<Shape>()).strides;
        let mut strides = dense.clone();
        order.iter().zip(&dense).for_each(|(&d, &step)| strides[d] = step);
        Layout { sizes: sizes.clone(), strides, offset: 0 }
    }

    /// The number of elements; `None` if it does not fit `usize`.
    pub fn numel(&self) -> Option<usize> {
        TensorType { dtype: DType::Bool, shape: self.sizes.clone() }.checked_numel()
    }

    /// The dimensions from the outermost in the storage to the innermost, if the elements fill `numel` places from the
    /// first without gap or overlap. Dimensions of extent 1 stay before the one they stand at.
    pub fn dense_order(&self) -> Option<Dims> {
        let mut order: Dims = (0..self.sizes.len()).collect();
        if self.numel()? == 0 {
            return Some(order);
        }
        let mut solid: Dims = order.iter().copied().filter(|&d| self.sizes[d] != 1).collect();
        solid.sort_by_key(|&d| std::cmp::Reverse(self.strides[d]));
        let mut step = 1usize;
        for &d in solid.iter().rev() {
            if self.strides[d] != step {
                return None;
            }
            step = step.checked_mul(self.sizes[d])?;
        }
        let mut next = solid.into_iter();
        for slot in order.iter_mut().filter(|d| self.sizes[**d] != 1) {
            *slot = next.next()?;
        }
        Some(order)
    }

    /// Whether both place equal elements equally: steps of dimensions of extent 1 do not count, nor does anything
    /// where there are no elements.
    pub fn same_places(&self, other: &Layout) -> bool {
        let steps = || self.sizes.iter().zip(self.strides.iter().zip(&other.strides));
        self.sizes == other.sizes
            && (self.sizes.contains(&0)
                || (self.offset == other.offset && steps().all(|(&n, (a, b))| n == 1 || a == b)))
    }

    /// Whether it is dense and fills the same places as `cell`, which is dense from the start of its storage.
    fn covers(&self, cell: &Layout) -> bool {
        self.offset == 0 && self.numel() == cell.numel() && self.dense_order().is_some()
    }

    /// One past the last place touched; `None` if it does not fit `usize`.
    pub fn end(&self) -> Option<usize> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        let last = self
            .sizes
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |at, (&n, &s)| at.checked_add((n - 1).checked_mul(s)?));
        last?.checked_add(1)
    }
}

impl Aliases {
    /// No cells yet.
    pub fn new() -> Aliases {
        Aliases::default()
    }

    /// No cells yet. A cell written as a whole keeps the value as it was written, in the writing tensor's shape; where
    /// slices begin comes in through hidden inputs, [`Builder::position_input`].
    pub fn relaying() -> Aliases {
        Aliases { relaying: true, ..Aliases::default() }
    }

    /// A new storage that holds `value` as `layout` places it. A layout that does not fill its storage densely is
    /// replaced by a contiguous one.
    ///
    /// # Errors
    /// `Internal` if the layout's extents are not the value's.
    pub fn fresh(&self, b: &Builder, value: ValueId, layout: Layout) -> Result<TensorId> {
        let ty = b.ty(value)?;
        if layout.sizes != ty.shape || layout.strides.len() != layout.sizes.len() {
            return Err(Error::internal(format!("a cell of {:?} cannot hold {value}: {ty}", layout.sizes)));
        }
        let dense = layout.dense_order().is_some();
        let layout = if dense { Layout { offset: 0, ..layout } } else { Layout::contiguous(layout.sizes) };
        let mut s = self.state.borrow_mut();
        let cell = CellId(s.cells.len() as u32);
        let reads = FxHashMap::default();
        s.cells.push(Cell { value, dtype: ty.dtype, layout: layout.clone(), writes: 0, reads, origin: None });
        Ok(s.add(Tensor { cell, layout }))
    }

    /// A new storage that holds `value` row-major.
    pub fn fresh_contiguous(&self, b: &Builder, value: ValueId) -> Result<TensorId> {
        self.fresh(b, value, Layout::contiguous(b.shape(value)))
    }

    /// Another tensor over the storage of `base`.
    ///
    /// # Errors
    /// In PyTorch's words, if the layout leaves the storage.
    pub fn view(&self, base: TensorId, layout: Layout) -> Result<TensorId> {
        let mut s = self.state.borrow_mut();
        let cell = s.tensors[base.index()].cell;
        let places = s.cells[cell.index()].layout.numel();
        let inside = layout.strides.len() == layout.sizes.len() && layout.end().is_some_and(|e| Some(e) <= places);
        ensure!(
            inside,
            "setStorage: sizes {:?}, strides {:?}, storage offset {} are out of bounds for storage of {} elements",
            layout.sizes,
            layout.strides,
            layout.offset,
            places.unwrap_or_default()
        );
        Ok(s.add(Tensor { cell, layout }))
    }

    /// The value of `t` now.
    pub fn read(&self, b: &Builder, t: TensorId) -> Result<ValueId> {
        self.refresh(b, t)?;
        let (cell, view) = {
            let s = self.state.borrow();
            let (t, c) = s.tensor(t);
            if t.layout == c.layout {
                return Ok(c.value);
            }
            if let Some(&v) = c.reads.get(&t.layout) {
                return Ok(v);
            }
            (t.cell, t.layout.clone())
        };
        let (steps, value) = {
            let s = self.state.borrow();
            let c = &s.cells[cell.index()];
            (plan::plan(&c.layout, &view)?, c.value)
        };
        let value = steps::read(b, &steps, value, self.starts())?;
        self.state.borrow_mut().cells[cell.index()].reads.insert(view, value);
        Ok(value)
    }

    /// Writes `value`, of the type of `t`, into the storage through `t`.
    ///
    /// # Errors
    /// In PyTorch's words, if several elements of `t` share a place. `Internal` if the type differs.
    pub fn write(&self, b: &Builder, t: TensorId, value: ValueId) -> Result<()> {
        self.refresh(b, t)?;
        let (cell, view, steps, base) = {
            let s = self.state.borrow();
            let (t, c) = s.tensor(t);
            let ty = b.ty(value)?;
            if ty.shape != t.layout.sizes || ty.dtype != c.dtype {
                let want = TensorType { dtype: c.dtype, shape: t.layout.sizes.clone() };
                return Err(Error::internal(format!("{ty} written into a tensor of {want}")));
            }
            if plan::overlaps(&t.layout) {
                invalid!(
                    "unsupported operation: more than one element of the written-to tensor refers to a single memory \
                     location. Please clone() the tensor before performing the operation."
                );
            }
            if self.relaying && t.layout.covers(&c.layout) {
                let (cell, layout) = (t.cell, t.layout.clone());
                drop(s);
                self.overwrite(cell, layout, value);
                return Ok(());
            }
            (t.cell, t.layout.clone(), plan::plan(&c.layout, &t.layout)?, c.value)
        };
        let next = steps::write(b, &steps, base, value, self.starts())?;
        let mut s = self.state.borrow_mut();
        let c = &mut s.cells[cell.index()];
        c.value = next;
        c.writes += 1;
        c.reads.clear();
        c.reads.insert(view, value);
        drop(s);
        self.put_back(b, t)
    }

    fn starts(&self) -> Starts {
        if self.relaying { Starts::Inputs } else { Starts::Constants }
    }

    fn overwrite(&self, cell: CellId, layout: Layout, value: ValueId) {
        let mut s = self.state.borrow_mut();
        let c = &mut s.cells[cell.index()];
        (c.value, c.layout) = (value, layout);
        c.writes += 1;
        c.reads.clear();
    }

    /// Writes `value` through `t` as an in-place or `out=` overload does: converted to the element type of `t`.
    ///
    /// # Errors
    /// In PyTorch's words, if the types do not allow that or the shapes differ; as [`Aliases::write`].
    pub fn store(&self, b: &Builder, t: TensorId, value: ValueId) -> Result<()> {
        let (from, to) = (b.dtype(value), self.dtype(t));
        ensure!(
            can_cast(from, to),
            "result type {} can't be cast to the desired output type {}",
            torch_name(from),
            torch_name(to)
        );
        let (shape, want) = (b.shape(value), self.shape(t));
        ensure!(shape == want, "output with shape {:?} doesn't match the broadcast shape {:?}", &want[..], &shape[..]);
        self.write(b, t, b.convert(value, to)?)
    }

    /// The layout of `t` over its storage.
    pub fn layout(&self, t: TensorId) -> Layout {
        self.tensor_ref(t).layout.clone()
    }
    /// The extents of `t`.
    pub fn shape(&self, t: TensorId) -> Shape {
        self.tensor_ref(t).layout.sizes.clone()
    }
    /// The element type of `t`.
    pub fn dtype(&self, t: TensorId) -> DType {
        self.state.borrow().tensor(t).1.dtype
    }
    /// The storage of `t`.
    pub fn cell(&self, t: TensorId) -> CellId {
        self.tensor_ref(t).cell
    }
    /// How often the storage of `t` has been written, through whatever tensor.
    pub fn writes(&self, t: TensorId) -> usize {
        self.state.borrow().tensor(t).1.writes
    }
    /// The value of the storage of `t` and how it lies there.
    pub fn whole(&self, t: TensorId) -> (ValueId, Layout) {
        let s = self.state.borrow();
        let cell = s.tensor(t).1;
        (cell.value, cell.layout.clone())
    }
    /// `t` as an argument of a call.
    pub fn arg(&self, t: TensorId) -> AliasArg<'_> {
        AliasArg { aliases: self, tensor: t }
    }

    fn tensor_ref(&self, t: TensorId) -> Ref<'_, Tensor> {
        Ref::map(self.state.borrow(), |s| &s.tensors[t.index()])
    }
}

/// `torch.can_cast`.
fn can_cast(from: DType, to: DType) -> bool {
    let (from, to) = (from.category(), to.category());
    from <= to || (from == Category::Float && to == Category::Complex)
}

impl State {
    fn add(&mut self, tensor: Tensor) -> TensorId {
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(tensor);
        id
    }
    fn tensor(&self, t: TensorId) -> (&Tensor, &Cell) {
        let tensor = &self.tensors[t.index()];
        (tensor, &self.cells[tensor.cell.index()])
    }
}

impl TensorId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

impl CellId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor of an [`Aliases`] as an argument of a call.
#[derive(Clone, Copy)]
pub struct AliasArg<'a> {
    aliases: &'a Aliases,
    tensor: TensorId,
}

impl TensorArg for AliasArg<'_> {
    fn read(&self, b: &Builder) -> Result<ValueId> {
        self.aliases.read(b, self.tensor)
    }
    fn layout(&self) -> Layout {
        self.aliases.layout(self.tensor)
    }
    fn dtype(&self) -> DType {
        self.aliases.dtype(self.tensor)
    }
    fn lazy(&self) -> Lazy {
        self.aliases.lazy(self.tensor)
    }
}
