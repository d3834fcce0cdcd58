//! Every core op on the CPU plugin against the reference evaluator: over all element types and special values.
//!
//! Movement of data, comparisons and integers must agree to the bit. Elementwise floats may differ by a few units in
//! the last place: how many is said with each op. Sums are over small whole numbers, which any order adds up alike.

#![allow(clippy::unwrap_used)]

#[path = "../../runtime/tests/common/blas.rs"]
mod blas;
#[path = "against_evaluator/hosts.rs"]
mod hosts;
mod judge;
mod machine;
mod programs;
#[path = "against_evaluator/rows.rs"]
mod rows;

use ir::op::*;
use ir::{
    Binary, Builder, Combiner, DType, Graph, Literal, Number, Op, Precision, Reducer, TensorType, Unary, ValueId,
};
use judge::*;
use programs::{BINARY, COMBINERS, COMPARISONS, Program, REDUCERS, UNARY};
use smallvec::smallvec;

/// A program over `inputs`; `build` gives its results.
fn program(inputs: &[&Literal], build: impl FnOnce(&Builder, &[ValueId]) -> ir::Result<Vec<ValueId>>) -> Graph {
    let mut p = Program::new("program");
    let args: Vec<ValueId> = inputs.iter().map(|l| p.arg(l.ty.dtype, &l.ty.shape)).collect();
    let results = build(&p.b, &args).unwrap();
    results.into_iter().for_each(|v| p.give(v));
    p.done()
}

fn owned(inputs: &[&Literal]) -> Vec<Literal> {
    inputs.iter().map(|&l| l.clone()).collect()
}

fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128)
}

/// What the plugin's polynomials may be off.
fn unary_tolerance(u: Unary, dtype: DType) -> Tolerance {
    use Unary::*;
    match u {
        Abs | Sign if dtype.is_complex() => ulps(4.0),
        Abs | Ceil | CountLeadingZeros | Floor | Imag | IsFinite | Negate | Not | Popcnt | Real | RoundNearestEven
        | Sign => EXACT,
        // Around their zeros.
        Digamma | Lgamma => Tolerance { ulps: if is_wide(dtype) { 64.0 } else { 1.0 }, floor: 1.0 },
        _ if dtype.is_complex() => Tolerance { ulps: 64.0, floor: 1.0 },
        _ if !is_wide(dtype) => ulps(1.0),
        BesselI1e | ErfInv => ulps(64.0),
        _ => ulps(16.0),
    }
}

#[test]
fn unary_ops() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        let x = specials(dtype);
        for u in UNARY {
            j.op(&format!("{u:?}"), Op::Unary(u), &[&x], unary_tolerance(u, dtype));
        }
    }
}

fn binary_tolerance(op: Binary, dtype: DType) -> Tolerance {
    use Binary::*;
    match op {
        Multiply | Divide if dtype.is_complex() => ulps(8.0),
        Add | Complex | Divide | Maximum | Minimum | Multiply | NextAfter | Remainder | Subtract => EXACT,
        And | Or | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical | Xor => EXACT,
        Power if dtype.is_complex() => Tolerance { ulps: 256.0, floor: 1.0 },
        _ if !is_wide(dtype) => ulps(1.0),
        Zeta => ulps(1024.0),
        Atan2 | Power => ulps(16.0),
    }
}

/// Operands for which a function is defined well enough to have one answer.
fn binary_operands(op: Binary, dtype: DType) -> Option<(Literal, Literal)> {
    let all = specials(dtype);
    let finite = [0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.25, 5.0, 7.0, -2.0, 0.01171875].map(Number::Float);
    match op {
        // An angle of complex numbers is nobody's wish.
        Binary::Atan2 if dtype.is_complex() => None,
        // 0 to a complex power: plugins say NaN, C++ says 0.
        Binary::Power if dtype.is_complex() => {
            let bases =
                line(dtype, &[(1.0, 2.0), (-1.0, 0.5), (0.0, 3.0), (2.5, 0.0)].map(|(a, b)| Number::Complex(a, b)));
            Some(pairs(&bases))
        }
        Binary::Zeta => Some(pairs(&line(dtype, &finite))),
        _ => Some(pairs(&all)),
    }
}

#[test]
fn binary_ops() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        for op in BINARY {
            let Some((x, y)) = binary_operands(op, dtype) else { continue };
            j.op(&format!("{op:?}"), Op::Binary(op), &[&x, &y], binary_tolerance(op, dtype));
        }
    }
}

#[test]
fn comparisons() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        let (x, y) = pairs(&specials(dtype));
        for c in COMPARISONS {
            j.op(&format!("{c:?} of {dtype}"), Op::Compare(c), &[&x, &y], EXACT);
        }
    }
}

#[test]
fn conversions() {
    let mut j = Judge::new();
    for from in DType::ALL {
        let x = specials(from);
        let targets: Vec<DType> = DType::ALL.into_iter().filter(|&to| to != from).collect();
        let graph = program(&[&x], |b, v| targets.iter().map(|&to| b.convert(v[0], to)).collect());
        j.exact(&format!("{from} to {targets:?}"), &graph, &[x]);
    }
}

#[test]
fn bitcasts() {
    let mut j = Judge::new();
    for from in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
        let x = noise(from, &[64], 1);
        for to in
            DType::ALL.into_iter().filter(|&d| d != DType::Bool && d != from && d.is_complex() == from.is_complex())
        {
            j.op(&format!("{from} as {to}"), Op::BitcastConvert { dtype: to }, &[&x], EXACT);
        }
    }
}

#[test]
fn constants_and_iotas() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        let literals = [
            specials(dtype),
            noise(dtype, &[3, 5], 2),
            noise(dtype, &[], 3),
            noise(dtype, &[2, 0, 3], 4),
            Literal::splat(Number::Float(-1.5), dtype, [4, 2]),
            Literal::splat(Number::Float(f64::NAN), dtype, [0]),
        ];
        let graph = program(&[], |b, _| literals.iter().map(|l| b.constant(l.clone())).collect());
        j.exact(&format!("constants of {dtype}"), &graph, &[]);
        for (shape, dim) in [(&[5][..], 0), (&[2, 3, 4], 1), (&[0, 2], 1)] {
            j.op("iota", Op::Iota { dtype, shape: shape.into(), dim }, &[], EXACT);
        }
    }
}

#[test]
fn data_movement() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        let (x, y, v) = (noise(dtype, &[2, 3, 4], 1), noise(dtype, &[2, 5, 4], 2), noise(dtype, &[], 3));
        let (p, thin) = (noise(DType::Bool, &[2, 3, 4], 4), noise(dtype, &[2, 1, 4], 5));
        let graph = program(&[&x, &y, &v, &p, &thin], |b, a| {
            let select = b.select(a[3], a[0], b.reverse(a[0], &[0, 2])?)?;
            Ok(vec![
                b.broadcast_in_dim(a[4], &[2, 5, 3, 4], &[0, 2, 3])?,
                b.broadcast_in_dim(a[2], &[0, 2], &[])?,
                b.reshape(a[0], &[4, 1, 6])?,
                b.transpose(a[0], &[2, 0, 1])?,
                b.slice(a[1], &[0, 1, 0], &[2, 5, 4], &[1, 3, 2])?,
                b.slice(a[1], &[1, 1, 4], &[1, 1, 4], &[1, 1, 1])?,
                b.concatenate(&[a[0], a[1], a[4]], 1)?,
                b.pad(a[0], a[2], &[1, -1, 0], &[0, 2, -3], &[2, 0, 1])?,
                b.pad(a[0], a[2], &[0, -3, 0], &[0, 1, 0], &[0, 0, 0])?,
                b.reverse(a[0], &[0, 2])?,
                select,
            ])
        });
        j.exact(&format!("movement of {dtype}"), &graph, &owned(&[&x, &y, &v, &p, &thin]));
    }
}

#[test]
fn dynamic_slices_clamp() {
    let mut j = Judge::new();
    for index in [DType::I8, DType::I32, DType::I64, DType::U8, DType::U32, DType::U64] {
        for starts in [[0, 0], [1, 2], [-3, 100], [7, -1], [i64::MAX, i64::MIN]] {
            let (x, window) = (noise(DType::F32, &[5, 7], 1), noise(DType::F32, &[2, 3], 2));
            let [row, column] = starts.map(|i| ints(index, &[], &[i]));
            let what = format!("start {starts:?} of {index}");
            j.op(&what, Op::DynamicSlice { sizes: smallvec![2, 3] }, &[&x, &row, &column], EXACT);
            j.op(&what, Op::DynamicUpdateSlice, &[&x, &window, &row, &column], EXACT);
        }
    }
}

#[test]
fn gathers() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        for (g, [operand, indices]) in programs::gathers() {
            let n = indices.iter().product();
            let values: Vec<i64> = sequence(5, 11).take(n).map(|i| i as i64 - 3).collect();
            for index in [DType::I32, DType::I64, DType::U8] {
                let (x, i) = (noise(dtype, operand, 1), ints(index, indices, &values));
                j.op(&format!("gather by {index}"), Op::Gather(g.clone()), &[&x, &i], EXACT);
            }
        }
    }
}

#[test]
fn scatters() {
    let mut j = Judge::new();
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
        for combiner in COMBINERS {
            let ordered = matches!(combiner, Combiner::Maximum | Combiner::Minimum);
            if ordered && dtype.is_complex() {
                continue;
            }
            for (mut s, [operand, indices, updates]) in programs::scatters(combiner) {
                let unique = s.unique_indices || combiner == Combiner::Set;
                s.unique_indices = unique;
                // Out of range on both sides; the rest distinct if need be.
                let distinct = [-1, 0, 9, 2, 1, 3, 4, 0];
                let repeated = [1, 1, 7, 1, 0, -2, 1, 1];
                let values = if unique { distinct } else { repeated };
                let n: usize = indices.iter().product();
                let (x, u) = (small(dtype, operand, 1), small(dtype, updates, 2));
                let i = ints(DType::I32, indices, &values[..n]);
                j.op(&format!("scatter {combiner:?}"), Op::Scatter(s), &[&x, &i, &u], EXACT);
            }
        }
    }
}

/// Element types of operands and result of a contraction.
const CONTRACTIONS: [(DType, DType); 18] = {
    use DType::*;
    [
        (F64, F64),
        (F32, F32),
        (F16, F16),
        (F16, F32),
        (BF16, BF16),
        (BF16, F32),
        (F8E4M3FN, F32),
        (F8E5M2, F32),
        (I8, I32),
        (I8, I8),
        (I32, I32),
        (I64, I64),
        (U8, U8),
        (U8, U32),
        (U16, U16),
        (U64, U64),
        (C64, C64),
        (C128, C128),
    ]
};

#[test]
fn contractions() {
    let mut j = Judge::new();
    for (dtype, out) in CONTRACTIONS {
        let (x, y) = (small(dtype, &[2, 5, 3, 4], 1), small(dtype, &[3, 4, 2, 6], 2));
        let dot = programs::batched_dot(Precision::Highest, out);
        j.op(&format!("dot of {dtype}"), Op::DotGeneral(dot), &[&x, &y], EXACT);
        let none = DotGeneral {
            lhs_batch: smallvec![],
            rhs_batch: smallvec![],
            lhs_contract: smallvec![1],
            rhs_contract: smallvec![0],
            precision: Precision::Default,
            out,
            host: false,
        };
        let (x, y) = (small(dtype, &[2, 0], 1), small(dtype, &[0, 3], 2));
        j.op("dot over nothing", Op::DotGeneral(none.clone()), &[&x, &y], EXACT);
        let outer = DotGeneral { lhs_contract: smallvec![], rhs_contract: smallvec![], ..none };
        let (x, y) = (small(dtype, &[3], 1), small(dtype, &[2], 2));
        // -0 where the evaluator adds it to 0.
        j.op("outer product", Op::DotGeneral(outer), &[&x, &y], if out.is_int() { EXACT } else { ulps(1.0) });
    }
}

#[test]
fn convolutions() {
    let mut j = Judge::new();
    for (dtype, out) in CONTRACTIONS {
        let (x, k) = (small(dtype, &[2, 7, 9, 4], 1), small(dtype, &[6, 4, 3, 2], 2));
        let c = programs::asymmetric_convolution(out);
        j.op(&format!("convolution of {dtype}"), Op::Convolution(c), &[&x, &k], EXACT);
        for (c, [input, kernel]) in programs::grouped_convolutions() {
            let (x, k) = (small(dtype, input, 1), small(dtype, kernel, 2));
            let what = format!("convolution of {dtype} in {} and {}", c.feature_group_count, c.batch_group_count);
            j.op(&what, Op::Convolution(Convolution { out, ..c }), &[&x, &k], EXACT);
        }
    }
}

/// Numbers whose product stays in range.
fn factors(dtype: DType, shape: &[usize]) -> Literal {
    let n = shape.iter().product();
    let of = |i: u64| match (dtype.is_float() && dtype.size() > 1, i) {
        (true, 0) => Number::Float(2.0),
        (true, 1) => Number::Float(0.5),
        (_, 2) => Number::Int(-1),
        _ => Number::Int(1),
    };
    let numbers: Vec<Number> = sequence(9, 4).take(n).map(of).collect();
    shaped(&line(dtype, &numbers), shape)
}

fn operand(reducer: Reducer, dtype: DType, shape: &[usize]) -> Literal {
    match reducer {
        Reducer::Add => small(dtype, shape, 1),
        Reducer::Multiply => factors(dtype, shape),
        _ if dtype.is_float() => small(dtype, shape, 1),
        _ => noise(dtype, shape, 1),
    }
}

#[test]
fn reductions() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        for reducer in REDUCERS.into_iter().filter(|r| !r.is_arg()) {
            let reduce = |dims: &[usize]| Op::Reduce { reducer, dims: dims.into() };
            let x = operand(reducer, dtype, &[2, 3, 4]);
            for dims in [&[1][..], &[0, 2], &[2, 0, 1]] {
                j.op(&format!("{reducer:?} over {dims:?}"), reduce(dims), &[&x], EXACT);
            }
            let empty = operand(reducer, dtype, &[2, 0]);
            j.op(&format!("{reducer:?} over nothing"), reduce(&[1]), &[&empty], EXACT);
            j.op(&format!("nothing left by {reducer:?}"), reduce(&[0]), &[&empty], EXACT);
            if matches!(reducer, Reducer::Maximum | Reducer::Minimum) {
                let (x, y) = pairs(&specials(dtype));
                let n = x.ty.numel();
                let both = shaped(&joined(&x, &y), &[2, n]);
                j.op(&format!("{reducer:?} of pairs"), reduce(&[0]), &[&both], EXACT);
            }
        }
    }
}

fn joined(x: &Literal, y: &Literal) -> Literal {
    let bytes = [x.dense_bytes(), y.dense_bytes()].concat();
    Literal::dense(TensorType::new(x.ty.dtype, [x.ty.numel() + y.ty.numel()]), bytes).unwrap()
}

#[test]
fn arg_reductions_find_nan_and_the_first() {
    let mut j = Judge::new();
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
        for reducer in [Reducer::ArgMax, Reducer::ArgMin] {
            let (x, y) = pairs(&specials(dtype));
            let n = x.ty.numel();
            let both = shaped(&joined(&x, &y), &[2, n]);
            for index in [DType::I32, DType::I64, DType::U8] {
                let what = format!("{reducer:?} of {dtype} by {index}");
                for order in [[0, 1], [1, 0]] {
                    let places: Vec<i64> = order.iter().flat_map(|&i| vec![i; n]).collect();
                    let places = ints(index, &[2, n], &places);
                    j.op(&what, Op::Reduce { reducer, dims: smallvec![0] }, &[&both, &places], EXACT);
                }
                let all = specials(dtype);
                let places = ints(index, &all.ty.shape, &(0..all.ty.numel() as i64).collect::<Vec<_>>());
                j.op(&what, Op::Reduce { reducer, dims: smallvec![0] }, &[&all, &places], EXACT);
                let (none, nowhere) = (small(dtype, &[2, 0], 1), ints(index, &[2, 0], &[]));
                j.op(&what, Op::Reduce { reducer, dims: smallvec![1] }, &[&none, &nowhere], EXACT);
            }
        }
    }
}

#[test]
fn windows() {
    let mut j = Judge::new();
    for dtype in DType::ALL {
        for reducer in REDUCERS {
            let x = operand(reducer, dtype, &[2, 9, 7]);
            let i = ints(DType::I32, &[2, 9, 7], &(0..126).collect::<Vec<_>>());
            let args: &[&Literal] = if reducer.is_arg() { &[&x, &i] } else { &[&x] };
            let op = Op::ReduceWindow { reducer, window: programs::asymmetric_window() };
            j.op(&format!("windows of {dtype} by {reducer:?}"), op, args, EXACT);
        }
        let (x, source) = (small(dtype, &[2, 7, 6], 1), small(dtype, &[2, 4, 3], 2));
        if dtype != DType::Bool && !dtype.is_complex() {
            let op = Op::SelectAndScatter { window: programs::overlapping_window() };
            j.op(&format!("select_and_scatter of {dtype}"), op, &[&x, &source], EXACT);
        }
        if dtype.is_float() {
            // NaN wins, the last of two; of equals, -0 and 0 too, the first.
            let values = [1.0, f64::NAN, f64::NAN, f64::NAN, -0.0, 0.0, 0.0, -0.0, f64::INFINITY, f64::INFINITY];
            let x = line(dtype, &values.map(Number::Float));
            let source = line(dtype, &[1, 2, 1, 1, 1].map(Number::Int));
            let window = Window { size: smallvec![2], strides: smallvec![2], ..Window::trivial(1) };
            j.op(&format!("selection of {dtype}"), Op::SelectAndScatter { window }, &[&x, &source], EXACT);
        }
    }
}

#[test]
fn sorts() {
    let mut j = Judge::new();
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
        for descending in [false, true] {
            let sort = |dim| Op::Sort { dim, descending, stable: true };
            let what = format!("sort of {dtype}, descending: {descending}");
            let keys = joined(&specials(dtype), &specials(dtype));
            let n = keys.ty.numel();
            let places = ints(DType::I64, &[n], &(0..n as i64).collect::<Vec<_>>());
            j.op(&what, sort(0), &[&keys, &places], EXACT);
            let grid = shaped(&keys, &[2, n / 2]);
            let payload = noise(DType::C64, &[2, n / 2], 3);
            for dim in [0, 1] {
                j.op(&what, sort(dim), &[&grid, &payload, &grid], EXACT);
            }
            j.op(&what, sort(1), &[&small(dtype, &[3, 0], 1)], EXACT);
        }
    }
}

#[test]
fn fourier_transforms() {
    let mut j = Judge::new();
    let lengths: [&[usize]; 8] = [&[1], &[8], &[12], &[67], &[400], &[4, 6], &[5, 3, 2], &[1, 2, 9]];
    for (real, complex) in [(DType::F32, DType::C64), (DType::F64, DType::C128)] {
        for (rows, lengths) in [&[][..], &[3], &[2, 0]].into_iter().flat_map(|rows| lengths.map(|n| (rows, n))) {
            let whole = [rows, lengths].concat();
            let half = |n: &[usize]| [&n[..n.len() - 1], &[n[n.len() - 1] / 2 + 1]].concat();
            for kind in [FftKind::Fft, FftKind::Ifft, FftKind::Rfft, FftKind::Irfft] {
                let x = match kind {
                    FftKind::Rfft => small(real, &whole, 1),
                    FftKind::Irfft => small(complex, &half(&whole), 2),
                    _ => small(complex, &whole, 3),
                };
                // Each value is a sum of all of them: the floor is about the largest.
                let near = Tolerance { ulps: 64.0, floor: 8.0 };
                j.op(&format!("{kind:?} of {real}{whole:?}"), Op::Fft { kind, lengths: lengths.into() }, &[&x], near);
            }
        }
    }
}

#[test]
fn the_greatest_of_rows() {
    let mut j = Judge::new();
    // Every bit pattern of a kind: both zeros, infinities, NaNs of both signs, and equal ones.
    let bits =
        [0, 1 << 31, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0x3f80_0000, 0xbf80_0000, 1];
    let bytes: Vec<u8> = (0..60).flat_map(|i: usize| u32::to_le_bytes(bits[i * 7 % 10])).collect();
    for shape in [[1, 60], [3, 20], [60, 1], [0, 4]] {
        let x = Literal::dense(TensorType::new(DType::F32, shape), bytes[..shape[0] * shape[1] * 4].to_vec()).unwrap();
        for k in [0, 1, 3, shape[1]].into_iter().filter(|&k| k <= shape[1]) {
            j.op(&format!("{k} of {shape:?}"), Op::TopK { k }, &[&x], EXACT);
        }
    }
}

#[test]
fn random_bits() {
    let mut j = Judge::new();
    let shapes: [&[usize]; 9] = [&[], &[1], &[7], &[8], &[3, 5], &[4, 3], &[3, 4], &[5, 1, 3], &[0, 2]];
    for (key, counter) in [(0, 0), (-1, -1), (0x1234_5678_9abc_def0, -3)] {
        for dtype in [DType::U32, DType::U64] {
            for shape in shapes {
                let state = ints(DType::U64, &[2], &[key, counter]);
                let what = format!("{dtype}{shape:?} from {key}, {counter}");
                j.op(&what, Op::RngBitGenerator { dtype, shape: shape.into() }, &[&state], EXACT);
            }
        }
    }
}

#[test]
fn barriers() {
    let mut j = Judge::new();
    let (x, y) = (ints(DType::I32, &[2], &[3, -4]), ints(DType::U64, &[], &[7]));
    j.op("one", Op::OptimizationBarrier, &[&x], EXACT);
    j.op("two", Op::OptimizationBarrier, &[&x, &y], EXACT);
}

#[test]
fn control_flow() {
    let mut j = Judge::new();
    for (name, graph) in programs::all() {
        let inputs: Vec<Vec<Literal>> = match name {
            "while" => [0, 1, 5].map(|n| vec![ints(DType::I32, &[], &[n]), small(DType::F32, &[2], 3)]).into(),
            "if" => {
                let bools = [(false, false), (false, true), (true, false), (true, true)];
                let flag = |b| line(DType::Bool, &[Number::Bool(b)]);
                bools
                    .map(|(c, d)| vec![shaped(&flag(c), &[]), shaped(&flag(d), &[]), small(DType::F32, &[2], 3)])
                    .into()
            }
            _ => continue,
        };
        for inputs in inputs {
            j.compare(name, &graph, &inputs, ulps(16.0));
        }
    }
}

#[test]
fn a_small_network() {
    let mut j = Judge::new();
    let (_, graph) = programs::all().into_iter().find(|(name, _)| *name == "mlp").unwrap();
    let inputs: Vec<Literal> = graph
        .input_types()
        .enumerate()
        .map(|(i, ty)| small(DType::F32, &ty.tensor().unwrap().shape, i as u64 + 1))
        .collect();
    j.exact("mlp", &graph, &inputs);
}

#[test]
fn imported_models() {
    let mut j = Judge::new();
    for file in ["channels_last", "dynamic", "lists", "mlp", "mutation", "regions", "views"] {
        let graph = programs::trace(file);
        let types = graph.input_types().map(|ty| ty.tensor().unwrap()).enumerate();
        let inputs: Vec<Literal> = types.map(|(i, ty)| small(ty.dtype, &ty.shape, i as u64 + 1)).collect();
        j.compare(file, &graph, &inputs, Tolerance { ulps: 64.0, floor: 1.0 });
    }
}
