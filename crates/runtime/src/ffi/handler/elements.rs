//! Rows, scans, scatters and sorts that programs ask for.

use super::*;
use crate::ffi::combining::Number;
use crate::ffi::rows::{self, Holds};
use crate::ffi::scan::{self, Places, Scanned};
use crate::ffi::scatter::{self, Counts};
use crate::ffi::sort::{self, Float, Key, Other, Signed, Unsigned};
use hostcall::Lengths;

/// Computes what `frame` asks for of rows; `None` if that is no such call.
pub(super) unsafe fn rows_all(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (plans, (args, rets)) = unsafe { (rows::planned(numbers(&frame.attrs)?)?, operands(frame)?) };
    let dtype = rets.first()?.dtype;
    let of = |holds| match holds {
        Holds::Same => dtype,
        Holds::Truths => XLA_FFI_DataType_PRED,
        Holds::Wide => XLA_FFI_DataType_F64,
    };
    // SAFETY: likewise.
    let has = |buffer: &XLA_FFI_Buffer, size: usize| unsafe { len(buffer) } == Some(size);
    let fits = args.len() == plans.operands.len()
        && rets.len() == plans.results.len()
        && args.iter().zip(&plans.operands).all(|(arg, &(holds, size))| arg.dtype == of(holds) && has(arg, size))
        && rets.iter().zip(&plans.results).all(|(ret, &size)| ret.dtype == dtype && has(ret, size))
        && plans.takes.iter().all(|&(ret, arg)| rets[ret].data == args[arg].data);
    if !fits {
        return None;
    }
    match dtype {
        // SAFETY: operands and results have this type, and so many elements.
        XLA_FFI_DataType_F32 => unsafe { rows_in::<f32>(frame, &plans, &args, &rets) },
        // SAFETY: as above.
        XLA_FFI_DataType_F64 => unsafe { rows_in::<f64>(frame, &plans, &args, &rets) },
        _ => return None,
    }
    Some(())
}

unsafe fn rows_in<T: rows::Real>(
    frame: &XLA_FFI_CallFrame,
    plans: &rows::Plans,
    args: &Buffers<'_>,
    rets: &Buffers<'_>,
) {
    let operands: SmallVec<[*const c_void; 8]> = args.iter().map(|arg| arg.data.cast_const()).collect();
    let results: SmallVec<[*mut T; 4]> = rets.iter().map(|ret| ret.data.cast()).collect();
    let (at, pool) = (rows::Places { operands: &operands, results: &results }, Pool(frame));
    // SAFETY: forwarded to the caller; XLA gives a result to one call, and an operand's memory to the result that the program says.
    unsafe { rows::computed(plans, at, &pool, pool.threads()) };
}

/// Computes the scan that `frame` asks for; `None` if that is no such call.
pub(super) unsafe fn scan_all(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (args, rets) = unsafe { operands(frame)? };
    let (&[from], &[to]) = (&args[..], &rets[..]) else { return None };
    // SAFETY: likewise.
    let (asked, given, made) = unsafe { (Scan::decode(numbers(&frame.attrs)?)?, len(from)?, len(to)?) };
    if from.dtype != to.dtype || asked.elements() != Some(given) || given != made {
        return None;
    }
    match to.dtype {
        // SAFETY: operand and result have this type, and so many elements.
        XLA_FFI_DataType_F32 => unsafe { scan_in::<f32>(frame, &asked, from, to) },
        // SAFETY: as above.
        XLA_FFI_DataType_F64 => unsafe { scan_in::<f64>(frame, &asked, from, to) },
        // SAFETY: as above.
        XLA_FFI_DataType_S32 => unsafe { scan_in::<i32>(frame, &asked, from, to) },
        // SAFETY: as above.
        XLA_FFI_DataType_S64 => unsafe { scan_in::<i64>(frame, &asked, from, to) },
        _ => return None,
    }
    Some(())
}

unsafe fn scan_in<T: Scanned>(frame: &XLA_FFI_CallFrame, asked: &Scan, from: &XLA_FFI_Buffer, to: &XLA_FFI_Buffer) {
    let (at, pool) = (Places::<T> { from: from.data.cast_const().cast(), to: to.data.cast() }, Pool(frame));
    // SAFETY: forwarded to the caller; XLA gives a result to one call.
    unsafe { scan::scanned(asked, at, &pool, pool.threads()) };
}

/// Computes the scatter that `frame` asks for; `None` if that is no such call.
pub(super) unsafe fn scatter_all(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (args, rets) = unsafe {
        is_in_place(frame)?;
        operands(frame)?
    };
    let (&[operand, indices, updates], &[out]) = (&args[..], &rets[..]) else { return None };
    // SAFETY: likewise.
    let (asked, lengths, made) = unsafe {
        let lengths = Lengths { operand: len(operand)?, indices: len(indices)?, updates: len(updates)? };
        (Scatter::decode(numbers(&frame.attrs)?)?, lengths, len(out)?)
    };
    if operand.dtype != out.dtype || updates.dtype != out.dtype || made != lengths.operand || !asked.fits(lengths) {
        return None;
    }
    match indices.dtype {
        // SAFETY: indices have this type, and the call fits the operands, of which the first is its result's memory.
        XLA_FFI_DataType_S32 => unsafe { scatter_at::<i32>(frame, &asked, &args) },
        // SAFETY: as above.
        XLA_FFI_DataType_S64 => unsafe { scatter_at::<i64>(frame, &asked, &args) },
        _ => None,
    }
}

unsafe fn scatter_at<I: Counts>(frame: &XLA_FFI_CallFrame, asked: &Scatter, args: &Buffers<'_>) -> Option<()> {
    // SAFETY: operands have these types, or types as wide; the rest is forwarded to the caller.
    unsafe {
        match (args[0].dtype, asked.of.is_some()) {
            (XLA_FFI_DataType_F32, true) => scatter_in::<f32, I>(frame, asked, args),
            (XLA_FFI_DataType_F64, true) => scatter_in::<f64, I>(frame, asked, args),
            (XLA_FFI_DataType_S32, true) => scatter_in::<i32, I>(frame, asked, args),
            (XLA_FFI_DataType_S64, true) => scatter_in::<i64, I>(frame, asked, args),
            (XLA_FFI_DataType_PRED, false) => replace_in::<u8, I>(frame, asked, args),
            (XLA_FFI_DataType_F16 | XLA_FFI_DataType_BF16, false) => replace_in::<u16, I>(frame, asked, args),
            (XLA_FFI_DataType_F32 | XLA_FFI_DataType_S32, false) => replace_in::<u32, I>(frame, asked, args),
            (XLA_FFI_DataType_F64 | XLA_FFI_DataType_S64, false) => replace_in::<u64, I>(frame, asked, args),
            _ => return None,
        }
    }
    Some(())
}

unsafe fn scatter_in<T: Number, I: Counts>(frame: &XLA_FFI_CallFrame, asked: &Scatter, args: &Buffers<'_>) {
    let pool = Pool(frame);
    // SAFETY: forwarded to the caller; XLA gives a result to one call.
    asked
        .of
        .into_iter()
        .for_each(|of| unsafe { scatter::combined(asked, of, tensors::<T, I>(args), &pool, pool.threads()) });
}

unsafe fn replace_in<T: Copy, I: Counts>(frame: &XLA_FFI_CallFrame, asked: &Scatter, args: &Buffers<'_>) {
    let pool = Pool(frame);
    // SAFETY: as above.
    unsafe { scatter::replaced(asked, tensors::<T, I>(args), &pool, pool.threads()) };
}

fn tensors<T, I>(args: &Buffers<'_>) -> scatter::Tensors<T, I> {
    let at = |i: usize| args[i].data;
    scatter::Tensors { operand: at(0).cast(), indices: at(1).cast_const().cast(), updates: at(2).cast_const().cast() }
}

/// Computes the sort that `frame` asks for; `None` if that is no such call.
pub(super) unsafe fn sort_all(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (asked, (args, rets)) = unsafe { (Sort::decode(numbers(&frame.attrs)?)?, operands(frame)?) };
    let ([keys, others @ ..], [to, made @ ..]) = (&args[..], &rets[..]) else { return None };
    let (places, made) =
        if asked.places { made.split_first().map(|(&p, rest)| (Some(p), rest))? } else { (None, made) };
    let elements = asked.elements()?;
    // SAFETY: likewise.
    let fits = unsafe {
        args.iter().all(|a| len(a) == Some(elements)) && rets.iter().all(|r| len(r) == Some(asked.results()))
    };
    if !fits || keys.dtype != to.dtype || others.len() != made.len() {
        return None;
    }
    let places = match places.map(|p| (p.dtype, p.data)) {
        None => sort::Places::None,
        Some((XLA_FFI_DataType_S32, at)) => sort::Places::I32(at.cast()),
        Some((XLA_FFI_DataType_S64, at)) => sort::Places::I64(at.cast()),
        _ => return None,
    };
    let other = |(from, to): (&&XLA_FFI_Buffer, &&XLA_FFI_Buffer)| {
        let width = width(from.dtype).filter(|_| from.dtype == to.dtype)?;
        Some(Other { from: from.data.cast_const().cast(), to: to.data.cast(), width })
    };
    let others = others.iter().zip(made).map(other).collect::<Option<SmallVec<[Other; 2]>>>()?;
    let call = Sorting { frame, asked: &asked, from: keys.data.cast_const(), to: to.data, places, others: &others };
    // SAFETY: keys have this type, or one as wide; all tensors have so many elements.
    unsafe {
        match keys.dtype {
            XLA_FFI_DataType_PRED | XLA_FFI_DataType_U8 => call.by::<Unsigned<u8>>(),
            XLA_FFI_DataType_U16 => call.by::<Unsigned<u16>>(),
            XLA_FFI_DataType_U32 => call.by::<Unsigned<u32>>(),
            XLA_FFI_DataType_U64 => call.by::<Unsigned<u64>>(),
            XLA_FFI_DataType_S8 => call.by::<Signed<u8>>(),
            XLA_FFI_DataType_S16 => call.by::<Signed<u16>>(),
            XLA_FFI_DataType_S32 => call.by::<Signed<u32>>(),
            XLA_FFI_DataType_S64 => call.by::<Signed<u64>>(),
            XLA_FFI_DataType_F16 => call.by::<Float<u16, 0x7C00>>(),
            XLA_FFI_DataType_BF16 => call.by::<Float<u16, 0x7F80>>(),
            XLA_FFI_DataType_F32 => call.by::<Float<u32, 0x7F80_0000>>(),
            XLA_FFI_DataType_F64 => call.by::<Float<u64, 0x7FF0_0000_0000_0000>>(),
            _ => return None,
        }
    }
    Some(())
}

/// Bytes of an element.
fn width(dtype: c_int) -> Option<usize> {
    Some(match dtype {
        XLA_FFI_DataType_PRED | XLA_FFI_DataType_S8 | XLA_FFI_DataType_U8 => 1,
        XLA_FFI_DataType_S16 | XLA_FFI_DataType_U16 | XLA_FFI_DataType_F16 | XLA_FFI_DataType_BF16 => 2,
        XLA_FFI_DataType_S32 | XLA_FFI_DataType_U32 | XLA_FFI_DataType_F32 => 4,
        XLA_FFI_DataType_S64 | XLA_FFI_DataType_U64 | XLA_FFI_DataType_F64 | XLA_FFI_DataType_C64 => 8,
        XLA_FFI_DataType_C128 => 16,
        _ => return None,
    })
}

/// A sort whose tensors fit.
struct Sorting<'a> {
    frame: &'a XLA_FFI_CallFrame,
    asked: &'a Sort,
    from: *const c_void,
    to: *mut c_void,
    places: sort::Places,
    others: &'a [Other],
}

impl Sorting<'_> {
    unsafe fn by<K: Key>(&self) {
        let (from, to) = (self.from.cast(), self.to.cast());
        let at = sort::Tensors::<K::Raw> { from, to, places: self.places, others: self.others };
        let pool = Pool(self.frame);
        // SAFETY: forwarded to the caller; XLA gives a result to one call.
        unsafe { sort::sorted::<K>(self.asked, at, &pool, pool.threads()) };
    }
}
