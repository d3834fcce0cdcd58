//! Compiled programs on the device's tensors: no copy to the host, mutated storages handed over, results as storages.

use crate::cells::{Held, Origin};
use crate::core::{Core, Expected, Made, Mode, Outcome, PROGRAM, Request};
use crate::error::{Error, Result};
use crate::fused::Why;
use crate::registry;
use crate::words;
use driver::{HostTensor, Launched, Placed, ResidentValue, Runner, Strides};
use ir::alias::Layout;
use ir::eager::CellType;
use ir::{Number, Shape, TensorType};
use runtime::Buffer;
use std::borrow::Borrow;
use std::cell::OnceCell;
use std::sync::Arc;

/// An argument of a compiled program.
pub enum Operand {
    /// A tensor of the device, by the address of its first element.
    Tensor {
        /// The address.
        address: usize,
        /// Element type and layout, whose offset does not count.
        ty: CellType,
    },
    /// A tensor in host memory.
    Host(HostTensor),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Nothing.
    None,
}

/// A result of a compiled program.
pub enum Produced {
    /// A new tensor in a storage of its own.
    Tensor {
        /// The storage.
        cell: u64,
        /// Its address.
        address: usize,
        /// Its size.
        nbytes: u64,
        /// c10's number of the element type.
        dtype: i32,
        /// Extents.
        shape: Shape,
        /// Steps in elements.
        strides: Strides,
    },
    /// The argument at this position itself.
    Argument(usize),
    /// The same tensor as the result at this earlier position.
    Result(usize),
    /// A number.
    Number(Number),
    /// Nothing.
    None,
}

/// A tensor argument while the program is started.
struct Loan {
    cell: u64,
    held: Arc<Held>,
    ty: CellType,
    /// Whether the tensor is all of its storage.
    whole: bool,
    /// What its storage holds in place of a value that the program takes over.
    promise: OnceCell<Arc<Held>>,
}

/// What the executable borrows.
struct Lent(Arc<Held>);

impl Borrow<Buffer> for Lent {
    fn borrow(&self) -> &Buffer {
        match self.0.buffer() {
            Ok(buffer) => buffer,
            Err(_) => unreachable!("what is lent was seen to be there"),
        }
    }
}

impl Loan {
    /// After a failure: the storage gets its value back, unless the plugin has eaten it.
    fn give_back(self, error: &Error) {
        let Some(promise) = self.promise.into_inner() else { return };
        let before = Arc::into_inner(self.held).and_then(Held::into_buffer).filter(|buffer| !buffer.is_gone());
        promise.fill(before.ok_or_else(|| error.clone()));
    }
}

impl Core {
    /// Starts `runner` on `device`, and returns while it computes.
    ///
    /// # Errors
    /// When the arguments do not fit, or the program cannot be compiled for them.
    pub fn call(&self, runner: &Runner, device: usize, operands: Vec<Operand>, location: u64) -> Result<Vec<Produced>> {
        self.flush(Why::Program, location);
        let mut loans: Vec<Option<Loan>> = vec![];
        let mut placed = vec![];
        for operand in operands {
            let (argument, loan) = self.place(device, operand)?;
            placed.push(argument);
            loans.push(loan);
        }
        self.drain();
        loans.iter().flatten().try_for_each(|loan| loan.held.buffer().map(drop))?;
        // From the first promise until all are kept no other call is started: it could be one that reads them.
        let mut turn = None;
        let mut release = |argument: usize| {
            turn.get_or_insert_with(|| self.queue.stop());
            loans[argument].as_ref().is_some_and(|loan| self.release(device, loan))
        };
        let mut seed = || self.seed(device, 0).map_err(|e| driver::Error::Argument(e.message));
        let begin = self.timeline.begin();
        let launched = runner.launch(device, &placed, &mut release, &mut seed);
        let origin = Origin { op: PROGRAM, location };
        match launched {
            Ok(mut launched) => {
                self.note_span(begin, &launched.done, device, origin, None);
                self.keep_promises(&mut launched.mutations, &loans, origin);
                drop(turn);
                self.collect(launched, device, &placed, &loans, origin)
            }
            Err(error) => {
                let error = self.explain(&self.lock(), error.into(), origin);
                drop(placed);
                loans.into_iter().flatten().for_each(|loan| loan.give_back(&error));
                Err(error)
            }
        }
    }

    fn place(&self, device: usize, operand: Operand) -> Result<(Placed<Lent>, Option<Loan>)> {
        Ok(match operand {
            Operand::Tensor { address, ty } => {
                let loan = self.borrow(device, address, ty)?;
                let shape = loan.ty.layout.sizes.clone();
                (Placed::Tensor(Lent(loan.held.clone()), shape), Some(loan))
            }
            Operand::Host(tensor) => (Placed::Host(tensor), None),
            Operand::Int(n) => (Placed::Int(n), None),
            Operand::Float(x) => (Placed::Float(x), None),
            Operand::None => (Placed::None, None),
        })
    }

    /// The value of the tensor at `address`: its storage's own, or a copy of the part that it is.
    fn borrow(&self, device: usize, address: usize, mut ty: CellType) -> Result<Loan> {
        if ty.layout.sizes.contains(&0) {
            let tensor = TensorType { dtype: ty.dtype, shape: ty.layout.sizes.clone() };
            return Ok(Loan {
                cell: 0,
                held: self.send_bytes(device, &[], &tensor)?,
                ty,
                whole: false,
                promise: OnceCell::new(),
            });
        }
        let cell = {
            let state = self.lock();
            let id = state.cells.at(address).ok_or_else(|| Error::internal("a tensor of no storage"))?;
            let cell = state.cells.get(id)?;
            if cell.device != device {
                let message = "Expected all tensors to be on the same device, but found at least two devices";
                return Err(Error::new(format!("{message}, tpu:{device} and tpu:{}!", cell.device)));
            }
            ty.layout.offset = (address - cell.address) / ty.dtype.size().max(1);
            let same = |t: &CellType| t.dtype == ty.dtype && t.layout.same_places(&ty.layout);
            if let Some(held) = cell.value.clone()
                && state.cells.ty(cell.ty).is_some_and(|t| same(t))
            {
                return Ok(Loan { cell: id, held, ty, whole: true, promise: OnceCell::new() });
            }
            id
        };
        let copy = self.run_op(ir::ops::CLONE, device, &[cell], &[Some((0, &ty)), None])?;
        let Some(Some(made)) = copy.into_iter().next() else { return Err(Error::internal("a copy without a result")) };
        let held = self.lock().cells.remove(made.cell).ok_or_else(|| Error::internal("a copy without a value"))?;
        Ok(Loan { cell, held, ty, whole: false, promise: OnceCell::new() })
    }

    /// Whether the program may take the value over: nobody else holds it. Its storage is then promised the next.
    fn release(&self, device: usize, loan: &Loan) -> bool {
        let mut state = self.lock();
        let Ok(cell) = state.cells.get_mut(loan.cell) else { return false };
        // Held by the storage, by the loan and by the arguments.
        let alone =
            cell.value.as_ref().is_some_and(|v| Arc::ptr_eq(v, &loan.held)) && Arc::strong_count(&loan.held) == 3;
        if !(loan.whole && alone) {
            return false;
        }
        loan.held.uncount();
        let promise = Held::promised(loan.held.bytes(), self.ledger(device));
        cell.value = Some(loan.promise.get_or_init(|| promise).clone());
        true
    }

    /// Takes those next values out of `mutations` that were promised.
    fn keep_promises(&self, mutations: &mut Vec<(usize, Buffer)>, loans: &[Option<Loan>], origin: Origin) {
        let promised = |argument: usize| loans[argument].as_ref().is_some_and(|loan| loan.promise.get().is_some());
        for (argument, buffer) in mutations.extract_if(.., |(argument, _)| promised(*argument)) {
            let Some(loan) = &loans[argument] else { continue };
            if let Some(promise) = loan.promise.get() {
                promise.fill(Ok(buffer));
            }
            if let Ok(cell) = self.lock().cells.get_mut(loan.cell) {
                cell.origin = origin;
            }
        }
    }

    fn collect(
        &self,
        launched: Launched,
        device: usize,
        placed: &[Placed<Lent>],
        loans: &[Option<Loan>],
        origin: Origin,
    ) -> Result<Vec<Produced>> {
        self.ledger(device).bytes.meanwhile(launched.temporaries);
        self.watch(device, launched.done, origin);
        for (argument, buffer) in launched.mutations {
            match (&placed[argument], &loans[argument]) {
                (Placed::Host(tensor), _) => tensor.overwrite(&buffer)?,
                (_, Some(loan)) => self.write(device, loan, buffer, origin)?,
                _ => {}
            }
        }
        launched.results.into_iter().map(|result| self.produce(device, result, origin)).collect()
    }

    /// Writes the next value of an argument.
    fn write(&self, device: usize, loan: &Loan, buffer: Buffer, origin: Origin) -> Result<()> {
        let held = Held::new(buffer, self.ledger(device));
        if loan.whole {
            let mut state = self.lock();
            let cell = state.cells.get_mut(loan.cell)?;
            (cell.value, cell.origin) = (Some(held), origin);
            return Ok(());
        }
        if loan.cell == 0 {
            return Ok(());
        }
        let source = CellType { dtype: loan.ty.dtype, layout: Layout::contiguous(loan.ty.layout.sizes.clone()) };
        let staged = self.new_cell(device, source.clone(), held, origin)?.0;
        let written =
            self.run_op(ir::ops::COPY, device, &[loan.cell, staged], &[Some((0, &loan.ty)), Some((1, &source)), None]);
        self.cell_drop(staged);
        written.map(drop)
    }

    fn new_cell(&self, device: usize, ty: CellType, held: Arc<Held>, origin: Origin) -> Result<(u64, usize)> {
        let nbytes = (ty.layout.numel().unwrap_or(0) * ty.dtype.size()) as u64;
        let mut state = self.lock();
        let ty = state.cells.intern(ty);
        let (id, address) = state.cells.add(device, nbytes)?;
        let cell = state.cells.get_mut(id)?;
        (cell.ty, cell.value, cell.origin) = (ty, Some(held), origin);
        Ok((id, address))
    }

    fn produce(&self, device: usize, result: ResidentValue, origin: Origin) -> Result<Produced> {
        Ok(match result {
            ResidentValue::Tensor { buffer, dtype, shape, strides } => {
                // The value is row-major in the order of its storage.
                let sizes: Shape = buffer.dims().iter().map(|&n| n as usize).collect();
                let ty = CellType { dtype, layout: Layout::contiguous(sizes) };
                let nbytes = (ty.layout.numel().unwrap_or(0) * dtype.size()) as u64;
                let held = Held::new(buffer, self.ledger(device));
                let (cell, address) = self.new_cell(device, ty, held, origin)?;
                Produced::Tensor { cell, address, nbytes, dtype: words::dtype_code(dtype), shape, strides }
            }
            ResidentValue::Argument(n) => Produced::Argument(n),
            ResidentValue::Result(n) => Produced::Result(n),
            ResidentValue::Number(number) => Produced::Number(number),
            ResidentValue::None => Produced::None,
        })
    }

    /// Runs an op of the table on tensors given by slot and type; `None` for an argument that is left out.
    fn run_op(
        &self,
        name: &str,
        device: usize,
        cells: &[u64],
        arguments: &[Option<(usize, &CellType)>],
    ) -> Result<Vec<Option<Made>>> {
        let number = registry::number(name).ok_or_else(|| Error::internal(format!("{name} is not in the table")))?;
        let words = words::write(number, arguments);
        let request = Request {
            words: &words,
            cells,
            scalars: &[],
            generator: 0,
            device,
            location: 0,
            mode: Mode::default(),
            expected: Some(Expected::Unknown),
        };
        match self.dispatch(&request)? {
            Outcome::Done(made) => Ok(made),
            Outcome::NeedsResults | Outcome::NeedsChecks => Err(Error::internal("an op asks again")),
        }
    }
}
