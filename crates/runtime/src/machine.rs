//! What the machine that a program runs on has.

/// Bytes of a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineMemory {
    /// All there is.
    pub total: u64,
    /// What programs can take before the machine swaps.
    pub available: u64,
}

/// The memory of this machine, where the system says.
pub fn machine_memory() -> Option<MachineMemory> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(told: &str) -> Option<MachineMemory> {
    let bytes = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(MachineMemory { total: bytes("MemTotal")?, available: bytes("MemAvailable")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_read() {
        let told = "MemTotal:       24684236 kB\nMemFree:         1 kB\nMemAvailable:   23712340 kB\n";
        let expected = MachineMemory { total: 24_684_236 << 10, available: 23_712_340 << 10 };
        assert_eq!(parse(told), Some(expected));
        for damaged in
            ["", "MemTotal: 1 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n", "MemTotal: 1\nMemAvailable: 1 kB\n"]
        {
            assert_eq!(parse(damaged), None, "{damaged:?}");
        }
    }
}
