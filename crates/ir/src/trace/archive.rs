//! The zip around a `.pt2`, as far as PyTorch writes it: entries stored as they are, zip64 where needed.
//!
//! Only the directory at the end is read. A `.pt2` holds other zips (the sample inputs), stored, so the end of the
//! directory is looked for only where it ends with the file.

use crate::error::{Error, Result};
use crate::{ensure, invalid};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Bytes of directory beyond which an archive is refused.
const MAX_DIRECTORY: u64 = 1 << 28;
/// What stands behind the directory at most: the end record with its comment, and zip64's records.
const MAX_TAIL: u64 = 22 + 0xffff;

/// Where an archive's bytes are.
#[derive(Clone)]
pub(super) enum Source {
    File(Arc<Mutex<File>>, u64),
    Bytes(Arc<[u8]>),
}

impl Source {
    pub(super) fn file(file: File) -> std::io::Result<Source> {
        let size = file.metadata()?.len();
        Ok(Source::File(Arc::new(Mutex::new(file)), size))
    }

    pub(super) fn bytes(bytes: Vec<u8>) -> Source {
        Source::Bytes(bytes.into())
    }

    fn size(&self) -> u64 {
        match self {
            Source::File(_, size) => *size,
            Source::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The bytes of `range`.
    pub(super) fn read(&self, range: &Range<u64>) -> Result<Vec<u8>> {
        let fault = |e: std::io::Error| Error::invalid(format!("cannot read the archive: {e}"));
        if range.start > range.end || range.end > self.size() {
            return Err(damaged("an entry lies beyond its end"));
        }
        let length = usize::try_from(range.end - range.start).map_err(|_| damaged("an entry is too large"))?;
        match self {
            Source::Bytes(bytes) => Ok(bytes[range.start as usize..][..length].to_vec()),
            Source::File(file, _) => {
                let mut file = file.lock().map_err(|_| Error::internal("a reader of the archive panicked"))?;
                file.seek(SeekFrom::Start(range.start)).map_err(fault)?;
                let mut bytes = vec![0; length];
                file.read_exact(&mut bytes).map_err(fault)?;
                Ok(bytes)
            }
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Source::File(..) => "File",
            Source::Bytes(_) => "Bytes",
        })
    }
}

fn damaged(what: &str) -> Error {
    Error::invalid(format!("this is not a whole .pt2 archive: {what}")).with_help("copy or export the file again")
}

/// An entry that is stored as it is.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where its bytes lie.
    pub(super) data: Range<u64>,
    /// Their CRC-32; 0 where PyTorch was told not to count it.
    crc: u32,
}

impl Entry {
    #[cfg(test)]
    pub(super) fn unchecked(data: Range<u64>) -> Entry {
        Entry { data, crc: 0 }
    }

    /// Checks `bytes`, which are all of it.
    pub(super) fn check(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self.crc == 0 || crc32fast::hash(bytes) == self.crc {
            true => Ok(()),
            false => Err(damaged(&format!("the bytes of `{name}` are not those that were written"))),
        }
    }
}

/// Each entry by name. `None` for one that is compressed or encrypted.
pub(super) type Directory = BTreeMap<String, Option<Entry>>;

/// Reads the directory of an archive.
pub(super) fn directory(source: &Source) -> Result<Directory> {
    let place = find(source)?;
    let size = place.end - place.start;
    ensure!(size <= MAX_DIRECTORY, "the archive's directory has {size} bytes");
    let bytes = source.read(&place)?;
    let mut rest = Fields(&bytes);
    let mut entries = Directory::new();
    while !rest.0.is_empty() {
        let (name, header) = entry(&mut rest)?;
        let stored = header.map(|h| stored(source, h, place.start)).transpose()?;
        if entries.insert(name.clone(), stored).is_some() {
            invalid!("the archive has two entries called `{name}`");
        }
    }
    Ok(entries)
}

/// Where the directory lies.
fn find(source: &Source) -> Result<Range<u64>> {
    let size = source.size();
    let tail_start = size.saturating_sub(MAX_TAIL);
    let tail = source.read(&(tail_start..size))?;
    let ends_file = |&at: &usize| {
        let comment = tail.get(at + 20..at + 22).map(|c| usize::from(u16::from_le_bytes([c[0], c[1]])));
        tail[at..].starts_with(b"PK\x05\x06") && comment.is_some_and(|c| at + 22 + c == tail.len())
    };
    let at = (0..tail.len()).rev().find(ends_file).ok_or_else(|| damaged("its directory is missing"))?;
    let end = tail_start + at as u64;
    let mut record = Fields(&tail[at + 10..]);
    let (count, length, start) = (record.u16()?, u64::from(record.u32()?), u64::from(record.u32()?));
    let extended = count == u16::MAX || length == u64::from(u32::MAX) || start == u64::from(u32::MAX);
    let (length, start, end) = if extended { find_extended(source, end)? } else { (length, start, end) };
    match start.checked_add(length) {
        Some(directory_end) if directory_end <= end => Ok(start..directory_end),
        _ => Err(damaged("its directory is cut off")),
    }
}

/// (length, start, end of all) by the zip64 record, whose locator stands before `end`.
fn find_extended(source: &Source, end: u64) -> Result<(u64, u64, u64)> {
    let before = end.checked_sub(20).ok_or_else(|| damaged("its zip64 record is missing"))?;
    let locator = source.read(&(before..end))?;
    ensure!(locator.starts_with(b"PK\x06\x07"), "the archive's zip64 locator is missing");
    let at = Fields(&locator[8..]).u64()?;
    let record = source.read(&(at..at.saturating_add(56)))?;
    ensure!(record.starts_with(b"PK\x06\x06"), "the archive's zip64 record is missing");
    let mut fields = Fields(&record[40..]);
    Ok((fields.u64()?, fields.u64()?, at))
}

/// A stored entry: where its local header stands, its size and its CRC-32.
struct Header {
    at: u64,
    size: u64,
    crc: u32,
}

fn entry(rest: &mut Fields<'_>) -> Result<(String, Option<Header>)> {
    ensure!(rest.take(4)? == b"PK\x01\x02", "the archive's directory is damaged");
    rest.take(4)?;
    let (flags, method) = (rest.u16()?, rest.u16()?);
    rest.take(4)?;
    let (crc, packed, size) = (rest.u32()?, rest.u32()?, rest.u32()?);
    let (name, extra, comment) = (rest.u16()?, rest.u16()?, rest.u16()?);
    rest.take(8)?;
    let at = rest.u32()?;
    let name = String::from_utf8_lossy(rest.take(usize::from(name))?).into_owned();
    let extra = rest.take(usize::from(extra))?;
    rest.take(usize::from(comment))?;
    if method != 0 || flags & 1 != 0 {
        return Ok((name, None));
    }
    // Values that do not fit 32 bits stand in the extra field, in this order.
    let mut wide = Fields(zip64(extra));
    let mut widen = |v: u32| if v == u32::MAX { wide.u64() } else { Ok(u64::from(v)) };
    let (size, packed, at) = (widen(size)?, widen(packed)?, widen(at)?);
    ensure!(size == packed, "entry `{name}` of the archive is stored in another size than its own");
    Ok((name, Some(Header { at, size, crc })))
}

/// zip64's part of an extra field.
fn zip64(extra: &[u8]) -> &[u8] {
    let mut rest = Fields(extra);
    while let (Ok(id), Ok(length)) = (rest.u16(), rest.u16()) {
        let Ok(part) = rest.take(usize::from(length)) else { break };
        if id == 1 {
            return part;
        }
    }
    &[]
}

/// The entry behind a local header.
fn stored(source: &Source, header: Header, end: u64) -> Result<Entry> {
    let local = source.read(&(header.at..header.at.saturating_add(30)))?;
    ensure!(local.starts_with(b"PK\x03\x04"), "an entry of the archive has no header");
    let mut fields = Fields(&local[26..]);
    let (name, extra) = (u64::from(fields.u16()?), u64::from(fields.u16()?));
    let start = header.at + 30 + name + extra;
    match start.checked_add(header.size) {
        Some(data_end) if data_end <= end => Ok(Entry { data: start..data_end, crc: header.crc }),
        _ => Err(damaged("an entry lies beyond its end")),
    }
}

/// Little-endian fields, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n).ok_or_else(|| damaged("its directory is cut off"))?;
        self.0 = rest;
        Ok(head)
    }
    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }
    fn u16(&mut self) -> Result<u16> {
        self.number().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Result<u32> {
        self.number().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64> {
        self.number().map(u64::from_le_bytes)
    }
}
