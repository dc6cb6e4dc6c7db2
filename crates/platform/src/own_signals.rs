//! Which signals this process was started to ignore, as `nohup` does with the end of its terminal.

/// The signal that reports the loss of the terminal.
pub const HANGUP: u32 = 1;

/// Whether the signal of this number is ignored. False where the system does not report it.
pub fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, signal)
}

/// The mask is in hexadecimal digits; the lowest bit is signal 1.
fn ignores(status: &str, signal: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    signal.checked_sub(1).and_then(|bit| mask.checked_shr(bit)).is_some_and(|bits| bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_read_by_its_bits() {
        let table = [
            ("Name:\tx\nSigIgn:\t0000000000000001\n", HANGUP, true),
            ("SigIgn:\t0000000000001000\n", HANGUP, false),
            ("SigIgn:\t0000000000001000\n", 13, true),
            ("SigIgn:\tffffffffffffffff\n", 0, false),
            ("SigIgn:\tffffffffffffffff\n", 64, true),
            ("SigIgn:\tffffffffffffffff\n", 65, false),
            ("SigIgn:\tx\n", HANGUP, false),
            ("", HANGUP, false),
        ];
        for (status, signal, expected) in table {
            assert_eq!(ignores(status, signal), expected, "{status:?} {signal}");
        }
    }
}
