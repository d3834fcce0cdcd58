//! Executables on disk.
//!
//! An entry is one file, named by its key and written whole: to a temporary file first, then renamed, so that processes
//! sharing the folder see it entirely or not at all. It carries a checksum. An entry that is truncated, corrupt or of
//! another format is dropped, and the program compiled anew: a cache never makes a program fail. When the folder
//! outgrows its limit, the entries used longest ago go first.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Bytes that every entry starts with; the last one is the format's version.
const MAGIC: &[u8; 8] = b"TTPUEXE\x01";
const HEADER: usize = MAGIC.len() + blake3::OUT_LEN;
const SUFFIX: &str = "exe";

/// The size in bytes that a cache folder is held to unless its owner says otherwise.
pub const DEFAULT_LIMIT: u64 = 4 << 30;

/// How often the folder is looked through while as much is stored as it may hold.
const SCANS: u64 = 16;

/// A folder of serialised executables.
#[derive(Debug, Clone)]
pub struct DiskCache {
    folder: PathBuf,
    limit: u64,
    /// Bytes that may be stored before the folder is looked through again, which takes time for each entry there is.
    room: Arc<AtomicU64>,
}

impl DiskCache {
    /// A cache in `folder`, which is made when the first entry is written, held to `limit` bytes.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> DiskCache {
        DiskCache { folder: folder.into(), limit, room: Arc::default() }
    }

    /// The cache that the environment asks for: `TORCHTPU_CACHE_DIR`, none if that is empty, else a folder of ours in
    /// the user's cache folder.
    pub fn from_env() -> Option<DiskCache> {
        let folder = match std::env::var_os("TORCHTPU_CACHE_DIR") {
            Some(folder) if folder.is_empty() => return None,
            Some(folder) => PathBuf::from(folder),
            None => user_cache_folder()?.join("torchtpu"),
        };
        Some(DiskCache::new(folder, DEFAULT_LIMIT))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.{SUFFIX}"))
    }

    /// The payload under `key`. An entry that cannot be trusted is deleted.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut bytes = vec![];
        let mut file = File::open(&path).ok()?;
        file.read_to_end(&mut bytes).ok()?;
        let Some(payload) = payload(&bytes) else {
            self.remove(key);
            return None;
        };
        // Marks the use for eviction; a read-only folder simply does not record it.
        let _ = File::options().append(true).open(&path).and_then(|f| f.set_modified(SystemTime::now()));
        let start = bytes.len() - payload.len();
        bytes.drain(..start);
        Some(bytes)
    }

    /// Drops the entry under `key`, if there is one: its payload turned out to be unusable.
    pub fn remove(&self, key: &str) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Stores `payload` under `key`, then evicts what exceeds the limit; what other processes store meanwhile counts from
    /// the next time that the folder is looked through.
    ///
    /// # Errors
    /// When the folder cannot be written; callers go on without the entry.
    pub fn put(&self, key: &str, payload: &[u8]) -> io::Result<()> {
        if payload.len() as u64 > self.limit {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(blake3::hash(payload).as_bytes())?;
        file.write_all(payload)?;
        file.persist(self.path(key)).map_err(|e| e.error)?;
        let bytes = (HEADER + payload.len()) as u64;
        if self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(bytes)).is_err() {
            self.evict();
        }
        Ok(())
    }

    fn evict(&self) {
        let mut entries = self.entries();
        let mut total: u64 = entries.iter().map(|e| e.bytes).sum();
        entries.sort_by_key(|e| e.used);
        for entry in entries {
            if total <= self.limit {
                break;
            }
            // Another process may have evicted it first.
            let _ = fs::remove_file(&entry.path);
            total -= entry.bytes;
        }
        let room = self.limit.saturating_sub(total).min(self.limit / SCANS);
        self.room.store(room, Ordering::Relaxed);
    }

    /// Why entries cannot be stored, if they cannot.
    pub fn fault(&self) -> Option<io::Error> {
        let made = fs::create_dir_all(&self.folder);
        made.and_then(|()| tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)).err()
    }

    /// Number of entries and bytes in all.
    pub fn size(&self) -> (usize, u64) {
        let entries = self.entries();
        (entries.len(), entries.iter().map(|e| e.bytes).sum())
    }

    fn entries(&self) -> Vec<Entry> {
        let Ok(folder) = fs::read_dir(&self.folder) else { return vec![] };
        folder.filter_map(|file| Entry::of(file.ok()?.path())).collect()
    }
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Entry {
    fn of(path: PathBuf) -> Option<Entry> {
        let metadata = path.metadata().ok()?;
        let ours = path.extension().is_some_and(|e| e == SUFFIX) && metadata.is_file();
        ours.then_some(Entry { bytes: metadata.len(), used: metadata.modified().ok()?, path })
    }
}

/// What stands behind a header whose checksum is right.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let (header, payload) = bytes.split_at_checked(HEADER)?;
    let (magic, sum) = header.split_at(MAGIC.len());
    (magic == MAGIC && sum == blake3::hash(payload).as_bytes()).then_some(payload)
}

fn user_cache_folder() -> Option<PathBuf> {
    let absolute = |p: PathBuf| p.is_absolute().then_some(p);
    let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    xdg.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cache(limit: u64) -> (tempfile::TempDir, DiskCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path().join("nested"), limit);
        (folder, cache)
    }

    #[test]
    fn an_entry_comes_back() {
        let (_folder, cache) = cache(1000);
        assert_eq!(cache.get("k"), None);
        cache.put("k", b"payload").unwrap();
        assert_eq!(cache.get("k").as_deref(), Some(&b"payload"[..]));
    }

    #[test]
    fn any_damage_drops_the_entry() {
        let (_folder, cache) = cache(1000);
        cache.put("k", b"payload").unwrap();
        let path = cache.path("k");
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(cache.get("k"), None, "truncated to {cut}");
            assert!(!path.exists(), "a truncated entry is deleted");
        }
        for i in 0..whole.len() {
            let mut bad = whole.clone();
            bad[i] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert_eq!(cache.get("k"), None, "byte {i} flipped");
        }
    }

    #[test]
    fn the_longest_unused_entries_are_evicted() {
        let (_folder, cache) = cache(3 * (HEADER as u64 + 10));
        for (age, key) in [(30, "a"), (20, "b"), (10, "c")] {
            cache.put(key, &[0; 10]).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            File::options().append(true).open(cache.path(key)).unwrap().set_modified(then).unwrap();
        }
        assert!(cache.get("a").is_some(), "used now");
        cache.put("d", &[0; 10]).unwrap();
        assert_eq!(cache.get("b"), None);
        assert!(cache.get("a").is_some() && cache.get("c").is_some() && cache.get("d").is_some());
    }

    #[test]
    fn the_folder_is_not_looked_through_each_time() {
        let (_folder, cache) = cache(16_000);
        cache.put("a", &[0; 10]).unwrap();
        fs::write(cache.path("of another process"), vec![0; 20_000]).unwrap();
        cache.put("b", &[0; 10]).unwrap();
        assert_eq!(cache.size().0, 3, "there was room");
        (0..30).for_each(|n| cache.put(&n.to_string(), &[0; 10]).unwrap());
        assert!(cache.size().1 <= 16_000, "but not for ever");
    }

    #[test]
    fn writers_and_readers_of_one_entry_do_not_disturb_each_other() {
        let (_folder, cache) = cache(1 << 20);
        let payload = |n: u8| vec![n; 10_000];
        std::thread::scope(|s| {
            for n in 0..4 {
                let cache = &cache;
                s.spawn(move || (0..50).for_each(|_| cache.put("k", &payload(n)).unwrap()));
                s.spawn(move || {
                    for _ in 0..50 {
                        let found = cache.get("k");
                        assert!(found.is_none_or(|f| (0..4).any(|n| f == payload(n))));
                    }
                });
            }
        });
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_not_a_panic() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = DiskCache::new(file.path().join("below-a-file"), 1000);
        assert!(cache.put("k", b"payload").is_err() && cache.fault().is_some());
        assert_eq!(cache.get("k"), None);
        assert_eq!(cache.size(), (0, 0));
    }
}
