//! What plugins read in the environment while they are loaded.

use std::fs;
use std::path::Path;

/// Where libtpu looks for who it is; without a TPU it asks, again and again, for minutes.
const ASKS_NOBODY: &str = "TPU_SKIP_MDS_QUERY";
/// Google's number on the PCI bus.
const GOOGLE: &str = "0x1ae0";

/// From which level on XLA tells things on standard error. It would tell what options it was given.
const LOG_LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";

/// Says what the plugin that is about to be loaded from `path` reads, unless it is said already. libtpu is told not to ask
/// Google Cloud's metadata server about a machine without TPUs: its own error comes at once then.
pub(super) fn prepare(path: &Path) {
    set_unless_set(LOG_LEVEL);
    let is_libtpu = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libtpu"));
    if is_libtpu && !has_tpu(Path::new("/")) {
        set_unless_set(ASKS_NOBODY);
    }
}

/// Sets a variable to 1, unless it says something already.
fn set_unless_set(name: &str) {
    if std::env::var_os(name).is_none() {
        // SAFETY: as for `os.environ` in Python: the library that reads it is not there yet, and `std` locks its readers out.
        unsafe { std::env::set_var(name, "1") };
    }
}

/// Whether the machine whose files are under `root` has a TPU: as a device file of either driver's, or on the PCI bus.
fn has_tpu(root: &Path) -> bool {
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let is_numbered = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
    let is_googles = |device: String| {
        let vendor = root.join("sys/bus/pci/devices").join(device).join("vendor");
        fs::read_to_string(vendor).is_ok_and(|vendor| vendor.trim() == GOOGLE)
    };
    names("dev").any(|name| name.strip_prefix("accel").is_some_and(|n| !n.is_empty() && is_numbered(n)))
        || names("dev/accel").any(|name| name.starts_with("accel"))
        || names("dev/vfio").any(|name| is_numbered(&name))
        || names("sys/bus/pci/devices").any(is_googles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        root
    }

    #[test]
    fn tpus_are_found_by_their_device_files_and_on_the_bus() {
        let none =
            [("dev/accelerometer", ""), ("dev/vfio/vfio", ""), ("sys/bus/pci/devices/0000:00:03.0/vendor", "0x8086\n")];
        assert!(!has_tpu(machine(&none).path()));
        assert!(!has_tpu(machine(&[]).path()));
        for tpu in ["dev/accel0", "dev/accel/accel3", "dev/vfio/0"] {
            assert!(has_tpu(machine(&[(tpu, "")]).path()), "{tpu}");
        }
        assert!(has_tpu(machine(&[("sys/bus/pci/devices/0000:00:04.0/vendor", "0x1ae0\n")]).path()));
    }
}
