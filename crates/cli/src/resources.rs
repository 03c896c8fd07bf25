//! What the process used.

/// The largest resident set of this process in bytes, where the system tells.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

/// Bytes of memory that a new process may have, where the system tells.
pub(crate) fn free_bytes() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:")
}

/// A line of a file of the kernel, in bytes.
fn kibibytes(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn memory_is_known_when_on_linux() {
        assert!(super::peak_rss_bytes().unwrap() > 1 << 20);
        assert!(super::free_bytes().unwrap() > 1 << 20);
    }
}
