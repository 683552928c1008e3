//! Numbers as a person reads them at a glance.

/// A count or a rate: 950, 12.5k, 2.00M.
pub(super) fn si(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.2}M", v / 1e6),
        v if v >= 1e4 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

/// A latency in milliseconds.
pub(super) fn millis(latency_us: u64) -> String {
    format!("{:.1} ms", latency_us as f64 / 1e3)
}

/// A latency with the unit that suits it.
pub(super) fn latency(latency_us: u64) -> String {
    match latency_us {
        us if us >= 10_000_000 => format!("{:.0} s", us as f64 / 1e6),
        us if us >= 1_000_000 => format!("{:.1} s", us as f64 / 1e6),
        us if us >= 10_000 => format!("{:.0} ms", us as f64 / 1e3),
        us if us >= 1_000 => format!("{:.1} ms", us as f64 / 1e3),
        us => format!("{us} us"),
    }
}

/// Bytes in decimal units.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        b => format!("{b:.0} B"),
    }
}
