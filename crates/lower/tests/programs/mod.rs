//! One small program per kind of core op, with attributes that differ from every default and from each other.
#![allow(dead_code, unreachable_pub)] // each test file has its own copy and uses its own part

use ir::op::*;
use ir::{Binary, Builder, Combiner, Comparison, DType, Graph, InputKind, Literal, Loc, Number, OutputKind};
use ir::{Precision, Reducer, Result, TensorType, Unary, ValueId};
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

pub const BINARY: [Binary; 19] = {
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
        Polygamma,
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
    let programs: [(&'static str, Build); 38] = [
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
        ("rng_bit_generator", rng_bit_generator),
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

/// Rows of a matrix, and single elements with batching dimensions and an index vector in the middle.
pub fn gathers() -> [(Gather, [Extents; 2]); 2] {
    let rows = Gather {
        offset_dims: smallvec![2],
        collapsed_slice_dims: smallvec![0],
        start_index_map: smallvec![0],
        index_vector_dim: 2,
        slice_sizes: smallvec![1, 3],
        ..Gather::default()
    };
    let batched = Gather {
        offset_dims: smallvec![1],
        collapsed_slice_dims: smallvec![2],
        operand_batching_dims: smallvec![0],
        start_indices_batching_dims: smallvec![2],
        start_index_map: smallvec![2, 1],
        index_vector_dim: 1,
        slice_sizes: smallvec![1, 2, 1],
    };
    [(rows, [&[5, 3], &[2, 2]]), (batched, [&[4, 3, 5], &[3, 2, 4]])]
}

fn gather() -> Result<Graph> {
    let mut p = Program::new("gather");
    for (g, [operand, indices]) in gathers() {
        let (x, i) = (p.arg(DType::F32, operand), p.arg(DType::I64, indices));
        let y = p.b.gather(x, i, g)?;
        p.give(y);
    }
    Ok(p.done())
}

/// Rows into a matrix, and windows with batching dimensions. Extents of operand, indices, updates.
pub fn scatters(combiner: Combiner) -> [(Scatter, [Extents; 3]); 2] {
    let rows = Scatter {
        combiner,
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![0],
        input_batching_dims: smallvec![],
        scatter_indices_batching_dims: smallvec![],
        scatter_dims_to_operand_dims: smallvec![0],
        index_vector_dim: 1,
        unique_indices: false,
    };
    let batched = Scatter {
        combiner,
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![2],
        input_batching_dims: smallvec![0],
        scatter_indices_batching_dims: smallvec![2],
        scatter_dims_to_operand_dims: smallvec![2, 1],
        index_vector_dim: 1,
        unique_indices: true,
    };
    [(rows, [&[5, 3], &[4, 1], &[4, 3]]), (batched, [&[4, 3, 5], &[1, 2, 4], &[1, 2, 4]])]
}

fn scatter() -> Result<Graph> {
    let mut p = Program::new("scatter");
    for combiner in COMBINERS {
        for (s, [operand, indices, updates]) in scatters(combiner) {
            let (x, i, u) = (p.arg(DType::F32, operand), p.arg(DType::I32, indices), p.arg(DType::F32, updates));
            let y = p.b.scatter(x, i, u, s)?;
            p.give(y);
        }
    }
    Ok(p.done())
}

fn dot_general() -> Result<Graph> {
    let mut p = Program::new("dot_general");
    let precisions = [Precision::Default, Precision::High, Precision::Highest];
    for precision in precisions {
        let (x, y) = (p.arg(DType::F32, &[2, 5, 3, 4]), p.arg(DType::F32, &[3, 4, 2, 6]));
        let z = p.b.dot_general(x, y, batched_dot(precision, DType::F32))?;
        p.give(z);
    }
    let (x, y) = (p.arg(DType::BF16, &[2, 5, 3, 4]), p.arg(DType::BF16, &[3, 4, 2, 6]));
    let z = p.b.dot_general(x, y, batched_dot(Precision::Highest, DType::F32))?;
    p.give(z);
    let (x, y) = (p.arg(DType::I8, &[2, 5, 3, 4]), p.arg(DType::I8, &[3, 4, 2, 6]));
    let z = p.b.dot_general(x, y, batched_dot(Precision::Highest, DType::I32))?;
    p.give(z);
    Ok(p.done())
}

/// `[2, 5, 3, 4] x [3, 4, 2, 6] -> [2, 5, 6]`
pub fn batched_dot(precision: Precision, out: DType) -> DotGeneral {
    DotGeneral {
        lhs_batch: smallvec![0],
        rhs_batch: smallvec![2],
        lhs_contract: smallvec![2, 3],
        rhs_contract: smallvec![0, 1],
        precision,
        out,
    }
}

/// `[2, 7, 9, 4] (b01f) x [6, 4, 3, 2] (oi01) -> [b, f, 0, 1]`, everything asymmetric.
pub fn asymmetric_convolution(out: DType) -> Convolution {
    Convolution {
        strides: smallvec![2, 1],
        padding: smallvec![(1, 2), (-1, 3)],
        lhs_dilation: smallvec![1, 2],
        rhs_dilation: smallvec![2, 1],
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_output_feature: 0,
        kernel_input_feature: 1,
        kernel_spatial: smallvec![3, 2],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2, 3],
        feature_group_count: 1,
        batch_group_count: 1,
        precision: Precision::High,
        out,
    }
}

fn convolution() -> Result<Graph> {
    let mut p = Program::new("convolution");
    let (x, k) = (p.arg(DType::F32, &[2, 7, 9, 4]), p.arg(DType::F32, &[6, 4, 3, 2]));
    let y = p.b.convolution(x, k, asymmetric_convolution(DType::F32))?;
    p.give(y);
    let (x, k) = (p.arg(DType::BF16, &[2, 7, 9, 4]), p.arg(DType::BF16, &[6, 4, 3, 2]));
    let y = p.b.convolution(x, k, asymmetric_convolution(DType::F32))?;
    p.give(y);
    let zero_d = Convolution {
        strides: smallvec![],
        padding: smallvec![],
        lhs_dilation: smallvec![],
        rhs_dilation: smallvec![],
        input_spatial: smallvec![],
        input_feature: 1,
        kernel_spatial: smallvec![],
        output_spatial: smallvec![],
        ..asymmetric_convolution(DType::F32)
    };
    let (x, k) = (p.arg(DType::F32, &[2, 4]), p.arg(DType::F32, &[6, 4]));
    let y = p.b.convolution(x, k, zero_d)?;
    p.give(y);
    Ok(p.done())
}

/// One spatial dimension: feature groups, then batch groups.
pub fn grouped_convolutions() -> [(Convolution, [Extents; 2]); 2] {
    let line = Convolution {
        strides: smallvec![2],
        padding: smallvec![(0, 1)],
        lhs_dilation: smallvec![1],
        rhs_dilation: smallvec![1],
        input_batch: 0,
        input_feature: 1,
        input_spatial: smallvec![2],
        kernel_output_feature: 0,
        kernel_input_feature: 1,
        kernel_spatial: smallvec![2],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2],
        feature_group_count: 2,
        batch_group_count: 1,
        precision: Precision::Highest,
        out: DType::F32,
    };
    let batches = Convolution { feature_group_count: 1, batch_group_count: 2, ..line.clone() };
    [(line, [&[2, 4, 6], &[6, 2, 3]]), (batches, [&[4, 3, 6], &[6, 3, 3]])]
}

fn convolution_grouped() -> Result<Graph> {
    let mut p = Program::new("convolution_grouped");
    for (c, [input, kernel]) in grouped_convolutions() {
        let (x, k) = (p.arg(DType::F32, input), p.arg(DType::F32, kernel));
        let y = p.b.convolution(x, k, c)?;
        p.give(y);
    }
    Ok(p.done())
}

fn reduce() -> Result<Graph> {
    let mut p = Program::new("reduce");
    for dtype in [DType::F32, DType::I16, DType::U64, DType::Bool, DType::C64, DType::F8E4M3FN] {
        let x = p.arg(dtype, &[2, 3, 4]);
        for reducer in REDUCERS.into_iter().filter(|r| !r.is_arg()) {
            if let Ok(y) = p.b.reduce(x, reducer, &[0, 2]) {
                p.give(y);
            }
        }
    }
    Ok(p.done())
}

fn reduce_arg() -> Result<Graph> {
    let mut p = Program::new("reduce_arg");
    for (dtype, index) in [(DType::F32, DType::I64), (DType::I32, DType::I32), (DType::Bool, DType::U8)] {
        let (x, i) = (p.arg(dtype, &[2, 3]), p.arg(index, &[2, 3]));
        for reducer in [Reducer::ArgMax, Reducer::ArgMin] {
            let (value, at) = p.b.reduce_arg(x, i, reducer, &[1])?;
            p.give(value);
            p.give(at);
        }
    }
    Ok(p.done())
}

/// Windows over `[2, 9, 7]`, everything asymmetric.
pub fn asymmetric_window() -> Window {
    Window {
        size: smallvec![1, 3, 2],
        strides: smallvec![1, 2, 3],
        padding: smallvec![(0, 0), (1, 2), (2, 0)],
        base_dilation: smallvec![1, 1, 2],
        dilation: smallvec![1, 2, 1],
    }
}

fn reduce_window() -> Result<Graph> {
    let mut p = Program::new("reduce_window");
    let x = p.arg(DType::F32, &[2, 9, 7]);
    for reducer in [Reducer::Add, Reducer::Maximum, Reducer::Minimum] {
        let y = p.b.reduce_window(x, reducer, asymmetric_window())?;
        p.give(y);
    }
    let i = p.b.iota(DType::I32, &[2, 9, 7], 1)?;
    let both = p.b.push(Op::ReduceWindow { reducer: Reducer::ArgMax, window: asymmetric_window() }, &[x, i], vec![])?;
    for part in p.b.elements(both)? {
        p.give(part);
    }
    Ok(p.done())
}

/// Overlapping, padded windows over `[2, 7, 6]` give `[2, 4, 3]`.
pub fn overlapping_window() -> Window {
    Window {
        size: smallvec![1, 3, 2],
        strides: smallvec![1, 2, 2],
        padding: smallvec![(0, 0), (1, 1), (0, 1)],
        base_dilation: smallvec![1, 1, 1],
        dilation: smallvec![1, 1, 1],
    }
}

fn select_and_scatter() -> Result<Graph> {
    let mut p = Program::new("select_and_scatter");
    for dtype in [DType::F32, DType::I32] {
        let (x, source) = (p.arg(dtype, &[2, 7, 6]), p.arg(dtype, &[2, 4, 3]));
        let y = p.b.push(Op::SelectAndScatter { window: overlapping_window() }, &[x, source], vec![])?;
        p.give(y);
    }
    Ok(p.done())
}

fn sort() -> Result<Graph> {
    let mut p = Program::new("sort");
    let (x, i) = (p.arg(DType::F32, &[2, 5]), p.arg(DType::I64, &[2, 5]));
    for (descending, stable) in [(false, true), (true, false)] {
        for part in p.b.sort(&[x, i], 0, descending, stable)? {
            p.give(part);
        }
        for part in p.b.sort(&[i], 1, descending, stable)? {
            p.give(part);
        }
    }
    Ok(p.done())
}

fn rng_bit_generator() -> Result<Graph> {
    let mut p = Program::new("rng_bit_generator");
    for (dtype, shape) in [(DType::U32, &[3, 5][..]), (DType::U64, &[7]), (DType::U32, &[])] {
        let bits = p.b.random_bits(dtype, shape)?;
        p.give(bits);
    }
    Ok(p.done())
}

/// Doubles the second value until the first has counted down.
fn while_loop() -> Result<Graph> {
    let mut p = Program::new("while");
    let (n, x) = (p.arg(DType::I32, &[]), p.arg(DType::F32, &[2]));
    let mut cond = Program::new("cond");
    let (i, _) = (cond.arg(DType::I32, &[]), cond.arg(DType::F32, &[2]));
    let zero = cond.b.scalar(Number::Int(0), DType::I32)?;
    let more = cond.b.compare(Comparison::Gt, i, zero)?;
    cond.give(more);
    let mut body = Program::new("body");
    let (i, y) = (body.arg(DType::I32, &[]), body.arg(DType::F32, &[2]));
    let one = body.b.scalar(Number::Int(1), DType::I32)?;
    let next = body.b.subtract(i, one)?;
    let twice = body.b.add(y, y)?;
    body.give(next);
    body.give(twice);
    for part in p.b.while_loop(&[n, x], cond.done(), body.done())? {
        p.give(part);
    }
    Ok(p.done())
}

/// Captured operands, a nested `if`, and a branch that hands an operand through.
fn branch() -> Result<Graph> {
    let mut p = Program::new("if");
    let (c, d, x) = (p.arg(DType::Bool, &[]), p.arg(DType::Bool, &[]), p.arg(DType::F32, &[2]));
    let step = |op: Unary| -> Result<Graph> {
        let mut body = Program::new("step");
        let y = body.arg(DType::F32, &[2]);
        let z = body.b.unary(op, y)?;
        body.give(z);
        Ok(body.done())
    };
    let mut then = Program::new("then");
    let (inner, y) = (then.arg(DType::Bool, &[]), then.arg(DType::F32, &[2]));
    for z in then.b.if_then_else(inner, &[y], step(Unary::Negate)?, step(Unary::Tanh)?)? {
        then.give(z);
    }
    let mut otherwise = Program::new("otherwise");
    let (_, y) = (otherwise.arg(DType::Bool, &[]), otherwise.arg(DType::F32, &[2]));
    otherwise.give(y);
    for part in p.b.if_then_else(c, &[d, x], then.done(), otherwise.done())? {
        p.give(part);
    }
    Ok(p.done())
}

fn donation() -> Result<Graph> {
    let mut p = Program::new("donation");
    let (x, w, m) = (p.arg(DType::F32, &[2]), p.arg(DType::F32, &[2]), p.arg(DType::F32, &[2]));
    let sum = p.b.add(x, w)?;
    let product = p.b.multiply(sum, m)?;
    p.give(sum);
    p.give_as(OutputKind::Mutation(2), product);
    p.give_as(OutputKind::Mutation(1), sum);
    Ok(p.done())
}

pub fn located() -> Result<Graph> {
    let mut p = Program::new("located");
    let x = p.arg(DType::F32, &[2, 3]);
    let at = |line, module: &str, op: &str| Loc {
        file: "/home/me/project/net.py".into(),
        line,
        module: module.into(),
        op: op.into(),
        ..Loc::default()
    };
    p.b.set_loc(&at(12, "layers.0.mlp", "aten.tanh.default"));
    let y = p.b.unary(Unary::Tanh, x)?;
    p.b.set_loc(&at(13, "", "aten.sum.default"));
    let z = p.b.reduce(y, Reducer::Add, &[1])?;
    p.b.set_loc(&Loc::default());
    let w = p.b.negate(z)?;
    p.give(w);
    Ok(p.done())
}

/// Two layers and a mean squared error, as a small model would arrive.
fn mlp() -> Result<Graph> {
    let mut p = Program::new("mlp");
    let (x, w1, b1) = (p.arg(DType::F32, &[4, 3]), p.arg(DType::F32, &[3, 8]), p.arg(DType::F32, &[8]));
    let (w2, target) = (p.arg(DType::F32, &[8, 2]), p.arg(DType::F32, &[4, 2]));
    let matmul = || DotGeneral {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![1],
        rhs_contract: smallvec![0],
        precision: Precision::Highest,
        out: DType::F32,
    };
    let h = p.b.dot_general(x, w1, matmul())?;
    let bias = p.b.broadcast_in_dim(b1, &[4, 8], &[1])?;
    let h = p.b.add(h, bias)?;
    let zero = p.b.full_like(h, Number::Float(0.0))?;
    let h = p.b.maximum(h, zero)?;
    let y = p.b.dot_general(h, w2, matmul())?;
    let difference = p.b.subtract(y, target)?;
    let squares = p.b.multiply(difference, difference)?;
    let sum = p.b.reduce(squares, Reducer::Add, &[0, 1])?;
    let n = p.b.scalar(Number::Float(8.0), DType::F32)?;
    let loss = p.b.divide(sum, n)?;
    p.give(y);
    p.give(loss);
    Ok(p.done())
}
