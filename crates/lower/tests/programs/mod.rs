//! One small program per kind of core op, with attributes that differ from every default and from each other.
//! Here those of one element or of positions; [`structured`] has the rest.
#![allow(dead_code, unreachable_pub)] // each test file has its own copy and uses its own part

mod structured;

pub use structured::*;

use ir::op::*;
use ir::{Binary, Builder, Combiner, Comparison, DType, Graph, InputKind, Literal, Number, OutputKind};
use ir::{Reducer, Result, TensorType, Unary, ValueId};
use smallvec::smallvec;

pub const UNARY: [Unary; 37] = {
    use Unary::*;
    [
        Abs,
        Acos,
        Acosh,
        Asin,
        Asinh,
        Atanh,
        BesselI1e,
        Cbrt,
        Ceil,
        Cosh,
        Cosine,
        CountLeadingZeros,
        Digamma,
        Erf,
        ErfInv,
        Erfc,
        Exponential,
        ExponentialMinusOne,
        Floor,
        Imag,
        IsFinite,
        Lgamma,
        Log,
        LogPlusOne,
        Logistic,
        Negate,
        Not,
        Popcnt,
        Real,
        RoundNearestEven,
        Rsqrt,
        Sign,
        Sine,
        Sinh,
        Sqrt,
        Tan,
        Tanh,
    ]
};

pub const BINARY: [Binary; 18] = {
    use Binary::*;
    [
        Add,
        And,
        Atan2,
        Complex,
        Divide,
        Maximum,
        Minimum,
        Multiply,
        NextAfter,
        Or,
        Power,
        Remainder,
        ShiftLeft,
        ShiftRightArithmetic,
        ShiftRightLogical,
        Subtract,
        Xor,
        Zeta,
    ]
};

pub const COMPARISONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::Ne, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge];

pub const REDUCERS: [Reducer; 9] = [
    Reducer::Add,
    Reducer::Multiply,
    Reducer::Maximum,
    Reducer::Minimum,
    Reducer::And,
    Reducer::Or,
    Reducer::Xor,
    Reducer::ArgMax,
    Reducer::ArgMin,
];

pub const COMBINERS: [Combiner; 5] =
    [Combiner::Set, Combiner::Add, Combiner::Multiply, Combiner::Maximum, Combiner::Minimum];

/// A program under construction.
pub struct Program {
    pub b: Builder,
    inputs: usize,
    outputs: usize,
}

impl Program {
    pub fn new(name: &str) -> Program {
        let (inputs, outputs) = (0, 0);
        Program { b: Builder::new(name), inputs, outputs }
    }
    pub fn arg(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        self.inputs += 1;
        let ty = TensorType::new(dtype, shape.iter().copied());
        self.b.input(format!("x{}", self.inputs - 1), InputKind::User, ty)
    }
    pub fn give(&mut self, v: ValueId) {
        self.give_as(OutputKind::User, v);
    }
    pub fn give_as(&mut self, kind: OutputKind, v: ValueId) {
        self.outputs += 1;
        self.b.output(format!("y{}", self.outputs - 1), kind, v);
    }
    pub fn done(self) -> Graph {
        self.b.finish()
    }
}

type Build = fn() -> Result<Graph>;
type Extents = &'static [usize];

/// Every program, by file name.
pub fn all() -> Vec<(&'static str, Graph)> {
    let programs: [(&'static str, Build); 41] = [
        ("unary_float", || unaries(DType::F32)),
        ("unary_int", || unaries(DType::I32)),
        ("unary_bool", || unaries(DType::Bool)),
        ("unary_complex", || unaries(DType::C64)),
        ("unary_f8", || unaries(DType::F8E4M3FN)),
        ("binary_float", || binaries(DType::F32)),
        ("binary_int", || binaries(DType::I64)),
        ("binary_unsigned", || binaries(DType::U8)),
        ("binary_bool", || binaries(DType::Bool)),
        ("binary_complex", || binaries(DType::C128)),
        ("compare", compare),
        ("select", select),
        ("convert", convert),
        ("bitcast_convert", bitcast_convert),
        ("constant", constant),
        ("iota", iota),
        ("shape", shape),
        ("slice", slice),
        ("dynamic_slice", dynamic_slice),
        ("dynamic_update_slice_chosen", dynamic_update_slice_chosen),
        ("concatenate", concatenate),
        ("pad", pad),
        ("reverse", reverse),
        ("gather", gather),
        ("scatter", scatter),
        ("dot_general", dot_general),
        ("convolution", convolution),
        ("convolution_grouped", convolution_grouped),
        ("reduce", reduce),
        ("reduce_arg", reduce_arg),
        ("reduce_window", reduce_window),
        ("select_and_scatter", select_and_scatter),
        ("sort", sort),
        ("routine", routine),
        ("rng_bit_generator", rng_bit_generator),
        ("optimization_barrier", optimization_barrier),
        ("while", while_loop),
        ("if", branch),
        ("donation", donation),
        ("located", located),
        ("mlp", mlp),
    ];
    let built = programs.map(|(name, build)| (name, build().unwrap_or_else(|e| panic!("{name}: {e}"))));
    // Whole small models, as PyTorch exports them.
    let models = [("model_mlp", "mlp"), ("model_channels_last", "channels_last"), ("model_dynamic", "dynamic")];
    built.into_iter().chain(models.map(|(name, file)| (name, trace(file)))).collect()
}

/// The graph of a trace in `testdata/traces`.
pub fn trace(file: &str) -> Graph {
    let path = format!("{}/../../testdata/traces/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let trace = ir::trace::read(path.as_ref()).unwrap_or_else(|e| panic!("{file}: {e}"));
    let dims = [("s17", 5), ("s77", 4)].map(|(name, n)| (name.to_owned(), n)).into();
    let options = ir::import::ImportOptions { dims, ..Default::default() };
    ir::import::import(&trace, &options).unwrap_or_else(|e| panic!("{file}: {e}")).graph
}

/// All unary ops that `dtype` has.
fn unaries(dtype: DType) -> Result<Graph> {
    let mut p = Program::new("unary");
    let x = p.arg(dtype, &[3]);
    for u in UNARY {
        if let Ok(y) = p.b.unary(u, x) {
            p.give(y);
        }
    }
    Ok(p.done())
}

fn binaries(dtype: DType) -> Result<Graph> {
    let mut p = Program::new("binary");
    let (x, y) = (p.arg(dtype, &[3]), p.arg(dtype, &[3]));
    for op in BINARY {
        if let Ok(z) = p.b.binary(op, x, y) {
            p.give(z);
        }
    }
    Ok(p.done())
}

fn compare() -> Result<Graph> {
    let mut p = Program::new("compare");
    for dtype in [DType::F32, DType::I8, DType::U32, DType::Bool] {
        let (x, y) = (p.arg(dtype, &[2]), p.arg(dtype, &[2]));
        for c in COMPARISONS {
            let z = p.b.compare(c, x, y)?;
            p.give(z);
        }
    }
    let (x, y) = (p.arg(DType::C64, &[2]), p.arg(DType::C64, &[2]));
    for c in [Comparison::Eq, Comparison::Ne] {
        let z = p.b.compare(c, x, y)?;
        p.give(z);
    }
    Ok(p.done())
}

fn select() -> Result<Graph> {
    let mut p = Program::new("select");
    let (c, x, y) = (p.arg(DType::Bool, &[2, 0]), p.arg(DType::F16, &[2, 0]), p.arg(DType::F16, &[2, 0]));
    let z = p.b.select(c, x, y)?;
    p.give(z);
    Ok(p.done())
}

fn convert() -> Result<Graph> {
    let mut p = Program::new("convert");
    let x = p.arg(DType::F32, &[2]);
    for dtype in DType::ALL {
        let y = p.b.convert(x, dtype)?;
        let back = p.b.convert(y, DType::Bool)?;
        p.give(y);
        p.give(back);
    }
    Ok(p.done())
}

fn bitcast_convert() -> Result<Graph> {
    let mut p = Program::new("bitcast_convert");
    let x = p.arg(DType::F32, &[2]);
    let y = p.b.bitcast_convert(x, DType::U32)?;
    p.give(y);
    let h = p.arg(DType::BF16, &[2]);
    let i = p.b.bitcast_convert(h, DType::I16)?;
    p.give(i);
    Ok(p.done())
}

fn constant() -> Result<Graph> {
    let mut p = Program::new("constant");
    for dtype in DType::ALL {
        let y = p.b.constant(Literal::splat(Number::Float(1.5), dtype, [2, 3]))?;
        p.give(y);
    }
    for x in [f64::NAN, f64::NEG_INFINITY, -0.0] {
        let y = p.b.scalar(Number::Float(x), DType::F32)?;
        p.give(y);
    }
    let payload = Literal::dense(TensorType::new(DType::F32, [2]), [1u8, 0, 192, 255, 0, 0, 128, 63].to_vec());
    let c128: Vec<u8> = [1.0f64, -2.0, f64::INFINITY, 0.5].iter().flat_map(|f| f.to_le_bytes()).collect();
    let bools = [1u8, 0, 1, 1, 0, 0, 0, 1, 1, 0].to_vec();
    let dense = [
        payload,
        Literal::dense(TensorType::new(DType::C128, [2]), c128),
        Literal::dense(TensorType::new(DType::Bool, [10]), bools),
        Literal::dense(TensorType::new(DType::Bool, [2, 4]), vec![1u8; 8]),
        Literal::dense(TensorType::new(DType::F32, [0, 3]), vec![]),
        Some(Literal::splat(Number::Bool(true), DType::Bool, [0])),
        Some(Literal::i64s(&[i64::MIN, -1, i64::MAX])),
        Literal::dense(TensorType::new(DType::F8E5M2, [3]), vec![0x7c, 0x7e, 0x01]),
    ];
    for literal in dense.into_iter().flatten() {
        let y = p.b.constant(literal)?;
        p.give(y);
    }
    Ok(p.done())
}

fn iota() -> Result<Graph> {
    let mut p = Program::new("iota");
    for (dtype, dim) in [(DType::I64, 0), (DType::BF16, 1), (DType::U8, 1), (DType::C64, 0)] {
        let y = p.b.iota(dtype, &[2, 3], dim)?;
        p.give(y);
    }
    Ok(p.done())
}

fn shape() -> Result<Graph> {
    let mut p = Program::new("shape");
    let x = p.arg(DType::F32, &[2, 1, 3]);
    let y = p.b.broadcast_in_dim(x, &[2, 5, 4, 3], &[0, 2, 3])?;
    let y = p.b.transpose(y, &[2, 0, 3, 1])?;
    let y = p.b.reshape(y, &[8, 15])?;
    p.give(y);
    let scalar = p.arg(DType::Bool, &[]);
    let y = p.b.broadcast_in_dim(scalar, &[0, 2], &[])?;
    p.give(y);
    Ok(p.done())
}

fn slice() -> Result<Graph> {
    let mut p = Program::new("slice");
    let x = p.arg(DType::I32, &[5, 7]);
    let y = p.b.slice(x, &[1, 0], &[4, 7], &[2, 3])?;
    p.give(y);
    let empty = p.b.slice(x, &[5, 1], &[5, 2], &[1, 1])?;
    p.give(empty);
    Ok(p.done())
}

fn dynamic_slice() -> Result<Graph> {
    let mut p = Program::new("dynamic_slice");
    let (x, i, j) = (p.arg(DType::F32, &[5, 7]), p.arg(DType::I64, &[]), p.arg(DType::I64, &[]));
    let window = p.b.push(Op::DynamicSlice { sizes: smallvec![2, 3] }, &[x, i, j], vec![])?;
    let updated = p.b.push(Op::DynamicUpdateSlice, &[x, window, j, i], vec![])?;
    p.give(window);
    p.give(updated);
    Ok(p.done())
}

/// A write of elements that are read from what it overwrites, in another shape.
fn dynamic_update_slice_chosen() -> Result<Graph> {
    let mut p = Program::new("dynamic_update_slice_chosen");
    let (x, i, j) = (p.arg(DType::F32, &[5, 8]), p.arg(DType::I64, &[]), p.arg(DType::I64, &[]));
    let base = p.b.reshape(x, &[4, 10])?;
    let base = p.b.negate(base)?;
    let row = p.b.push(Op::DynamicSlice { sizes: smallvec![3, 9] }, &[base, i, j], vec![])?;
    let other = p.b.push(Op::DynamicUpdateSlice, &[base, row, j, i], vec![])?;
    p.give(other);
    Ok(p.done())
}

fn concatenate() -> Result<Graph> {
    let mut p = Program::new("concatenate");
    let (x, y, z) = (p.arg(DType::F64, &[2, 1]), p.arg(DType::F64, &[2, 0]), p.arg(DType::F64, &[2, 3]));
    let all = p.b.concatenate(&[x, y, z], 1)?;
    p.give(all);
    Ok(p.done())
}

fn pad() -> Result<Graph> {
    let mut p = Program::new("pad");
    let (x, v) = (p.arg(DType::F32, &[3, 4]), p.arg(DType::F32, &[]));
    let y = p.b.pad(x, v, &[-1, 2], &[3, -2], &[0, 1])?;
    p.give(y);
    Ok(p.done())
}

fn reverse() -> Result<Graph> {
    let mut p = Program::new("reverse");
    let x = p.arg(DType::U16, &[3, 4, 2]);
    let y = p.b.reverse(x, &[0, 2])?;
    p.give(y);
    Ok(p.done())
}
