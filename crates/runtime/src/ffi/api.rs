//! A plugin's function table: loading it, calling through it, and turning its errors and strings into Rust values.

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use super::processors::Processors;
use super::sys::{self, CStruct, PJRT_Error, PJRT_NamedValue, Zeroable};
use super::table::{self, Args, PJRT_Api};
use crate::error::{ApiVersion, Error, ErrorCode, PluginError, Result};

/// The oldest accepted version. All functions used here exist since then, and nothing older was ever tried.
const OLDEST: ApiVersion = ApiVersion { major: sys::PJRT_API_MAJOR, minor: 54 };

/// Strings and lists longer than this are taken for garbage.
const ABSURD_LENGTH: usize = 1 << 31;

/// A loaded plugin's functions. Lives as long as the process.
pub(crate) struct Api {
    table: PJRT_Api,
    /// Where its `GetPjrtApi` lies.
    entry: usize,
    /// The library's file.
    pub(crate) path: PathBuf,
    /// The version that the plugin speaks.
    pub(crate) version: ApiVersion,
    processors: Processors,
}

// SAFETY: the table is never written after loading, and PJRT functions may be called from any thread.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// An argument struct followed by zeros: a plugin newer than our declarations rejects structs smaller than its own
/// and reads zero for every field that we do not know.
#[repr(C)]
struct Padded<T> {
    value: T,
    spare: [u64; 16],
}

impl<T: CStruct> Padded<T> {
    fn new(value: T) -> Self {
        let mut padded = Padded { value, spare: [0; 16] };
        // SAFETY: a `CStruct` opens with its size.
        unsafe { ptr::from_mut(&mut padded.value).cast::<usize>().write(size_of::<Self>()) };
        padded
    }
}

/// A nested struct (a program, execute options), padded as arguments are.
pub(super) struct Nested<T>(Padded<T>);

impl<T: CStruct> Nested<T> {
    pub(super) fn new(value: T) -> Self {
        Nested(Padded::new(value))
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut T {
        ptr::from_mut(&mut self.0).cast()
    }

    pub(super) fn get(&mut self) -> &mut T {
        &mut self.0.value
    }
}

impl Api {
    /// Loads the library at `path` and initialises the plugin in it. The library is never unloaded.
    pub(crate) fn load(path: &Path) -> Result<Api> {
        let not_a_plugin = |reason: String| Error::NotAPlugin { path: path.to_owned(), reason };
        super::environment::prepare(path);
        // SAFETY: running a library's initialisers is what loading a plugin means; the user chose the file.
        let library =
            unsafe { libloading::Library::new(path) }.map_err(|error| not_a_plugin(loader_message(&error)))?;
        // SAFETY: `GetPjrtApi` has this signature in every PJRT plugin.
        let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi\0") };
        let entry = entry.map_err(|_| not_a_plugin("it has no function GetPjrtApi".to_owned()))?;
        // SAFETY: the function takes nothing and returns a table that lives as long as the library.
        let foreign = unsafe { entry() };
        if foreign.is_null() {
            return Err(not_a_plugin("GetPjrtApi returned no function table".to_owned()));
        }
        // SAFETY: not null, so it points to the plugin's table.
        let (table, version) = unsafe { read_table(foreign) }
            .ok_or_else(|| not_a_plugin("its function table is too small to hold a version".to_owned()))?;
        if version.major != OLDEST.major || version < OLDEST {
            return Err(Error::WrongVersion { path: path.to_owned(), found: version, needed: OLDEST });
        }
        let entry = *entry as usize;
        std::mem::forget(library);
        let api = Api { table, entry, path: path.to_owned(), version, processors: Processors::default() };
        // SAFETY: the arguments hold nothing.
        unsafe { api.call(sys::PJRT_Plugin_Initialize_Args::zeroed()) }?;
        Ok(api)
    }

    /// Has the plugin, one for the CPU, take its large blocks of memory from the pool. Whether it does.
    pub(crate) fn keep_memory(&self) -> bool {
        super::pool::serve(self.entry as *const c_void)
    }

    /// Runs `compile`, in which the plugin, one for the CPU, divides no op among threads.
    pub(super) fn undivided<T>(&self, compile: impl FnOnce() -> T) -> T {
        self.processors.undivided(self.entry as *const c_void, compile)
    }

    /// The first of the plugin's extensions, null for none.
    pub(super) fn extensions(&self) -> *mut c_void {
        self.table.extension_start
    }

    /// The function that takes `A`, or an error that names it.
    pub(super) fn require<A: Args>(&self) -> Result<table::Call<A>> {
        A::entry(&self.table).ok_or(Error::MissingFunction { function: A::FUNCTION })
    }

    /// Calls the function that takes `A` and returns the arguments with its outputs filled in.
    ///
    /// # Safety
    /// Every pointer in `args` must be what the function's contract asks for.
    pub(super) unsafe fn call<A: Args>(&self, args: A) -> Result<A> {
        let function = self.require::<A>()?;
        let mut padded = Padded::new(args);
        // SAFETY: `padded` opens with an `A`; the caller vouches for the pointers in it.
        let error = unsafe { function(ptr::from_mut(&mut padded).cast()) };
        // SAFETY: the result of a PJRT function is null or an error that we now own.
        unsafe { self.check(A::FUNCTION, error) }?;
        Ok(padded.value)
    }

    /// Calls a function whose failure nobody can act on: the destroy functions, from `Drop`.
    ///
    /// # Safety
    /// As [`Api::call`].
    pub(super) unsafe fn call_quietly<A: Args>(&self, args: A) {
        // SAFETY: forwarded to the caller.
        drop(unsafe { self.call(args) });
    }

    /// Turns a C error into a Rust one and frees it.
    ///
    /// # Safety
    /// `error` is null or an owned error of this plugin.
    pub(super) unsafe fn check(&self, function: &'static str, error: *mut PJRT_Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: an error of this plugin, alive until destroyed below; read first, freed once.
        let (code, message) = unsafe {
            let found = (self.error_code(error), self.error_message(error));
            self.destroy_error(error);
            found
        };
        Err(Error::Plugin(Box::new(PluginError::new(function, ErrorCode::from_raw(code), &message))))
    }

    unsafe fn error_code(&self, error: *mut PJRT_Error) -> c_int {
        const UNKNOWN: c_int = 2;
        let Some(function) = self.table.PJRT_Error_GetCode else {
            return UNKNOWN;
        };
        let mut args = Padded::new(sys::PJRT_Error_GetCode_Args { error, ..Zeroable::zeroed() });
        // SAFETY: `error` is alive.
        let failure = unsafe { function(ptr::from_mut(&mut args).cast()) };
        if failure.is_null() {
            return args.value.code;
        }
        // SAFETY: asking for a code failed with an error of its own, which is ours to free.
        unsafe { self.destroy_error(failure) };
        UNKNOWN
    }

    unsafe fn error_message(&self, error: *mut PJRT_Error) -> String {
        let Some(function) = self.table.PJRT_Error_Message else {
            return String::new();
        };
        let mut args = Padded::new(sys::PJRT_Error_Message_Args { error, ..Zeroable::zeroed() });
        // SAFETY: `error` is alive, and so is its message until it is destroyed.
        unsafe {
            function(ptr::from_mut(&mut args).cast());
            text(args.value.message, args.value.message_size)
        }
    }

    unsafe fn destroy_error(&self, error: *mut PJRT_Error) {
        let Some(function) = self.table.PJRT_Error_Destroy else {
            return;
        };
        let mut args = Padded::new(sys::PJRT_Error_Destroy_Args { error, ..Zeroable::zeroed() });
        // SAFETY: the caller owns `error` and gives it up.
        unsafe { function(ptr::from_mut(&mut args).cast()) };
    }

    /// Named facts about the plugin, such as the StableHLO versions that it accepts.
    pub(crate) fn attributes(&self) -> Result<Vec<(String, Value)>> {
        // SAFETY: no pointers go in; the attributes live as long as the process.
        unsafe {
            let args = self.call(sys::PJRT_Plugin_Attributes_Args::zeroed())?;
            Ok(decode_named_values(args.attributes, args.num_attributes))
        }
    }
}

/// Copies the smaller of the plugin's table and ours; what the plugin lacks stays `None`.
///
/// # Safety
/// `foreign` points to a plugin's function table.
unsafe fn read_table(foreign: *const PJRT_Api) -> Option<(PJRT_Api, ApiVersion)> {
    let header = std::mem::offset_of!(PJRT_Api, PJRT_Error_Destroy);
    // SAFETY: every table opens with its size.
    let size = unsafe { foreign.cast::<usize>().read() };
    if size < header {
        return None;
    }
    let mut table = PJRT_Api::zeroed();
    // SAFETY: both sides have that many bytes, and any prefix of function pointers is a valid table.
    unsafe {
        ptr::copy_nonoverlapping(
            foreign.cast::<u8>(),
            ptr::from_mut(&mut table).cast(),
            size.min(size_of::<PJRT_Api>()),
        );
    }
    let version = table.pjrt_api_version;
    Some((table, ApiVersion { major: version.major_version, minor: version.minor_version }))
}

/// The loader's own words, without the wrapper's.
pub(super) fn loader_message(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Copies a string of the plugin's; null and absurd lengths give an empty one.
///
/// # Safety
/// `data` is null or points to `size` readable bytes.
pub(super) unsafe fn text(data: *const c_char, size: usize) -> String {
    // SAFETY: forwarded to the caller.
    String::from_utf8_lossy(unsafe { bytes(data, size) }).into_owned()
}

/// Borrows bytes of the plugin's; null and absurd lengths give none.
///
/// # Safety
/// `data` is null or points to `size` bytes that stay readable and unchanged for `'a`.
pub(super) unsafe fn bytes<'a>(data: *const c_char, size: usize) -> &'a [u8] {
    // SAFETY: forwarded to the caller.
    unsafe { list(data.cast(), size) }
}

/// Borrows a list of the plugin's; null and absurd lengths give an empty one.
///
/// # Safety
/// `data` is null or points to `len` initialised elements that stay readable and unchanged for `'a`.
pub(super) unsafe fn list<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() || !data.is_aligned() || len.saturating_mul(size_of::<T>()) > ABSURD_LENGTH {
        return &[];
    }
    // SAFETY: not null, aligned, and of a size that can be; the caller vouches for the rest.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// A value of a named plugin attribute, client option or executable property.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    String(String),
    /// A signed integer.
    I64(i64),
    /// A list of signed integers.
    I64List(Vec<i64>),
    /// A float.
    F32(f32),
    /// A truth value.
    Bool(bool),
}

/// Options in C form; borrows `options`, which must outlive every use of the result.
pub(super) fn encode_named_values(options: &[(&str, Value)]) -> Vec<PJRT_NamedValue> {
    let encode = |(name, value): &(&str, Value)| {
        let (type_, bits, value_size) = match value {
            Value::String(text) => (sys::PJRT_NamedValue_kString, text.as_ptr().expose_provenance() as i64, text.len()),
            Value::I64(number) => (sys::PJRT_NamedValue_kInt64, *number, 1),
            Value::I64List(list) => {
                (sys::PJRT_NamedValue_kInt64List, list.as_ptr().expose_provenance() as i64, list.len())
            }
            Value::F32(number) => (sys::PJRT_NamedValue_kFloat, i64::from(number.to_bits()), 1),
            Value::Bool(flag) => (sys::PJRT_NamedValue_kBool, i64::from(*flag), 1),
        };
        PJRT_NamedValue {
            // Read as an array by the plugin, so the size must be the declared one and not a padded one.
            struct_size: size_of::<PJRT_NamedValue>(),
            extension_start: ptr::null_mut(),
            name: name.as_ptr().cast(),
            name_size: name.len(),
            type_,
            int64_value: bits,
            value_size,
        }
    };
    options.iter().map(encode).collect()
}

/// Copies a list of named values out of the plugin. Values of unknown types are left out.
///
/// # Safety
/// `values` is null or points to `count` named values of the plugin.
pub(super) unsafe fn decode_named_values(values: *const PJRT_NamedValue, count: usize) -> Vec<(String, Value)> {
    if values.is_null() || count > ABSURD_LENGTH / size_of::<PJRT_NamedValue>() {
        return Vec::new();
    }
    // SAFETY: each value opens with its size, which is the stride of the plugin's array.
    let stride = unsafe { (*values).struct_size }.max(size_of::<PJRT_NamedValue>());
    let decode = |index: usize| {
        // SAFETY: within the plugin's array; a union of at most eight bytes is read by its tag.
        unsafe {
            let value = &*values.byte_add(index * stride);
            Some((text(value.name, value.name_size), decode_value(value)?))
        }
    };
    (0..count).filter_map(decode).collect()
}

unsafe fn decode_value(value: &PJRT_NamedValue) -> Option<Value> {
    let (bits, size) = (value.int64_value, value.value_size);
    let address = bits as usize;
    // SAFETY: the tag says that the union holds a pointer to `size` elements.
    unsafe {
        Some(match value.type_ {
            sys::PJRT_NamedValue_kString => Value::String(text(ptr::with_exposed_provenance(address), size)),
            sys::PJRT_NamedValue_kInt64 => Value::I64(bits),
            sys::PJRT_NamedValue_kInt64List => {
                Value::I64List(list(ptr::with_exposed_provenance::<i64>(address), size).to_vec())
            }
            sys::PJRT_NamedValue_kFloat => Value::F32(f32::from_bits(bits as u32)),
            sys::PJRT_NamedValue_kBool => Value::Bool(bits as u8 != 0),
            _ => return None,
        })
    }
}
