//! What the plugin's programs call of ours: XLA's foreign function interface, under its C names, so that each can be looked
//! up in `xla/ffi/api/c_api.h` and `pjrt_c_api_ffi_extension.h`. `layout_test.rs` compares the former with `jaxlib`'s copy.
//! Sizes travel with every struct here too. A handler has no data of its own, hence the one static.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

mod elements;

use super::api::Api;
use super::asked::Asked;
use super::blas::{Blas, Element, Operands};
use super::finishing::Finishing;
use super::functions::{Elements, Operand, Real};
use super::grouped;
use super::idle;
use super::lapack::{self, Complex, Kind, Scalar, Tensor};
use super::sys::{CStruct, PJRT_Error, Zeroable, structs};
use super::team;
use crate::error::{Error, Result};
use hostcall::{
    ATTRIBUTE, BARRIER, Convolution, Finish, Function, Grouped, Lapack, Product, Rows, Scan, Scatter, Sort,
};
use smallvec::SmallVec;

/// `PJRT_Extension_Type_FFI`.
const EXTENSION: c_int = 5;
/// What XLA calls the CPU.
const PLATFORM: &str = "Host";

const XLA_FFI_Extension_Metadata: c_int = 1;
const XLA_FFI_Error_Code_INVALID_ARGUMENT: c_int = 3;
const XLA_FFI_DataType_PRED: c_int = 1;
const XLA_FFI_DataType_S8: c_int = 2;
const XLA_FFI_DataType_S16: c_int = 3;
const XLA_FFI_DataType_S32: c_int = 4;
const XLA_FFI_DataType_S64: c_int = 5;
const XLA_FFI_DataType_U8: c_int = 6;
const XLA_FFI_DataType_U16: c_int = 7;
const XLA_FFI_DataType_U32: c_int = 8;
const XLA_FFI_DataType_U64: c_int = 9;
const XLA_FFI_DataType_F16: c_int = 10;
const XLA_FFI_DataType_F32: c_int = 11;
const XLA_FFI_DataType_F64: c_int = 12;
const XLA_FFI_DataType_C64: c_int = 15;
const XLA_FFI_DataType_BF16: c_int = 16;
const XLA_FFI_DataType_C128: c_int = 18;
const XLA_FFI_ArgType_BUFFER: c_int = 1;
const XLA_FFI_RetType_BUFFER: c_int = 1;
const XLA_FFI_AttrType_ARRAY: c_int = 1;

#[cfg(test)]
pub(super) const CONSTANTS: [(&str, c_int); 20] = [
    ("XLA_FFI_Extension_Metadata", XLA_FFI_Extension_Metadata),
    ("XLA_FFI_Error_Code_INVALID_ARGUMENT", XLA_FFI_Error_Code_INVALID_ARGUMENT),
    ("XLA_FFI_DataType_PRED", XLA_FFI_DataType_PRED),
    ("XLA_FFI_DataType_F16", XLA_FFI_DataType_F16),
    ("XLA_FFI_DataType_BF16", XLA_FFI_DataType_BF16),
    ("XLA_FFI_DataType_S8", XLA_FFI_DataType_S8),
    ("XLA_FFI_DataType_S16", XLA_FFI_DataType_S16),
    ("XLA_FFI_DataType_S32", XLA_FFI_DataType_S32),
    ("XLA_FFI_DataType_C64", XLA_FFI_DataType_C64),
    ("XLA_FFI_DataType_C128", XLA_FFI_DataType_C128),
    ("XLA_FFI_DataType_S64", XLA_FFI_DataType_S64),
    ("XLA_FFI_DataType_U8", XLA_FFI_DataType_U8),
    ("XLA_FFI_DataType_U16", XLA_FFI_DataType_U16),
    ("XLA_FFI_DataType_U32", XLA_FFI_DataType_U32),
    ("XLA_FFI_DataType_U64", XLA_FFI_DataType_U64),
    ("XLA_FFI_DataType_F32", XLA_FFI_DataType_F32),
    ("XLA_FFI_DataType_F64", XLA_FFI_DataType_F64),
    ("XLA_FFI_ArgType_BUFFER", XLA_FFI_ArgType_BUFFER),
    ("XLA_FFI_RetType_BUFFER", XLA_FFI_RetType_BUFFER),
    ("XLA_FFI_AttrType_ARRAY", XLA_FFI_AttrType_ARRAY),
];

type ErrorCreate = unsafe extern "C" fn(*mut XLA_FFI_Error_Create_Args) -> *mut c_void;
type ErrorDestroy = unsafe extern "C" fn(*mut XLA_FFI_Error_Destroy_Args);
type Schedule = unsafe extern "C" fn(*mut XLA_FFI_ThreadPool_Schedule_Args) -> *mut c_void;
type Register = unsafe extern "C" fn(*mut PJRT_FFI_Register_Handler_Args) -> *mut PJRT_Error;
type Handler = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut c_void;
type NumThreads = unsafe extern "C" fn(*mut XLA_FFI_ThreadPool_NumThreads_Args) -> *mut c_void;

structs! {
    XLA_FFI_Api_Version { major_version: c_int, minor_version: c_int }
    XLA_FFI_Error_Create_Args { message: *const c_char, errc: c_int }
    XLA_FFI_Error_Destroy_Args { error: *mut c_void }
    XLA_FFI_ThreadPool_Schedule_Args {
        ctx: *mut c_void,
        task: Option<unsafe extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    }
    XLA_FFI_ThreadPool_NumThreads_Args { ctx: *mut c_void, num_threads: *mut i64 }
    XLA_FFI_Buffer { dtype: c_int, data: *mut c_void, rank: i64, dims: *mut i64 }
    XLA_FFI_Args { size: i64, types: *mut c_int, args: *mut *mut c_void }
    XLA_FFI_Rets { size: i64, types: *mut c_int, rets: *mut *mut c_void }
    XLA_FFI_Attrs { size: i64, types: *mut c_int, names: *mut *mut XLA_FFI_ByteSpan, attrs: *mut *mut c_void }
    XLA_FFI_CallFrame {
        api: *const XLA_FFI_Api,
        ctx: *mut c_void,
        stage: c_int,
        args: XLA_FFI_Args,
        rets: XLA_FFI_Rets,
        attrs: XLA_FFI_Attrs,
    }
    XLA_FFI_Api {
        api_version: XLA_FFI_Api_Version,
        internal_api: *const c_void,
        XLA_FFI_Error_Create: Option<ErrorCreate>,
        XLA_FFI_Error_GetMessage: *const c_void,
        XLA_FFI_Error_Destroy: Option<ErrorDestroy>,
        XLA_FFI_Handler_Register: *const c_void,
        XLA_FFI_Stream_Get: *const c_void,
        XLA_FFI_Type_Register: *const c_void,
        XLA_FFI_ExecutionContext_Get: *const c_void,
        XLA_FFI_State_Set: *const c_void,
        XLA_FFI_State_Get: *const c_void,
        XLA_FFI_DeviceMemory_Allocate: *const c_void,
        XLA_FFI_DeviceMemory_Free: *const c_void,
        XLA_FFI_ThreadPool_Schedule: Option<Schedule>,
        XLA_FFI_ThreadPool_NumThreads: Option<NumThreads>,
    }
}

#[repr(C)]
pub(super) struct XLA_FFI_ByteSpan {
    ptr: *const u8,
    len: usize,
}

#[repr(C)]
struct XLA_FFI_Array {
    dtype: c_int,
    size: usize,
    data: *const i64,
}

/// What opens every extension, of XLA's and of PJRT's.
#[repr(C)]
struct Extension {
    struct_size: usize,
    type_: c_int,
    next: *mut Extension,
}

#[repr(C)]
struct XLA_FFI_Metadata {
    struct_size: usize,
    api_version: XLA_FFI_Api_Version,
    traits: u32,
}

#[repr(C)]
struct XLA_FFI_Metadata_Extension {
    extension_base: Extension,
    metadata: *mut XLA_FFI_Metadata,
}

#[repr(C)]
struct PJRT_FFI_Register_Handler_Args {
    struct_size: usize,
    target_name: *const c_char,
    target_name_size: usize,
    handler: *mut c_void,
    platform_name: *const c_char,
    platform_name_size: usize,
    traits: c_int,
}

#[repr(C)]
struct PJRT_FFI_Extension {
    base: Extension,
    type_register: *mut c_void,
    user_data_add: *mut c_void,
    register_handler: Option<Register>,
}

/// What products, convolutions, functions and factorisations are computed with.
static BLAS: OnceLock<Blas> = OnceLock::new();

/// All that programs call of ours, and who answers.
const CALLS: [(&str, Handler); 10] = [
    (Product::TARGET, handle::<Product>),
    (Convolution::TARGET, handle::<Convolution>),
    (Function::TARGET, function),
    (Grouped::TARGET, of_groups),
    (Lapack::TARGET, factorisation),
    (Rows::TARGET, rows),
    (Scan::TARGET, scan),
    (Scatter::TARGET, scatter),
    (Sort::TARGET, sort),
    (BARRIER, barrier),
];

/// Operands of a call, of which there are at most five, or results.
type Buffers<'a> = SmallVec<[&'a XLA_FFI_Buffer; 5]>;

/// What programs on the CPU, and no others, may call of ours ([`Plugin::accept_calls`](crate::Plugin::accept_calls)).
pub fn host_calls() -> impl Iterator<Item = &'static str> {
    CALLS.iter().map(|(target, _)| *target)
}

impl Api {
    /// Lets programs on the CPU ask for all of these ([`CALLS`]), by `blas` or by the one offered first.
    ///
    /// # Errors
    /// As [`Api::accept_calls`].
    pub(crate) fn offer_products(&self, blas: Blas) -> Result<()> {
        self.accept_calls()?;
        blas.openmp.into_iter().for_each(idle::by);
        BLAS.get_or_init(|| blas);
        Ok(())
    }

    /// Has programs for the CPU compiled that call ours. Until products are offered, those calls fail.
    ///
    /// # Errors
    /// If the plugin lets programs call nothing, and what it reports.
    pub(crate) fn accept_calls(&self) -> Result<()> {
        let register = self.registrar().ok_or(Error::MissingFunction { function: "PJRT_FFI_Register_Handler" })?;
        CALLS.iter().try_for_each(|&(target, handler)| self.offer(register, target, handler))
    }

    fn offer(&self, register: Register, target: &str, handler: Handler) -> Result<()> {
        let mut args = PJRT_FFI_Register_Handler_Args {
            struct_size: size_of::<PJRT_FFI_Register_Handler_Args>(),
            target_name: target.as_ptr().cast(),
            target_name_size: target.len(),
            handler: handler as *mut c_void,
            platform_name: PLATFORM.as_ptr().cast(),
            platform_name_size: PLATFORM.len(),
            traits: 0,
        };
        // SAFETY: the function comes with this extension and reads its arguments, which outlive the call.
        let error = unsafe { register(&mut args) };
        // SAFETY: the result of a PJRT function is null or an error that we now own.
        unsafe { self.check("PJRT_FFI_Register_Handler", error) }
    }

    fn registrar(&self) -> Option<Register> {
        let mut extension = self.extensions().cast::<Extension>();
        while !extension.is_null() {
            // SAFETY: a plugin's list of extensions lives as long as its table, and each opens as this does.
            let found = unsafe { &*extension };
            if found.type_ == EXTENSION && found.struct_size >= size_of::<PJRT_FFI_Extension>() {
                // SAFETY: by its type and its size it is this extension.
                return unsafe { (*extension.cast::<PJRT_FFI_Extension>()).register_handler };
            }
            extension = found.next;
        }
        None
    }
}

/// The handler of calls that ask for an `A`.
unsafe extern "C" fn handle<A: Asked>(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| compute::<A>(frame)) }
}

/// The handler of calls that ask for a [`Function`].
unsafe extern "C" fn function(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| apply(frame)) }
}

/// The handler of calls that ask for a [`Lapack`].
unsafe extern "C" fn factorisation(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| factor(frame)) }
}

/// The handler of calls that ask for [`Grouped`] products.
unsafe extern "C" fn of_groups(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| groups(frame)) }
}

/// The handler of calls that ask for [`Rows`].
unsafe extern "C" fn rows(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| elements::rows_all(frame)) }
}

/// The handler of calls that ask for a [`Scan`].
unsafe extern "C" fn scan(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| elements::scan_all(frame)) }
}

/// The handler of calls that ask for a [`Scatter`].
unsafe extern "C" fn scatter(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| elements::scatter_all(frame)) }
}

/// The handler of calls that ask for a [`Sort`].
unsafe extern "C" fn sort(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| elements::sort_all(frame)) }
}

/// The handler of [`BARRIER`].
unsafe extern "C" fn barrier(frame: *mut XLA_FFI_CallFrame) -> *mut c_void {
    // SAFETY: forwarded to XLA.
    unsafe { answer(frame, |frame| is_in_place(frame)) }
}

/// What XLA is told: about us if it asks for that, or that `call` is done, or is none.
unsafe fn answer(frame: *mut XLA_FFI_CallFrame, call: impl FnOnce(&XLA_FFI_CallFrame) -> Option<()>) -> *mut c_void {
    // SAFETY: XLA calls handlers with a frame that lives as long as the call.
    let frame = unsafe { &*frame };
    // SAFETY: likewise its extensions.
    if unsafe { answered_metadata(frame) } {
        return ptr::null_mut();
    }
    match call(frame) {
        Some(()) => ptr::null_mut(),
        // SAFETY: likewise its functions.
        None => unsafe { failure(frame) },
    }
}

/// `None` if the result's memory is not that of `frame`'s first operand.
unsafe fn is_in_place(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (args, rets) = unsafe { operands(frame)? };
    let (&[from, ..], &[to]) = (&args[..], &rets[..]) else { return None };
    (from.data == to.data).then_some(())
}

/// Arguments and results.
unsafe fn operands(frame: &XLA_FFI_CallFrame) -> Option<(Buffers<'_>, Buffers<'_>)> {
    // SAFETY: forwarded to the caller.
    unsafe {
        let args = buffers(frame.args.size, frame.args.types, frame.args.args, XLA_FFI_ArgType_BUFFER)?;
        let rets = buffers(frame.rets.size, frame.rets.types, frame.rets.rets, XLA_FFI_RetType_BUFFER)?;
        Some((args, rets))
    }
}

/// Whether XLA asked which version we speak, and was told: the one that it speaks, as only what has always been is used.
unsafe fn answered_metadata(frame: &XLA_FFI_CallFrame) -> bool {
    let extension = frame.extension_start.cast::<XLA_FFI_Metadata_Extension>();
    // SAFETY: an extension of this type is this struct.
    unsafe {
        if extension.is_null() || (*extension).extension_base.type_ != XLA_FFI_Extension_Metadata {
            return false;
        }
        let (metadata, version) = (&mut *(*extension).metadata, (*frame.api).api_version);
        metadata.api_version.major_version = version.major_version;
        metadata.api_version.minor_version = version.minor_version;
        metadata.traits = 0;
    }
    true
}

/// Computes what `frame` asks for; `None` if that is no such call.
unsafe fn compute<A: Asked>(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (args, rets) = unsafe { operands(frame)? };
    let (&[lhs, rhs, ref added @ ..], &[out]) = (&args[..], &rets[..]) else { return None };
    // SAFETY: likewise.
    let (finish, own) = Finish::decode(unsafe { numbers(&frame.attrs)? })?;
    let asked = A::decode(own)?;
    let features = if finish == Finish::default() { 0 } else { asked.features()? };
    // SAFETY: likewise.
    let fits = unsafe {
        let wanted = finish.sizes(features, len(out)?).map(Some);
        wanted.eq(added.iter().map(|&a| len(a))) && asked.fits(len(lhs)?, len(rhs)?, len(out)?)
    };
    if !fits || args.iter().any(|a| a.dtype != out.dtype) {
        return None;
    }
    match out.dtype {
        // SAFETY: the operands have this type, and the call fits them.
        XLA_FFI_DataType_F32 => unsafe { compute_in::<f32, A>(frame, &asked, finish, &args, out) },
        // SAFETY: as above.
        XLA_FFI_DataType_F64 => unsafe { compute_in::<f64, A>(frame, &asked, finish, &args, out) },
        _ => None,
    }
}

unsafe fn compute_in<T: Element, A: Asked>(
    frame: &XLA_FFI_CallFrame,
    asked: &A,
    finish: Finish,
    args: &[&XLA_FFI_Buffer],
    out: &XLA_FFI_Buffer,
) -> Option<()> {
    let at = args.iter().map(|a| a.data.cast_const().cast::<T>()).collect::<SmallVec<[_; 5]>>();
    let (&[lhs, rhs], added) = at.split_first_chunk::<2>()?;
    let operands = Operands { lhs, rhs, out: out.data.cast(), finish: Finishing::new(finish, added)? };
    let pool = Pool(frame);
    // SAFETY: forwarded to the caller; XLA gives a result to one call.
    unsafe { asked.compute(BLAS.get()?, operands, &pool, pool.threads()) };
    Some(())
}

/// Computes the products of groups that `frame` asks for; `None` if that is no such call, or a group ends before the first row.
unsafe fn groups(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (args, rets) = unsafe { operands(frame)? };
    let (&[x, other, ends], &[out]) = (&args[..], &rets[..]) else { return None };
    // SAFETY: likewise.
    let (of, extents) = unsafe {
        let of = Grouped::decode(numbers(&frame.attrs)?)?;
        let extents = of.extents(&dims(x)?, &dims(other)?, &dims(ends)?)?;
        (of, (dims(out)?[..] == of.result(extents)[..]).then_some(extents)?)
    };
    if x.dtype != out.dtype || other.dtype != out.dtype {
        return None;
    }
    // SAFETY: there are so many ends, of this type.
    let ends: Vec<usize> = unsafe {
        match ends.dtype {
            XLA_FFI_DataType_S32 => counted::<i32>(ends, extents.groups)?,
            XLA_FFI_DataType_S64 => counted::<i64>(ends, extents.groups)?,
            _ => return None,
        }
    };
    let call = grouped::Call { of, extents, products: of.products(extents, &ends) };
    match out.dtype {
        // SAFETY: operands and result have this type and these extents; XLA gives a result to one call.
        XLA_FFI_DataType_F32 => unsafe { groups_in::<f32>(frame, &call, x, other, out) },
        // SAFETY: as above.
        XLA_FFI_DataType_F64 => unsafe { groups_in::<f64>(frame, &call, x, other, out) },
        _ => None,
    }
}

unsafe fn groups_in<T: Element>(
    frame: &XLA_FFI_CallFrame,
    call: &grouped::Call,
    x: &XLA_FFI_Buffer,
    other: &XLA_FFI_Buffer,
    out: &XLA_FFI_Buffer,
) -> Option<()> {
    let (lhs, rhs) = (x.data.cast_const().cast::<T>(), other.data.cast_const().cast());
    let operands = Operands { lhs, rhs, out: out.data.cast(), finish: Finishing::NOTHING };
    let pool = Pool(frame);
    // SAFETY: forwarded to the caller.
    unsafe { call.compute(BLAS.get()?, operands, &pool, pool.threads()) }
}

/// The elements of `buffer` as sizes; `None` if one is negative.
unsafe fn counted<I: Copy + TryInto<usize>>(buffer: &XLA_FFI_Buffer, count: usize) -> Option<Vec<usize>> {
    // SAFETY: forwarded to the caller.
    let all = unsafe { std::slice::from_raw_parts(buffer.data.cast_const().cast::<I>(), count) };
    all.iter().map(|&x| x.try_into().ok()).collect()
}

/// Computes the function that `frame` asks for; `None` if that is no such call.
unsafe fn apply(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (args, rets) = unsafe { operands(frame)? };
    let &[out] = &rets[..] else { return None };
    // SAFETY: likewise.
    let (function, elements) = unsafe { (Function::decode(numbers(&frame.attrs)?)?, len(out)?) };
    // SAFETY: likewise.
    let fits =
        |arg: &&XLA_FFI_Buffer| arg.dtype == out.dtype && unsafe { len(arg) == Some(elements) || is_number(arg) };
    if args.len() != function.operands() || !args.iter().all(fits) {
        return None;
    }
    match out.dtype {
        // SAFETY: operands and result have this type, and so many elements.
        XLA_FFI_DataType_F32 => unsafe { apply_in::<f32>(frame, function, &args, out, elements) },
        // SAFETY: as above.
        XLA_FFI_DataType_F64 => unsafe { apply_in::<f64>(frame, function, &args, out, elements) },
        _ => None,
    }
}

unsafe fn apply_in<T: Real>(
    frame: &XLA_FFI_CallFrame,
    function: Function,
    args: &[&XLA_FFI_Buffer],
    out: &XLA_FFI_Buffer,
    elements: usize,
) -> Option<()> {
    let operand = |arg: &XLA_FFI_Buffer| Operand { at: arg.data.cast_const().cast(), is_one: is_number(arg) };
    let at = Elements::<T> { x: operand(args.first()?), y: operand(args.last()?), out: out.data.cast() };
    let pool = Pool(frame);
    // SAFETY: forwarded to the caller; XLA gives a result to one call.
    unsafe { BLAS.get()?.functions.compute(function, at, elements, &pool, pool.threads()) };
    Some(())
}

/// Computes the factorisation that `frame` asks for; `None` if that is no such call.
unsafe fn factor(frame: &XLA_FFI_CallFrame) -> Option<()> {
    // SAFETY: forwarded to the caller.
    let (args, rets) = unsafe { operands(frame)? };
    // SAFETY: likewise.
    let of = Lapack::decode(unsafe { numbers(&frame.attrs)? })?;
    // SAFETY: likewise.
    let tensors = |buffers: &Buffers<'_>| buffers.iter().map(|b| unsafe { tensor(b) }).collect::<Option<Vec<_>>>();
    let (given, made) = (tensors(&args)?, tensors(&rets)?);
    let own = args.first()?.dtype;
    // Pivots are integers, and nothing else is.
    if args.iter().any(|a| a.dtype != own) || (own == XLA_FFI_DataType_S32) != (of == Lapack::Order) {
        return None;
    }
    let wanted = lapack::results(of, &given, &made)?;
    let fits = wanted.len() == made.len()
        && wanted
            .iter()
            .zip(rets.iter().zip(&made))
            .all(|((kind, dims), (buffer, tensor))| type_of(*kind, own) == Some(buffer.dtype) && *dims == tensor.dims);
    if !fits {
        return None;
    }
    let call = lapack::Call { of, operands: &given, results: &made };
    match own {
        // SAFETY: operands and results have this type and these extents; XLA gives a result to one call.
        XLA_FFI_DataType_F32 => unsafe { factor_in::<f32>(frame, &call) },
        // SAFETY: as above.
        XLA_FFI_DataType_F64 => unsafe { factor_in::<f64>(frame, &call) },
        // SAFETY: as above.
        XLA_FFI_DataType_C64 => unsafe { factor_in::<Complex<f32>>(frame, &call) },
        // SAFETY: as above.
        XLA_FFI_DataType_C128 => unsafe { factor_in::<Complex<f64>>(frame, &call) },
        // SAFETY: as above; there are no floats.
        XLA_FFI_DataType_S32 => unsafe { factor_in::<f32>(frame, &call) },
        _ => None,
    }
}

unsafe fn factor_in<T: Scalar>(frame: &XLA_FFI_CallFrame, call: &lapack::Call<'_>) -> Option<()> {
    let pool = Pool(frame);
    // SAFETY: forwarded to the caller.
    unsafe { call.compute::<T>(BLAS.get()?, &pool, pool.threads()) };
    Some(())
}

/// What XLA calls the type `kind` of a call whose matrices are of the type `own`.
fn type_of(kind: Kind, own: c_int) -> Option<c_int> {
    let is_wide = matches!(own, XLA_FFI_DataType_F64 | XLA_FFI_DataType_C128);
    Some(match kind {
        Kind::Own => own,
        Kind::Integer => XLA_FFI_DataType_S32,
        Kind::Real => [XLA_FFI_DataType_F32, XLA_FFI_DataType_F64][usize::from(is_wide)],
        Kind::Complex => [XLA_FFI_DataType_C64, XLA_FFI_DataType_C128][usize::from(is_wide)],
    })
}

/// A buffer with its extents; `None` if they cannot be counted.
unsafe fn tensor(buffer: &XLA_FFI_Buffer) -> Option<Tensor> {
    // SAFETY: forwarded to the caller.
    let dims = unsafe { dims(buffer) }?;
    dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
    Some(Tensor { at: buffer.data.cast(), dims })
}

/// The threads that run the program.
struct Pool<'a>(&'a XLA_FFI_CallFrame);

impl Pool<'_> {
    fn threads(&self) -> usize {
        let mut threads = 1i64;
        // SAFETY: the frame's functions take its context.
        unsafe {
            let Some(count) = (*self.0.api).XLA_FFI_ThreadPool_NumThreads else { return 1 };
            let args = XLA_FFI_ThreadPool_NumThreads_Args { ctx: self.0.ctx, num_threads: &mut threads, ..sized() };
            self.forget(count(ptr::from_ref(&args).cast_mut()));
        }
        usize::try_from(threads).unwrap_or(1).max(1)
    }

    /// Destroys `error`, if it is one, and says whether it was.
    unsafe fn forget(&self, error: *mut c_void) -> bool {
        // SAFETY: the caller has the error from a function of this frame.
        unsafe {
            if let (false, Some(destroy)) = (error.is_null(), (*self.0.api).XLA_FFI_Error_Destroy) {
                destroy(&mut XLA_FFI_Error_Destroy_Args { error, ..sized() });
            }
        }
        !error.is_null()
    }
}

impl team::Threads for Pool<'_> {
    fn schedule(&self, task: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> bool {
        // SAFETY: the frame's functions take its context.
        unsafe {
            let Some(schedule) = (*self.0.api).XLA_FFI_ThreadPool_Schedule else { return false };
            let mut args = XLA_FFI_ThreadPool_Schedule_Args { ctx: self.0.ctx, task: Some(task), data, ..sized() };
            !self.forget(schedule(&mut args))
        }
    }
}

/// An argument struct that says its size.
fn sized<T: CStruct>() -> T {
    let mut args = T::zeroed();
    // SAFETY: a `CStruct` opens with its size.
    unsafe { ptr::from_mut(&mut args).cast::<usize>().write(size_of::<T>()) };
    args
}

unsafe fn failure(frame: &XLA_FFI_CallFrame) -> *mut c_void {
    let message = c"the call is none that torchtpu wrote".as_ptr();
    let mut args = XLA_FFI_Error_Create_Args { message, errc: XLA_FFI_Error_Code_INVALID_ARGUMENT, ..sized() };
    // SAFETY: the function reads its arguments. Without it the error could not be told, and XLA would take it for success.
    unsafe { (*frame.api).XLA_FFI_Error_Create.map_or_else(|| std::process::abort(), |create| create(&mut args)) }
}

/// Arguments or results; `None` if one is no buffer.
unsafe fn buffers<'a>(
    count: i64,
    types: *const c_int,
    values: *const *mut c_void,
    buffer: c_int,
) -> Option<Buffers<'a>> {
    let one = |i: usize| {
        // SAFETY: both lists have `count` entries, and one of this type is a buffer.
        unsafe { (*types.add(i) == buffer).then(|| &*(*values.add(i)).cast::<XLA_FFI_Buffer>()) }
    };
    (0..usize::try_from(count).ok()?).map(one).collect()
}

/// Whether a buffer holds one number, which is for all elements.
fn is_number(buffer: &XLA_FFI_Buffer) -> bool {
    buffer.rank == 0
}

/// Elements of a buffer.
unsafe fn len(buffer: &XLA_FFI_Buffer) -> Option<usize> {
    // SAFETY: forwarded to the caller.
    unsafe { dims(buffer) }?.into_iter().try_fold(1usize, usize::checked_mul)
}

/// Extents of a buffer.
unsafe fn dims(buffer: &XLA_FFI_Buffer) -> Option<SmallVec<[usize; 3]>> {
    let dim = |i| {
        // SAFETY: there are `rank` dimensions.
        usize::try_from(unsafe { *buffer.dims.add(i) }).ok()
    };
    (0..usize::try_from(buffer.rank).ok()?).map(dim).collect()
}

/// The attribute named [`ATTRIBUTE`].
unsafe fn numbers(attrs: &XLA_FFI_Attrs) -> Option<&[i64]> {
    for i in 0..usize::try_from(attrs.size).ok()? {
        // SAFETY: all lists have `size` entries, names are byte spans, and a value of this type is an array of its size.
        unsafe {
            let name = &**attrs.names.add(i);
            if std::slice::from_raw_parts(name.ptr, name.len) != ATTRIBUTE.as_bytes()
                || *attrs.types.add(i) != XLA_FFI_AttrType_ARRAY
            {
                continue;
            }
            let array = &*(*attrs.attrs.add(i)).cast::<XLA_FFI_Array>();
            let wanted = array.dtype == XLA_FFI_DataType_S64 && array.size > 0;
            return wanted.then(|| std::slice::from_raw_parts(array.data, array.size));
        }
    }
    None
}
