//! What the process used.

/// The largest resident set of this process in bytes, where the system tells.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn peak_rss_is_known_when_on_linux() {
        assert!(super::peak_rss_bytes().unwrap() > 1 << 20);
    }
}
