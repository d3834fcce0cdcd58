//! What `check` and `compile` share: a pool of workers, several targets at once, and a sign of life while they work.

use crate::output::{Failure, Printer};
use crate::{args, inputs, stablehlo};
use aot::{Launcher, Pool};
use driver::{Ahead, DimValues, Partitioning, Program};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use ir::sharding::Rules;
use report::Report;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use target::Target;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// What is compiled: a trace at these sizes, or StableHLO.
pub(crate) enum Source {
    Trace { name: String, program: Box<Program>, dims: DimValues, by: Option<Partitioning> },
    Stablehlo { name: String, program: Vec<u8> },
}

impl Source {
    pub(crate) fn read(source: &args::Source, ahead: &args::Ahead) -> Result<Source, Failure> {
        let rules = Rules(ahead.shard.clone());
        let by = ahead.mesh.clone().map(|mesh| Partitioning { mesh, rules });
        let name = source.title();
        if inputs::is_mlir(source) {
            if by.is_some() {
                return Err(Failure::tool("a .mlir carries its own sharding marks: --mesh and --shard are for traces"));
            }
            let (program, _) = stablehlo::read(&source.trace)?;
            return match stablehlo::host_call(&program) {
                None => Ok(Source::Stablehlo { name, program }),
                Some(call) => Err(call.refused(&source.trace)),
            };
        }
        let program = Box::new(inputs::program(source)?);
        let dims = inputs::dims(source, &program)?;
        Ok(Source::Trace { name, program, dims, by })
    }

    pub(crate) fn compile(&self, target: &Target, pool: &Pool) -> Result<Ahead, Failure> {
        Ok(match self {
            Source::Trace { program, dims, by, .. } => program.compile_ahead(dims, by.as_ref(), target, pool)?,
            Source::Stablehlo { name, program } => Ahead::of_stablehlo(program, name, target, pool)?,
        })
    }

    pub(crate) fn check(&self, target: &Target, slices: Option<NonZeroU32>, pool: &Pool) -> Result<Report, Failure> {
        Ok(match self {
            Source::Trace { name, program, dims, by } => {
                program.check(name, dims, by.as_ref(), target, slices, pool)?
            }
            Source::Stablehlo { name, .. } => self.compile(target, pool)?.report(name),
        })
    }

    pub(crate) fn report(&self, ahead: &Ahead) -> Result<Report, Failure> {
        Ok(match self {
            Source::Trace { name, program, dims, .. } => program.report(name, dims, ahead)?,
            Source::Stablehlo { name, .. } => ahead.report(name),
        })
    }
}

/// Says that a trace has a backward pass, which stands beside it as `torchtpu.Trace.save` writes it.
pub(crate) fn mention_backward(source: &args::Source, printer: &Printer) {
    let Some(stem) = source.trace.file_stem().and_then(|stem| stem.to_str()) else { return };
    let name = format!("{stem}.backward.json");
    if source.trace.with_file_name(&name).is_file() {
        let title = source.title();
        printer.say(format_args!(
            "note: this is of {title} alone; its backward pass is a program of its own, {name}; \
             torchtpu.capture_step traces a whole training step"
        ));
    }
}

/// Workers that are this program itself.
pub(crate) fn pool(args: &args::Ahead) -> Result<Pool, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::tool(format!("cannot find this program: {e}")))?;
    let launcher = Launcher { program, arguments: vec!["worker".into()] };
    let libtpu = aot::libtpu(args.libtpu.as_deref()).map_err(driver::Error::from)?;
    Ok(Pool::new(launcher, libtpu, Duration::from_secs(args.timeout)))
}

/// What `work` gives for each target, in their order, `jobs` at a time. The first failure is the whole's.
pub(crate) fn each<T: Send>(
    targets: &[Target],
    jobs: usize,
    printer: &Printer,
    work: impl Fn(&Target) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let bars = MultiProgress::with_draw_target(match printer.shows_progress() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    });
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<T, Failure>>>> = Mutex::new(targets.iter().map(|_| None).collect());
    let run = || {
        while let Some((index, target)) = targets.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            let bar = bars.add(spinner(target));
            let start = Instant::now();
            let result = work(target);
            bar.finish_and_clear();
            bars.suspend(|| printer.detail(format_args!("compiled for {target}: {:.1?}", start.elapsed())));
            let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            results[index] = Some(result);
        }
    };
    std::thread::scope(|scope| (0..jobs.min(targets.len())).for_each(|_| drop(scope.spawn(run))));
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.into_iter().flatten().collect()
}

fn spinner(target: &Target) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(format!("compiling for {target}"));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}
