//! Functions of the C library that one loaded library calls, replaced by others: what `LD_PRELOAD` does, for that library
//! alone. The loader has written their addresses into slots, which its tables name (System V ABI, *Dynamic linking*).

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{ptr, slice};

/// How relocations say "the address of a symbol": in a slot for calls, in one for data, or anywhere.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 3] = [7, 6, 1];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 3] = [1026, 1025, 257];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ADDRESSES: [u32; 0] = [];

const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
/// How many of the relocations, the first ones, name no symbol.
const DT_RELACOUNT: i64 = 0x6fff_fff9;

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// A function by its name in the C library, and what is called in its place.
pub(super) type Replacement = (&'static CStr, *const c_void);

/// Where a loaded library lies.
struct Library<'a> {
    base: usize,
    segments: &'a [libc::Elf64_Phdr],
}

/// Replaces functions in the library that `inside` points into. All of them, in this order, or none: whether it did. The
/// library stays loaded for good.
///
/// # Safety
/// The library is a well-formed one that the loader has loaded, and each replacement has its function's type and keeps
/// its promises.
pub(super) unsafe fn replace(inside: *const c_void, replacements: &[Replacement]) -> bool {
    struct Search<'a> {
        inside: usize,
        replacements: &'a [Replacement],
        done: bool,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader passes a library that it holds for this call, and what it was given.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
        // SAFETY: as above.
        let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let library = Library { base: info.dlpi_addr as usize, segments };
        if !library.holds(search.inside) {
            return 0;
        }
        // SAFETY: the caller of `replace` vouches for it.
        search.done = unsafe { library.replace(search.replacements) };
        1
    }
    let mut search = Search { inside: inside as usize, replacements, done: false };
    // SAFETY: `visit` gets the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), ptr::from_mut(&mut search).cast()) };
    search.done
}

impl Library<'_> {
    fn holds(&self, address: usize) -> bool {
        let spans = self.segments.iter().filter(|s| s.p_type == libc::PT_LOAD);
        spans
            .map(|s| (self.base + s.p_vaddr as usize, s.p_memsz as usize))
            .any(|(at, size)| (at..at + size).contains(&address))
    }

    unsafe fn replace(&self, replacements: &[Replacement]) -> bool {
        // SAFETY: the library is well-formed.
        let slots: Vec<Vec<usize>> = replacements.iter().map(|(name, _)| unsafe { self.slots(name) }).collect();
        if slots.iter().any(Vec::is_empty) {
            return false;
        }
        let mut of_each = slots.iter().zip(replacements);
        // SAFETY: the slots are the loader's, and the replacement fits.
        of_each.all(|(slots, (_, with))| slots.iter().all(|&slot| unsafe { self.write(slot, *with) }))
    }

    /// Addresses of the slots that hold the address of the function `name`.
    unsafe fn slots(&self, name: &CStr) -> Vec<usize> {
        let Some(dynamic) = self.segments.iter().find(|s| s.p_type == libc::PT_DYNAMIC) else { return Vec::new() };
        let entries = (self.base + dynamic.p_vaddr as usize) as *const Dynamic;
        let value = |wanted: i64| {
            // SAFETY: the list ends with `DT_NULL`.
            let mut all = (0..).map(|i| unsafe { &*entries.add(i) }).take_while(|entry| entry.tag != DT_NULL);
            all.find(|entry| entry.tag == wanted).map(|entry| entry.value as usize)
        };
        // Some loaders leave addresses as they are in the file.
        let address = |tag| value(tag).map(|at| if at < self.base { at + self.base } else { at });
        let (Some(strings), Some(symbols)) = (address(DT_STRTAB), address(DT_SYMTAB)) else { return Vec::new() };
        let tables = [
            (address(DT_RELA), value(DT_RELASZ), value(DT_RELACOUNT).unwrap_or(0)),
            (address(DT_JMPREL), value(DT_PLTRELSZ), 0),
        ];
        let mut found = Vec::new();
        for (table, bytes, unnamed) in tables {
            let (Some(table), Some(bytes)) = (table, bytes) else { continue };
            let count = bytes / size_of::<Relocation>();
            // SAFETY: the library's table of relocations, which it never writes.
            let all = unsafe { slice::from_raw_parts(table as *const Relocation, count) };
            for relocation in &all[unnamed.min(count)..] {
                let (symbol, kind) = ((relocation.info >> 32) as usize, relocation.info as u32);
                if symbol == 0 || relocation.addend != 0 || !ADDRESSES.contains(&kind) {
                    continue;
                }
                // SAFETY: the relocation's symbol is in the table, and its name among the strings.
                let own = unsafe {
                    let symbol = &*(symbols as *const libc::Elf64_Sym).add(symbol);
                    CStr::from_ptr((strings as *const std::ffi::c_char).add(symbol.st_name as usize))
                };
                if own == name {
                    found.push(self.base + relocation.offset as usize);
                }
            }
        }
        found
    }

    /// Writes an address into a slot. Whether it could.
    unsafe fn write(&self, slot: usize, address: *const c_void) -> bool {
        let closed = self.segments.iter().filter(|s| s.p_type == libc::PT_GNU_RELRO).any(|s| {
            let at = self.base + s.p_vaddr as usize;
            (at..at + s.p_memsz as usize).contains(&slot)
        });
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let of_slot = (slot & !(page - 1)) as *mut c_void;
        // SAFETY: the page is the library's own data, which the loader has closed for writing.
        let open = |how| unsafe { libc::mprotect(of_slot, page, how) } == 0;
        if closed && !open(libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        // SAFETY: a slot is an aligned word that other threads only read.
        unsafe { &*(slot as *const AtomicUsize) }.store(address as usize, Ordering::Release);
        !closed || open(libc::PROT_READ)
    }
}
