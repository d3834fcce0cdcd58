//! What can be told of a program from its trace alone: what will not run on a TPU, run badly, or be compiled again.

use crate::program::{Program, path_prefixes};
use ir::symbol::Expr;
use ir::trace::schema::{Argument as TraceArgument, SymInt};
use ir::{DType, Graph, Loc, Op};
use report::{Finding, Severity, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Sizes beyond which no bucket is offered for a symbol that has no bound of its own.
const LARGEST_BUCKET: i64 = 1 << 20;
/// Values smaller than this cost nothing worth telling, whatever their type, in elements.
const SMALL: usize = 1024;

/// Everything that keeps the program from being compiled as one, in its order.
pub(crate) fn obstacles(program: &Program) -> Vec<Finding> {
    let unlowered = program.unsupported().into_iter().map(|op| Finding {
        severity: Severity::Error,
        kind: "unlowered".to_owned(),
        message: format!("{} has no lowering: {}", op.op, op.reason),
        help: Some(format!(
            "{}under torch.compile it runs on the host between two compiled parts",
            ir::import::simpler_ops(&op.op)
        )),
        source: source(&op.loc),
    });
    let data = ir::import::data_dependent_ops(program.trace()).into_iter().map(|(_, op, loc)| Finding {
        severity: Severity::Error,
        kind: "data-dependent-shape".to_owned(),
        message: format!("{op} gives what only the data tells: a size or a number"),
        help: Some(
            "under torch.compile the program is cut here and the size read back, once a call; a mask of fixed size \
             (torch.where, masked_fill) or a bound on the size keeps it whole"
                .to_owned(),
        ),
        source: source(&loc),
    });
    unlowered.chain(data).collect()
}

/// Inputs whose sizes only a call gives: each new size compiles again.
pub(crate) fn dynamic_shapes(program: &Program, consulted: &BTreeSet<String>) -> Vec<Finding> {
    let trace = program.trace();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for input in &trace.graph.inputs {
        let TraceArgument::AsTensor(tensor) = input else { continue };
        let Some(meta) = trace.graph.tensor_values.get(&tensor.name) else { continue };
        for (dimension, size) in meta.sizes.iter().enumerate() {
            let SymInt::AsExpr(expr) = size else { continue };
            // An extent that follows from others comes with them.
            let Ok(free) = Expr::parse(&expr.expr_str).map(|expr| expr.free()) else { continue };
            for symbol in free.iter().filter(|symbol| consulted.contains(&***symbol)) {
                let place = format!("dimension {dimension} of `{}`", tensor.name);
                places.entry(symbol.to_string()).or_default().push(place);
            }
        }
    }
    places.into_iter().map(|(symbol, places)| dynamic_shape(program, &symbol, &places)).collect()
}

fn dynamic_shape(program: &Program, symbol: &str, places: &[String]) -> Finding {
    let range = program.trace().range_constraints.get(symbol);
    let least = range.and_then(|range| range.min_val).unwrap_or(1).max(1);
    let greatest = range.and_then(|range| range.max_val).filter(|&max| max <= LARGEST_BUCKET);
    let sizes = match greatest {
        Some(greatest) => format!("from {least} to {greatest}, up to {} programs", greatest - least + 1),
        None => format!("from {least} on, without a bound"),
    };
    let help = match greatest {
        Some(greatest) if greatest > least => {
            let buckets = buckets(least, greatest);
            let list: Vec<String> = buckets.iter().map(i64::to_string).collect();
            format!("pad it to one of {}: {} programs", list.join(", "), buckets.len())
        }
        _ => "bound it (torch.export.Dim(min=, max=), mark_dynamic(min=, max=)) and pad it to powers of two".to_owned(),
    };
    Finding {
        severity: Severity::Note,
        kind: "dynamic-shape".to_owned(),
        message: format!("{} is `{symbol}`, {sizes}: each new size compiles again", places.join(", ")),
        help: Some(help),
        source: Source::default(),
    }
}

/// Powers of two from the first that holds `least`, and at last `greatest` itself.
fn buckets(least: i64, greatest: i64) -> Vec<i64> {
    let first = least.max(1).unsigned_abs().next_power_of_two() as i64;
    let powers = std::iter::successors(Some(first), |size| size.checked_mul(2)).take_while(|&size| size < greatest);
    powers.chain([greatest]).collect()
}

/// Lines that compute in types for which a TPU has no units.
pub(crate) fn dtypes(graph: &Graph) -> Vec<Finding> {
    let mut lines: BTreeMap<(DType, Source), usize> = BTreeMap::new();
    for node in graph.nodes() {
        let Some(ty) = node.ty.tensor() else { continue };
        let moves = matches!(node.op, Op::Input { .. } | Op::Constant(_) | Op::Iota { .. } | Op::Convert { .. });
        let slow = matches!(ty.dtype, DType::F64 | DType::C128 | DType::I64 | DType::U64);
        if slow && !moves && ty.numel() >= SMALL {
            let place = Source { op: String::new(), ..source(graph.locs.get(node.loc)) };
            *lines.entry((ty.dtype, place)).or_default() += ty.numel();
        }
    }
    let describe = |((dtype, source), elements): ((DType, Source), usize)| {
        let (severity, how, help) = match dtype {
            DType::F64 | DType::C128 => (
                Severity::Warning,
                "in software, many times slower than f32",
                "compute in torch.float32; Python floats and numpy arrays are the usual way in for float64",
            ),
            _ => (
                Severity::Note,
                "as pairs of 32-bit integers",
                "torch.int32 is enough for indices below 2^31 (dtype=torch.int32 where the tensor is made)",
            ),
        };
        Finding {
            severity,
            kind: "dtype".to_owned(),
            message: format!("{dtype} arithmetic on {elements} elements, which a TPU computes {how}"),
            help: Some(help.to_owned()),
            source,
        }
    };
    lines.into_iter().map(describe).collect()
}

/// A place as reports have it: its file relative to the project or package, as in what the compiler is given.
pub(crate) fn source(loc: &Loc) -> Source {
    Source {
        file: path_prefixes().relative(&loc.file).to_owned(),
        line: loc.line,
        module: loc.module.to_string(),
        op: loc.op.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_every_size() {
        assert_eq!(buckets(1, 8), [1, 2, 4, 8]);
        assert_eq!(buckets(3, 100), [4, 8, 16, 32, 64, 100]);
        assert_eq!(buckets(7, 8), [8]);
    }
}
