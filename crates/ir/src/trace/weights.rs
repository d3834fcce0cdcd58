//! The `.pt2` archive: a zip of stored entries, weights included. Weights are found, not read: a tensor is a range of the
//! file until somebody wants its bytes.

use super::archive::{self, Directory, Entry, Source};
use super::codes;
use super::schema::{SymInt, TensorMeta};
use crate::error::{Error, Result};
use crate::types::{Shape, TensorType};
use crate::{ensure, invalid};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Bytes beyond which a tensor that repeats its storage is refused.
const MAX_EXPANDED: u64 = 1 << 30;
/// Bytes beyond which a table of weights is refused.
const MAX_CONFIG: u64 = 1 << 28;

/// A tensor in an archive.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Element type and logical extents.
    pub ty: TensorType,
    /// Steps in the storage, in elements.
    pub strides: Vec<usize>,
    /// First element in the storage, in elements.
    pub offset: usize,
    /// Bytes of the whole storage in the file. Tensors with equal ranges share memory.
    pub storage: Range<u64>,
}

/// The parameters, buffers and constants of an archive, by qualified name.
#[derive(Debug)]
pub struct Weights {
    source: Source,
    entries: BTreeMap<String, (Weight, Entry)>,
    /// Where the storages begin that were found to be what was written.
    checked: Mutex<BTreeSet<u64>>,
}

impl Weights {
    pub(super) fn new(source: Source, entries: BTreeMap<String, (Weight, Entry)>) -> Weights {
        Weights { source, entries, checked: Mutex::default() }
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Where `name` is.
    pub fn get(&self, name: &str) -> Option<&Weight> {
        self.entries.get(name).map(|(weight, _)| weight)
    }

    /// The elements of `name`, row-major in its logical shape.
    ///
    /// # Errors
    /// `Invalid` for an unknown name and an unreadable, truncated or damaged file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let Some((weight, entry)) = self.entries.get(name) else { invalid!("the archive holds no weight `{name}`") };
        if weight.ty.numel() == 0 {
            return Ok(vec![]);
        }
        let size = weight.ty.dtype.size();
        let start = weight.storage.start + (weight.offset * size) as u64;
        let row_major = crate::alias::Layout::contiguous(weight.ty.shape.clone()).strides;
        let dense =
            weight.ty.shape.iter().zip(weight.strides.iter().zip(&row_major)).all(|(&n, (s, d))| n == 1 || s == d);
        if dense {
            return self.part(name, entry, start..start + weight.ty.size_in_bytes() as u64);
        }
        let reach: usize = weight.ty.shape.iter().zip(&weight.strides).map(|(n, s)| (n - 1) * s).sum();
        let bytes = self.part(name, entry, start..start + ((reach + 1) * size) as u64)?;
        Ok(row_major_bytes(&bytes, weight, size))
    }

    /// Bytes of the storage of `name`, all of which is read once to see that it is what was written.
    fn part(&self, name: &str, entry: &Entry, range: Range<u64>) -> Result<Vec<u8>> {
        let bytes = self.source.read(&range)?;
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if range == entry.data {
            entry.check(name, &bytes)?;
        } else if !checked.contains(&entry.data.start) {
            entry.check(name, &self.source.read(&entry.data)?)?;
        }
        checked.insert(entry.data.start);
        Ok(bytes)
    }
}

/// Picks the elements of a strided tensor, whose first element `bytes` starts with.
fn row_major_bytes(bytes: &[u8], weight: &Weight, size: usize) -> Vec<u8> {
    let shape = &weight.ty.shape;
    let mut out = Vec::with_capacity(weight.ty.size_in_bytes());
    let (mut index, mut at) = (vec![0; shape.len()], 0);
    loop {
        out.extend_from_slice(&bytes[at * size..][..size]);
        let Some(dim) = (0..shape.len()).rev().find(|&d| index[d] + 1 < shape[d]) else { return out };
        for (index, stride) in index[dim + 1..].iter_mut().zip(&weight.strides[dim + 1..]) {
            at -= std::mem::take(index) * stride;
        }
        index[dim] += 1;
        at += weight.strides[dim];
    }
}

/// The entries of an archive that holds one model.
struct Archive {
    source: Source,
    entries: Directory,
}

/// Opens an archive: the JSON of its model and its weights.
pub(super) fn open(source: Source, max_json: u64) -> Result<(Vec<u8>, Weights)> {
    let archive = Archive::open(source)?;
    if let Some(order) = archive.entry("byteorder", 16)? {
        ensure!(order == b"little", "the archive's weights are not little-endian");
    }
    let model = archive.model()?;
    let path = format!("models/{model}.json");
    let Some(json) = archive.entry(&path, max_json)? else { invalid!("the archive holds no {path}") };
    let mut entries = BTreeMap::new();
    for kind in ["weights", "constants"] {
        archive.weights(kind, &model, &mut entries)?;
    }
    Ok((json, Weights::new(archive.source, entries)))
}

/// A table of weights.
#[derive(Deserialize)]
struct Config {
    config: BTreeMap<String, Payload>,
}

#[derive(Deserialize)]
struct Payload {
    path_name: String,
    #[serde(default)]
    use_pickle: bool,
    tensor_meta: Option<TensorMeta>,
}

impl Archive {
    /// All entries lie under one folder, which is named after the file.
    fn open(source: Source) -> Result<Archive> {
        let (mut root, mut entries) = (None, Directory::new());
        for (name, data) in archive::directory(&source)? {
            let Some((first, rest)) = name.split_once('/') else { continue };
            let root = root.get_or_insert_with(|| first.to_owned());
            if *root == first {
                entries.insert(rest.to_owned(), data);
            }
        }
        Ok(Archive { source, entries })
    }

    /// The name of its model: `model`, or the only one.
    fn model(&self) -> Result<String> {
        let name = |path: &String| Some(path.strip_prefix("models/")?.strip_suffix(".json")?.to_owned());
        let models: Vec<String> = self.entries.keys().filter_map(name).collect();
        match &models[..] {
            [only] => Ok(only.clone()),
            [] => invalid!("the archive holds no models/*.json; was it written by torch.export.save?"),
            many if many.iter().any(|m| m == "model") => Ok("model".to_owned()),
            many => invalid!("the archive holds several models: {}", many.join(", ")),
        }
    }

    /// The bytes of an entry; `None` if there is none of that name.
    fn entry(&self, name: &str, max: u64) -> Result<Option<Vec<u8>>> {
        let Some(data) = self.entries.get(name) else { return Ok(None) };
        let Some(entry) = data else { invalid!("`{name}` is compressed in the archive; PyTorch stores it as it is") };
        let size = entry.data.end - entry.data.start;
        ensure!(size <= max, "`{name}` has {size} bytes, more than {max}");
        let bytes = self.source.read(&entry.data)?;
        entry.check(name, &bytes)?;
        Ok(Some(bytes))
    }

    fn weights(&self, kind: &str, model: &str, into: &mut BTreeMap<String, (Weight, Entry)>) -> Result<()> {
        let path = format!("data/{kind}/{model}_{kind}_config.json");
        let Some(json) = self.entry(&path, MAX_CONFIG)? else { return Ok(()) };
        let config: Config = serde_json::from_slice(&json).map_err(|e| Error::invalid(format!("bad {path}: {e}")))?;
        for (name, payload) in config.config {
            let storage = self.entries.get(&format!("data/{kind}/{}", payload.path_name));
            if let Some(weight) = weight(&name, &payload, storage)? {
                into.insert(name, weight);
            }
        }
        Ok(())
    }
}

/// A checked tensor; `None` for an object that is no tensor, which matters only if the program takes it.
fn weight(name: &str, payload: &Payload, storage: Option<&Option<Entry>>) -> Result<Option<(Weight, Entry)>> {
    let Some(meta) = payload.tensor_meta.as_ref().filter(|_| !payload.use_pickle) else { return Ok(None) };
    let Some(storage) = storage else { invalid!("the archive lacks `{}` of weight `{name}`", payload.path_name) };
    let Some(entry) = storage.clone() else { invalid!("weight `{name}` is compressed in the archive") };
    let concrete = |s: &SymInt| match s {
        SymInt::AsInt(i) => usize::try_from(*i).ok(),
        SymInt::AsExpr(_) => None,
    };
    let numbers = |list: &[SymInt]| -> Option<Shape> { list.iter().map(concrete).collect() };
    let odd = || Error::invalid(format!("weight `{name}` has impossible extents"));
    let shape = numbers(&meta.sizes).ok_or_else(odd)?;
    let strides = numbers(&meta.strides).ok_or_else(odd)?;
    let offset = meta.storage_offset.as_ref().map_or(Some(0), concrete).ok_or_else(odd)?;
    ensure!(shape.len() == strides.len(), "weight `{name}` has {} sizes, but {} strides", shape.len(), strides.len());
    let ty = TensorType { dtype: codes::dtype(meta.dtype)?, shape };
    let end = end(&ty, &strides, offset).ok_or_else(odd)?;
    let storage = entry.data.clone();
    let held = storage.end - storage.start;
    ensure!(!(held == 0 && end > 0), "the archive holds no data for weight `{name}`");
    ensure!(end <= held, "weight `{name}` ends at byte {end}, beyond its storage of {held}");
    ensure!(ty.size_in_bytes() as u64 <= held.max(MAX_EXPANDED), "weight `{name}` has {} bytes", ty.size_in_bytes());
    Ok(Some((Weight { ty, strides: strides.to_vec(), offset, storage }, entry)))
}

/// One past the last byte that the tensor touches, counted in its storage.
fn end(ty: &TensorType, strides: &[usize], offset: usize) -> Option<u64> {
    let numel = ty.checked_numel()?;
    numel.checked_mul(ty.dtype.size()).filter(|&n| n <= isize::MAX as usize)?;
    if numel == 0 {
        return Some(0);
    }
    let last = ty.shape.iter().zip(strides).try_fold(offset, |at, (&n, &s)| at.checked_add((n - 1).checked_mul(s)?))?;
    u64::try_from(last.checked_add(1)?.checked_mul(ty.dtype.size())?).ok()
}
