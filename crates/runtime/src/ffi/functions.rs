//! Functions of each element, by the vectors of SLEEF that are in PyTorch's library, or one by one.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m256d, __m512, __m512d, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_storeu_pd, _mm256_storeu_ps,
    _mm512_loadu_pd, _mm512_loadu_ps, _mm512_storeu_pd, _mm512_storeu_ps,
};
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::ptr;

use hostcall::Function;
use libloading::os::unix::Library;

use super::team::{self, Threads};

/// A function in vectors of the processor's, of `f32` and of `f64`.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
enum Vectors {
    One(One<__m256>, One<__m256d>),
    Two(Two<__m256>, Two<__m256d>),
    WideOne(One<__m512>, One<__m512d>),
    WideTwo(Two<__m512>, Two<__m512d>),
}

#[cfg(target_arch = "x86_64")]
type One<V> = unsafe extern "C" fn(V) -> V;
#[cfg(target_arch = "x86_64")]
type Two<V> = unsafe extern "C" fn(V, V) -> V;

/// What a library computes in vectors.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    #[cfg(target_arch = "x86_64")]
    vectors: [Option<Vectors>; Function::ALL.len()],
}

/// An operand: as many elements as the result has, or one for all of them.
#[derive(Clone, Copy)]
pub(super) struct Operand<T> {
    pub(super) at: *const T,
    pub(super) is_one: bool,
}

/// Where operands and result are. Functions of one operand have it twice.
#[derive(Clone, Copy)]
pub(super) struct Elements<T> {
    pub(super) x: Operand<T>,
    pub(super) y: Operand<T>,
    pub(super) out: *mut T,
}

// SAFETY: whoever makes one vouches that the operands are only read and parts of the result are written by one thread each.
unsafe impl<T> Sync for Elements<T> {}

/// Elements of the widest vector.
const WIDEST: usize = 16;

/// Elements that are looked through at once.
const BLOCK: usize = 256;

/// An operand as vectors of it are read: from the element that is so many steps away.
#[derive(Clone, Copy)]
pub(super) struct Read<T> {
    at: *const T,
    step: usize,
}

impl<T: Copy> Operand<T> {
    /// From the `first`-th on; where there is one for all, `filled` is full of it.
    ///
    /// # Safety
    /// There are so many.
    unsafe fn read(self, first: usize, filled: &[T; WIDEST]) -> Read<T> {
        match self.is_one {
            true => Read { at: filled.as_ptr(), step: 0 },
            // SAFETY: forwarded to the caller.
            false => Read { at: unsafe { self.at.add(first) }, step: 1 },
        }
    }
}

/// What one thread computes.
#[derive(Clone, Copy)]
pub(super) struct Part<T> {
    x: Read<T>,
    y: Read<T>,
    out: *mut T,
}

impl<T: Real> Part<T> {
    /// The `i`-th operands.
    ///
    /// # Safety
    /// There are so many.
    #[inline(always)]
    unsafe fn operands(&self, i: usize) -> (T, T) {
        // SAFETY: forwarded to the caller.
        unsafe { (*self.x.at.add(i * self.x.step), *self.y.at.add(i * self.y.step)) }
    }

    /// Computes some elements without vectors.
    ///
    /// # Safety
    /// There are so many.
    unsafe fn one_by_one(&self, function: Function, elements: Range<usize>) {
        for i in elements {
            // SAFETY: forwarded to the caller.
            unsafe {
                let (x, y) = self.operands(i);
                self.out.add(i).write(T::of_one(function, x, y));
            }
        }
    }

    /// Computes again, of the first `len` elements, those whose remainder is none in vectors.
    ///
    /// # Safety
    /// There are so many.
    unsafe fn far_remainders(&self, len: usize) {
        for first in (0..len).step_by(BLOCK) {
            let block = first..len.min(first + BLOCK);
            // SAFETY: forwarded to the caller.
            let is_far = |i: usize| unsafe {
                let (x, y) = self.operands(i);
                T::is_far(x, y)
            };
            // All of them, in vectors: hardly any block has one.
            if block.clone().fold(false, |any, i| any | is_far(i)) {
                // SAFETY: as above.
                block.filter(|&i| is_far(i)).for_each(|i| unsafe { self.one_by_one(Function::Remainder, i..i + 1) });
            }
        }
    }
}

/// A type that functions are computed in.
pub(super) trait Real: Copy + Sync + 'static {
    /// `function` of one element.
    fn of_one(function: Function, x: Self, y: Self) -> Self;

    /// Whether SLEEF's remainder is inexact, or none: where `x` is many times `y`, or what `y` has beside its first half cannot be
    /// said.
    fn is_far(x: Self, y: Self) -> bool;

    /// `function` of `len` elements in vectors; how many of them, as some may be left or there may be none for it.
    ///
    /// # Safety
    /// There are so many, and nobody else touches those of the result.
    unsafe fn in_vectors(functions: &Functions, function: Function, part: Part<Self>, len: usize) -> usize;
}

/// While it lives, this thread's numbers below the normal ones are computed with. XLA takes them for zeros, where SLEEF would divide
/// by large ones and find nothing.
pub(super) struct Denormals {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

impl Denormals {
    /// Small numbers are numbers until it is dropped.
    pub(super) fn kept() -> Denormals {
        #[cfg(target_arch = "x86_64")]
        {
            /// *Flush to zero* and *denormals are zeros*.
            const ZEROS: u32 = 1 << 15 | 1 << 6;
            let mut before = 0u32;
            // SAFETY: stores the thread's control word, which every such processor has.
            unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack, preserves_flags)) };
            Denormals::set(before & !ZEROS);
            Denormals { before }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Denormals {}
    }

    #[cfg(target_arch = "x86_64")]
    fn set(word: u32) {
        // SAFETY: loads a control word that this thread had, or one that differs in how small numbers are rounded.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

impl Drop for Denormals {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        Denormals::set(self.before);
    }
}

impl Functions {
    /// Those in `library`.
    pub(super) fn of(library: &Library) -> Functions {
        #[cfg(target_arch = "x86_64")]
        return Functions { vectors: Function::ALL.map(|function| Vectors::find(library, function)) };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = library;
            Functions {}
        }
    }

    /// Computes `function` of `len` elements on the threads of `pool`, of which there are so many.
    ///
    /// # Safety
    /// There are so many, and nobody else touches the result meanwhile.
    pub(super) unsafe fn compute<T: Real>(
        &self,
        function: Function,
        at: Elements<T>,
        len: usize,
        pool: &dyn Threads,
        threads: usize,
    ) {
        let parts: Vec<_> = Function::parts(len, threads).collect();
        let at = &at; // whole, as it may be shared
        team::run(pool, threads, parts.len(), &|i| {
            let (first, len) = (parts[i].start, parts[i].len());
            let _kept = Denormals::kept();
            // SAFETY: where there are parts, there are elements; each is within the operands, and given to one thread.
            unsafe {
                let filled = [at.x, at.y].map(|operand| [*operand.at; WIDEST]);
                let [x, y] = [at.x.read(first, &filled[0]), at.y.read(first, &filled[1])];
                let part = Part { x, y, out: at.out.add(first) };
                let done = T::in_vectors(self, function, part, len);
                part.one_by_one(function, done..len);
                if function == Function::Remainder {
                    part.far_remainders(done);
                }
            }
        });
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors {
    /// The widest that the processor has, as PyTorch's eager ops use.
    fn find(library: &Library, function: Function) -> Option<Vectors> {
        let wide = is_x86_feature_detected!("avx512f");
        let any = wide || (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
        let accuracy = if function == Function::Remainder { "_" } else { "_u10" };
        let (lanes, processor) = if wide { (["f16", "d8"], "avx512f") } else { (["f8", "d4"], "avx2") };
        let [f32, f64] = lanes.map(|lanes| format!("Sleef_{}{lanes}{accuracy}{processor}\0", sleef_name(function)));
        let (f32, f64) = (f32.as_bytes(), f64.as_bytes());
        // SAFETY: SLEEF's functions of these names have these signatures.
        unsafe {
            any.then_some(match (wide, function.operands()) {
                (true, 1) => Vectors::WideOne(*library.get(f32).ok()?, *library.get(f64).ok()?),
                (true, _) => Vectors::WideTwo(*library.get(f32).ok()?, *library.get(f64).ok()?),
                (false, 1) => Vectors::One(*library.get(f32).ok()?, *library.get(f64).ok()?),
                (false, _) => Vectors::Two(*library.get(f32).ok()?, *library.get(f64).ok()?),
            })
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn sleef_name(function: Function) -> &'static str {
    match function {
        Function::Acos => "acos",
        Function::Asin => "asin",
        Function::Atanh => "atanh",
        Function::Cosine => "cos",
        Function::Erf => "erf",
        Function::Lgamma => "lgamma",
        Function::LogPlusOne => "log1p",
        Function::Sine => "sin",
        Function::Tan => "tan",
        Function::Atan2 => "atan2",
        Function::Power => "pow",
        Function::Remainder => "fmod",
    }
}

/// [`Real`] of a type, by [`vectors`].
macro_rules! real {
    ($T:ident, $far:expr, $erf:path, $lgamma:path, [$($run:ident $pattern:pat => $f:ident),+]) => {
        impl Real for $T {
            fn of_one(function: Function, x: $T, y: $T) -> $T {
                match function {
                    Function::Acos => x.acos(),
                    Function::Asin => x.asin(),
                    Function::Atanh => x.atanh(),
                    Function::Cosine => x.cos(),
                    Function::Erf => $erf(x),
                    Function::Lgamma => $lgamma(x),
                    Function::LogPlusOne => x.ln_1p(),
                    Function::Sine => x.sin(),
                    Function::Tan => x.tan(),
                    Function::Atan2 => x.atan2(y),
                    Function::Power => x.powf(y),
                    Function::Remainder => x % y,
                }
            }

            fn is_far(x: $T, y: $T) -> bool {
                x.abs() > y.abs() * $far.0 || y.abs() < $far.1
            }

            unsafe fn in_vectors(functions: &Functions, function: Function, part: Part<$T>, len: usize) -> usize {
                #[cfg(target_arch = "x86_64")]
                {
                    // SAFETY: forwarded to the caller; there are functions only where the processor has their vectors.
                    match functions.vectors[function as usize] {
                        $(Some($pattern) => unsafe { $run($f, part, len) },)+
                        None => return 0,
                    }
                    len
                }
                #[cfg(not(target_arch = "x86_64"))]
                {
                    let _ = (functions, function, part, len);
                    0
                }
            }
        }
    };
}

real!(f32, (1e6, 1e-30), libm::erff, libm::lgammaf, [
    one_f32 Vectors::One(f, _) => f,
    two_f32 Vectors::Two(f, _) => f,
    wide_one_f32 Vectors::WideOne(f, _) => f,
    wide_two_f32 Vectors::WideTwo(f, _) => f
]);
real!(f64, (1e12, 1e-290), libm::erf, libm::lgamma, [
    one_f64 Vectors::One(_, f) => f,
    two_f64 Vectors::Two(_, f) => f,
    wide_one_f64 Vectors::WideOne(_, f) => f,
    wide_two_f64 Vectors::WideTwo(_, f) => f
]);

/// The loop over `f`, which takes one operand or two.
macro_rules! vectors {
    ($run:ident, $features:literal, $T:ident, $lanes:literal, $F:ty, $load:ident, $store:ident, $($operand:ident),+) => {
        /// # Safety
        /// As [`Real::in_vectors`], on a processor with these features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $run(f: $F, part: Part<$T>, len: usize) {
            let whole = len - len % $lanes;
            for i in (0..whole).step_by($lanes) {
                // SAFETY: there are so many elements more.
                unsafe { $store(part.out.add(i), f($($load(part.$operand.at.add(i * part.$operand.step))),+)) };
            }
            if whole == len {
                return;
            }
            // What is left goes through a vector, too, so that no element hangs on its place.
            let (mut last, mut out) = (Last { x: [0 as $T; $lanes], y: [0 as $T; $lanes] }, [0 as $T; $lanes]);
            // SAFETY: so many are left, fewer than a vector has.
            unsafe {
                $(ptr::copy_nonoverlapping(part.$operand.at.add(whole * part.$operand.step), last.$operand.as_mut_ptr(), len - whole);)+
                $store(out.as_mut_ptr(), f($($load(last.$operand.as_ptr())),+));
                ptr::copy_nonoverlapping(out.as_ptr(), part.out.add(whole), len - whole);
            }
        }
    };
}

/// Operands that fill no vector.
#[cfg(target_arch = "x86_64")]
struct Last<T> {
    x: T,
    y: T,
}

vectors!(one_f32, "avx2,fma", f32, 8, One<__m256>, _mm256_loadu_ps, _mm256_storeu_ps, x);
vectors!(two_f32, "avx2,fma", f32, 8, Two<__m256>, _mm256_loadu_ps, _mm256_storeu_ps, x, y);
vectors!(one_f64, "avx2,fma", f64, 4, One<__m256d>, _mm256_loadu_pd, _mm256_storeu_pd, x);
vectors!(two_f64, "avx2,fma", f64, 4, Two<__m256d>, _mm256_loadu_pd, _mm256_storeu_pd, x, y);
vectors!(wide_one_f32, "avx512f", f32, 16, One<__m512>, _mm512_loadu_ps, _mm512_storeu_ps, x);
vectors!(wide_two_f32, "avx512f", f32, 16, Two<__m512>, _mm512_loadu_ps, _mm512_storeu_ps, x, y);
vectors!(wide_one_f64, "avx512f", f64, 8, One<__m512d>, _mm512_loadu_pd, _mm512_storeu_pd, x);
vectors!(wide_two_f64, "avx512f", f64, 8, Two<__m512d>, _mm512_loadu_pd, _mm512_storeu_pd, x, y);
