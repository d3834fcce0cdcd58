//! Runs a graph on the CPU plugin and in the reference evaluator, and says where they differ.
#![allow(dead_code, unreachable_pub)] // each test file has its own copy and uses its own part
#![allow(clippy::unwrap_used)]

use crate::machine::Machine;
use crate::programs::Program;
use ir::{DType, Graph, Literal, Number, Op, TensorType, Type, ValueId};

/// Collects what differs, to be shown all at once.
///
/// Ops are compiled in batches: a plugin takes much the same time for one op as for twenty.
pub struct Judge {
    machine: Machine,
    found: Vec<String>,
    batch: Vec<Case>,
}

/// One op over its operands.
struct Case {
    what: String,
    op: Op,
    inputs: Vec<Literal>,
    tolerance: Tolerance,
}

impl Judge {
    const BATCH: usize = 32;

    pub fn new() -> Judge {
        Judge { machine: Machine::new(), found: vec![], batch: vec![] }
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Runs `graph` both ways.
    pub fn compare(&mut self, what: &str, graph: &Graph, inputs: &[Literal], tolerance: Tolerance) {
        match self.run(what, graph, inputs) {
            Err(e) => self.found.push(format!("{what}: {e}")),
            Ok(results) => results.iter().enumerate().for_each(|(i, (got, want))| {
                self.note(&format!("{what}, output {i}"), got, want, tolerance);
            }),
        }
    }

    pub fn exact(&mut self, what: &str, graph: &Graph, inputs: &[Literal]) {
        self.compare(what, graph, inputs, EXACT);
    }

    /// Queues `op`, unless inference says that it is not for such operands.
    pub fn op(&mut self, what: &str, op: Op, inputs: &[&Literal], tolerance: Tolerance) {
        let types: Vec<Type> = inputs.iter().map(|l| l.ty.clone().into()).collect();
        if ir::infer(&op, &types.iter().collect::<Vec<_>>(), &[]).is_err() {
            return;
        }
        let inputs = inputs.iter().map(|&l| l.clone()).collect();
        self.batch.push(Case { what: what.to_owned(), op, inputs, tolerance });
        if self.batch.len() == Judge::BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if self.judge(&batch).is_ok() {
            return;
        }
        for case in &batch {
            if let Err(e) = self.judge(std::slice::from_ref(case)) {
                self.found.push(format!("{}: {e}", case.what));
            }
        }
    }

    /// Compares all of `batch`, or says why the plugin did not run it.
    fn judge(&mut self, batch: &[Case]) -> Result<(), String> {
        let (mut p, mut names) = (Program::new("batch"), vec![]);
        for case in batch {
            let args: Vec<ValueId> = case.inputs.iter().map(|l| p.arg(l.ty.dtype, &l.ty.shape)).collect();
            let v = p.b.push(case.op.clone(), &args, vec![]).unwrap();
            for (i, part) in p.b.elements(v).unwrap_or(vec![v]).into_iter().enumerate() {
                p.give(part);
                names.push((format!("{}, result {i}", case.what), case.tolerance));
            }
        }
        let inputs: Vec<Literal> = batch.iter().flat_map(|case| case.inputs.clone()).collect();
        let results = self.run("batch", &p.done(), &inputs)?;
        for ((got, want), (name, tolerance)) in results.iter().zip(&names) {
            self.note(name, got, want, *tolerance);
        }
        Ok(())
    }

    /// For each output what the plugin and what the evaluator gives.
    fn run(&self, what: &str, graph: &Graph, inputs: &[Literal]) -> Result<Vec<(Literal, Literal)>, String> {
        let want = ir::eval::eval(graph, inputs).unwrap_or_else(|e| panic!("{what}: {e}"));
        let got = self.machine.run(graph, inputs)?;
        assert_eq!(got.len(), want.len(), "{what}");
        Ok(got.into_iter().zip(want).collect())
    }

    fn note(&mut self, what: &str, got: &Literal, want: &Literal, tolerance: Tolerance) {
        assert_eq!(got.ty, want.ty, "{what}");
        self.found.extend(differences(got, want, tolerance).map(|d| format!("{what} {}{d}", got.ty)));
    }
}

/// How far two floats may be apart: `ulps` units in the last place of the wanted number, or of `floor` if that is more.
/// No units ask for equal bits, but for the payload of a NaN.
#[derive(Clone, Copy)]
pub struct Tolerance {
    pub ulps: f64,
    pub floor: f64,
}

pub const EXACT: Tolerance = Tolerance { ulps: 0.0, floor: 0.0 };

pub fn ulps(ulps: f64) -> Tolerance {
    Tolerance { ulps, floor: 0.0 }
}

impl Drop for Judge {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.flush();
            assert!(self.found.is_empty(), "{}", self.found.join("\n"));
        }
    }
}

/// The first few elements that differ.
fn differences(got: &Literal, want: &Literal, tolerance: Tolerance) -> Option<String> {
    let dtype = got.ty.dtype;
    let (g, w) = (got.dense_bytes(), want.dense_bytes());
    if g.len() != w.len() {
        return Some(format!(": {} bytes, not {}", g.len(), w.len()));
    }
    let size = dtype.size();
    let pairs = g.chunks(size).zip(w.chunks(size)).enumerate();
    let wrong: Vec<String> = pairs
        .filter(|(_, (g, w))| !close(g, w, dtype, tolerance))
        .map(|(i, (g, w))| format!("[{i}]: {}, not {}", shown(g, dtype), shown(w, dtype)))
        .collect();
    (!wrong.is_empty()).then(|| format!(" ({} differ) {}", wrong.len(), wrong[..wrong.len().min(6)].join("; ")))
}

fn shown(bytes: &[u8], dtype: DType) -> String {
    match dtype {
        d if d.is_float() => format!("{:e}", float(bytes, d)),
        d if d.is_complex() => format!("{:?}", halves(bytes).map(|h| float(h, d.real()))),
        d => format!("{}", int(bytes, d)),
    }
}

fn halves(bytes: &[u8]) -> [&[u8]; 2] {
    let (re, im) = bytes.split_at(bytes.len() / 2);
    [re, im]
}

fn close(got: &[u8], want: &[u8], dtype: DType, t: Tolerance) -> bool {
    if got == want {
        return true;
    }
    let real = dtype.real();
    let apart = |size: f64| t.ulps * epsilon(real) * size.max(t.floor) + tiny(real);
    if dtype.is_complex() {
        let [g, w] = [got, want].map(|z| halves(z).map(|h| float(h, real)));
        if !w.iter().all(|x| x.is_finite()) {
            return !g.iter().all(|x| x.is_finite()); // which part is NaN and which infinite is nobody's promise
        }
        // A part may lose digits to the other one's size.
        let apart = apart(w[0].abs().max(w[1].abs()));
        return t.ulps > 0.0 && (g[0] - w[0]).abs() <= apart && (g[1] - w[1]).abs() <= apart;
    }
    if !dtype.is_float() {
        return false;
    }
    let (g, w) = (float(got, dtype), float(want, dtype));
    g.is_nan() && w.is_nan() || t.ulps > 0.0 && (g == w || (g - w).abs() <= apart(w.abs()))
}

/// The distance from 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    let digits = match dtype {
        DType::F64 => 52,
        DType::F32 => 23,
        DType::F16 => 10,
        DType::BF16 => 7,
        DType::F8E4M3FN => 3,
        _ => 2,
    };
    0.5f64.powi(digits)
}

/// The smallest normal number: the plugin rounds smaller ones to zero.
fn tiny(dtype: DType) -> f64 {
    let exponent = match dtype {
        DType::F64 => 1022,
        DType::F32 | DType::BF16 => 126,
        DType::F16 | DType::F8E5M2 => 14,
        _ => 6,
    };
    0.5f64.powi(exponent)
}

fn float(bytes: &[u8], dtype: DType) -> f64 {
    let bits = bytes.iter().rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b));
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F16 => half::f16::from_bits(bits as u16).into(),
        DType::BF16 => half::bf16::from_bits(bits as u16).into(),
        other => ir::float8::to_f32(bits as u8, other).into(),
    }
}

fn int(bytes: &[u8], dtype: DType) -> i128 {
    let unused = 128 - 8 * bytes.len();
    let bits = bytes.iter().rev().fold(0u128, |bits, &b| bits << 8 | u128::from(b));
    if dtype.is_unsigned() { bits as i128 } else { (bits << unused) as i128 >> unused }
}

/// `numbers`, one after the other, as a 1-d tensor.
pub fn line(dtype: DType, numbers: &[Number]) -> Literal {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_bytes(dtype)).collect();
    Literal::dense(TensorType::new(dtype, [numbers.len()]), bytes).unwrap()
}

/// The same elements in another shape.
pub fn shaped(l: &Literal, shape: &[usize]) -> Literal {
    Literal::dense(TensorType::new(l.ty.dtype, shape.iter().copied()), l.dense_bytes()).unwrap()
}

/// Ordinary numbers and the ends of the type: zeros, infinities, NaN, least and greatest.
pub fn specials(dtype: DType) -> Literal {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        0.75,
        1.5,
        -1.5,
        2.5,
        -2.5,
        3.0,
        -3.25,
        7.0,
        0.01171875,
        -0.01171875,
        14.0,
        -14.0,
        88.0,
        -104.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let bits = 8 * dtype.size() as u32;
    if dtype.is_float() {
        return line(dtype, &floats.map(Number::Float));
    }
    if dtype.is_complex() {
        // No -0: on which side of a branch cut it lies is nobody's promise either.
        let parts = [0.0, 1.0, -1.0, 0.5, -2.5, 3.0];
        let pairs = parts.iter().flat_map(|&re| parts.iter().map(move |&im| Number::Complex(re, im)));
        return line(dtype, &pairs.collect::<Vec<_>>());
    }
    if dtype == DType::Bool {
        return line(dtype, &[Number::Bool(false), Number::Bool(true)]);
    }
    let (least, greatest) = match dtype.is_unsigned() {
        true => (0, if bits == 64 { -1 } else { (1i64 << bits) - 1 }),
        false => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
    };
    line(dtype, &[0, 1, -1, 2, -2, 3, 7, -7, 10, 63, 64, 100, least, greatest, least.wrapping_add(1)].map(Number::Int))
}

/// Every pair of elements of `l`.
pub fn pairs(l: &Literal) -> (Literal, Literal) {
    let (n, size, bytes) = (l.ty.numel(), l.ty.dtype.size(), l.dense_bytes());
    let pick = |i: usize| bytes[i * size..(i + 1) * size].to_vec();
    let of = |f: &dyn Fn(usize) -> usize| {
        let all: Vec<u8> = (0..n * n).flat_map(|i| pick(f(i))).collect();
        Literal::dense(TensorType::new(l.ty.dtype, [n * n]), all).unwrap()
    };
    (of(&|i| i / n), of(&|i| i % n))
}

/// A fixed sequence of numbers below `n`.
pub fn sequence(seed: u64, n: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 33) % n)
    })
}

/// Small whole numbers, so that sums and products of a few come out exactly in any order.
pub fn small(dtype: DType, shape: &[usize], seed: u64) -> Literal {
    let reach = if dtype.size() == 1 { 1 } else { 3 };
    let n: usize = shape.iter().product();
    let whole = |x: u64| Number::Int(x as i64 - reach);
    let numbers: Vec<Number> = sequence(seed, 2 * reach as u64 + 1).take(n).map(whole).collect();
    shaped(&line(dtype, &numbers), shape)
}

/// Any bits.
pub fn noise(dtype: DType, shape: &[usize], seed: u64) -> Literal {
    let n = shape.iter().product::<usize>() * dtype.size();
    let top = if dtype == DType::Bool { 2 } else { 256 };
    let bytes: Vec<u8> = sequence(seed, top).take(n).map(|b| b as u8).collect();
    Literal::dense(TensorType::new(dtype, shape.iter().copied()), bytes).unwrap()
}

/// Integers of any type in `shape`.
pub fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> Literal {
    shaped(&line(dtype, &values.iter().map(|&i| Number::Int(i)).collect::<Vec<_>>()), shape)
}
