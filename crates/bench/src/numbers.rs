//! Numbers as a person reads them.

/// Milliseconds with three digits that count.
pub fn millis(latency_us: f64) -> String {
    match latency_us / 1e3 {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

/// A rate without decimals nobody reads.
pub fn count(rate: f64) -> String {
    match rate {
        rate if rate >= 999_500.0 => format!("{:.2}M", rate / 1e6),
        rate if rate >= 99_950.0 => format!("{:.0}k", rate / 1e3),
        rate if rate >= 9_995.0 => format!("{:.1}k", rate / 1e3),
        rate if rate < 9.95 && rate.fract() != 0.0 => format!("{rate:.2}"),
        rate => format!("{rate:.0}"),
    }
}

/// Processors: two digits behind the point, three where they are few: little is not nothing.
pub fn cores(cores: f64) -> String {
    if cores < 0.1 { format!("{cores:.3}") } else { format!("{cores:.2}") }
}

/// Megabytes, or gigabytes from one of them.
pub fn mega(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e9 => format!("{:.2}G", bytes / 1e9),
        bytes => format!("{:.1}M", bytes / 1e6),
    }
}

/// The same with the unit in full, where no column names it.
pub fn megabytes(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e9 => format!("{:.2} GB", bytes / 1e9),
        bytes => format!("{:.1} MB", bytes / 1e6),
    }
}

/// A count with its thousands apart.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let texts = [0, 999, 1_000, 7_500_000].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "7,500,000"]);
    }

    #[test]
    fn a_small_rate_keeps_its_fraction_and_a_large_one_no_digits_nobody_reads() {
        let texts = [0.25, 3.0, 9.94, 10.4, 999.6, 12_345.0, 123_456.0, 2_000_000.0].map(count);
        assert_eq!(texts, ["0.25", "3", "9.94", "10", "1000", "12.3k", "123k", "2.00M"]);
    }
}
