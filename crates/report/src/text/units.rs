//! Numbers for people: three digits and a unit.

/// Bytes in powers of 1024.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Multiplications and additions.
pub(super) fn flops(flops: f64) -> String {
    scaled(flops, 1000.0, &["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"])
}

/// A rate in powers of 1000.
pub(super) fn rate(rate: f64, unit: &str) -> String {
    let (digits, prefix) = scale(rate, 1000.0, &["", "k", "M", "G", "T", "P", "E"]);
    format!("{digits} {prefix}{unit}")
}

/// A count; whole up to a thousand.
pub(super) fn count(count: f64) -> String {
    if count < 1000.0 {
        return format!("{}", count.round());
    }
    let (digits, suffix) = scale(count, 1000.0, &["", "k", "M", "G", "T"]);
    format!("{digits}{suffix}")
}

/// Seconds, down to nanoseconds.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 1.0 {
        scaled(seconds * 1e9, 1000.0, &["ns", "µs", "ms", "s"])
    } else {
        format!("{} s", three(seconds))
    }
}

/// A share as a percentage.
pub(super) fn share(share: f64) -> String {
    if !share.is_finite() {
        return "-".to_owned();
    }
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 { "<0.1%".to_owned() } else { format!("{percent:.1}%") }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (digits, unit) = scale(value, step, units);
    format!("{digits} {unit}")
}

/// The value in the largest unit of which it is at least one, as far as three digits show.
fn scale<'a>(value: f64, step: f64, units: &[&'a str]) -> (String, &'a str) {
    let (mut value, mut unit) = (value, 0);
    while value >= step.min(999.5) && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if unit == 0 && value.fract() == 0.0 { format!("{value}") } else { three(value) };
    (digits, units.get(unit).copied().unwrap_or(""))
}

fn three(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1023.0), "1.00 KiB");
        assert_eq!(bytes(589_783_552.0), "562 MiB");
        assert_eq!(bytes(25_769_803_776.0), "24.0 GiB");
        assert_eq!(flops(16_045_429_567.0), "16.0 GFLOP");
        assert_eq!(flops(999_600.0), "1.00 MFLOP");
        assert_eq!(rate(197e12, "FLOP/s"), "197 TFLOP/s");
        assert_eq!(rate(819e9, "B/s"), "819 GB/s");
        assert_eq!(seconds(1.2e-6), "1.20 µs");
        assert_eq!(seconds(0.99999), "1.00 s");
        assert_eq!(seconds(75.0), "75.0 s");
        assert_eq!(count(12.0), "12");
        assert_eq!(count(9_125_568.0), "9.13M");
        assert_eq!((share(0.5), share(0.0), share(1e-5)), ("50.0%".to_owned(), "0.0%".to_owned(), "<0.1%".to_owned()));
        assert_eq!(share(f64::NAN), "-");
    }
}
