//! A program on a session: compiled once per set of sizes, and called.

use crate::error::{Error, Result};
use crate::host::{Argument, Value};
use crate::program::{DimValues, Program};
use crate::resident::{Launched, Placed};
use crate::session::Session;
use crate::variant::{CompileReport, SeedSource, Variant};
use ir::import::InputType;
use runtime::Buffer;
use std::borrow::Borrow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// Is told of every compile of a runner.
pub type Observer = Box<dyn Fn(&CompileReport) + Send + Sync>;

/// Runs a program on a session's device.
pub struct Runner {
    program: Arc<Program>,
    session: Arc<Session>,
    variants: RwLock<Vec<Arc<Variant>>>,
    /// Held while compiling, so that two threads do not compile the same.
    compiling: Mutex<()>,
    observer: Option<Observer>,
}

impl Runner {
    /// Nothing is compiled before it is needed.
    pub fn new(program: Arc<Program>, session: Arc<Session>) -> Runner {
        Runner { program, session, variants: RwLock::default(), compiling: Mutex::new(()), observer: None }
    }

    /// Has `observer` told of every compile, after it and outside of our locks.
    #[must_use]
    pub fn observed(self, observer: Observer) -> Runner {
        Runner { observer: Some(observer), ..self }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Compiles now for `device`, unless the sizes are known at a call only.
    ///
    /// # Errors
    /// As [`Runner::run`] finds when it compiles.
    pub fn prepare(&self, device: usize) -> Result<()> {
        match self.program.is_symbolic() {
            true => Ok(()),
            false => self.variant(&DimValues::new(), device).map(drop),
        }
    }

    /// Runs the program on `arguments`, one per input of the trace. `seed` is asked if it draws random numbers. Returns
    /// when the results are ready; the arguments' memory is then free, and holds what the program wrote to it.
    ///
    /// # Errors
    /// `Program` or `Compile` when these sizes come for the first time and cannot be compiled; `Argument` for arguments
    /// that do not fit; `Execute` when the plugin fails.
    pub fn run(&self, arguments: &[Argument], seed: SeedSource<'_>) -> Result<Vec<Value>> {
        let dims = if self.program.is_symbolic() { self.program.bind(arguments)? } else { DimValues::new() };
        let variant = self.variant(&dims, 0)?;
        variant.run(&self.session, arguments, &dims, seed)
    }

    /// Starts the program on `device`, on arguments that are there already. `release` is told of each argument that is
    /// about to be taken over, and says whether it may be; others are copied first.
    ///
    /// # Errors
    /// As [`Runner::run`], but for failures of the execution itself, which come with [`Launched::done`].
    pub fn launch<B: Borrow<Buffer>>(
        &self,
        device: usize,
        arguments: &[Placed<B>],
        release: &mut dyn FnMut(usize) -> bool,
        seed: SeedSource<'_>,
    ) -> Result<Launched> {
        let dims = match self.program.is_symbolic() {
            true => self.program.bind_types(&arguments.iter().map(given).collect::<Vec<_>>())?,
            false => DimValues::new(),
        };
        let variant = self.variant(&dims, device)?;
        let start = Instant::now();
        let launched = variant.launch(arguments, &dims, release, seed)?;
        self.session.count_execution(start.elapsed());
        Ok(launched)
    }

    /// Why the program cannot be made for arguments of these types, if it cannot.
    pub fn refusal(&self, given: &[InputType<'_>]) -> Option<Error> {
        self.program.bind_types(given).and_then(|dims| self.program.import(&dims)).err()
    }

    fn variant(&self, dims: &DimValues, device: usize) -> Result<Arc<Variant>> {
        if let Some(known) = self.known(dims, device) {
            return Ok(known);
        }
        let one_at_a_time = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.known(dims, device) {
            return Ok(known);
        }
        let (variant, report) = Variant::compile(&self.program, &self.session, dims, device)?;
        let variant = Arc::new(variant);
        self.variants.write().unwrap_or_else(PoisonError::into_inner).push(variant.clone());
        drop(one_at_a_time);
        if let Some(observer) = &self.observer {
            observer(&report);
        }
        Ok(variant)
    }

    fn known(&self, dims: &DimValues, device: usize) -> Option<Arc<Variant>> {
        let variants = self.variants.read().unwrap_or_else(PoisonError::into_inner);
        variants.iter().rev().find(|v| v.serves(dims, device)).cloned()
    }
}

fn given<B>(argument: &Placed<B>) -> InputType<'_> {
    match argument {
        Placed::Tensor(_, shape) => InputType::Shape(shape),
        Placed::Host(tensor) => InputType::Shape(&tensor.shape),
        Placed::Int(n) => InputType::Int(*n),
        Placed::Float(_) | Placed::None => InputType::Other,
    }
}
