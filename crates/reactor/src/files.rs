//! The limit on open files.

/// Files that the process may have open: the soft limit.
pub(crate) fn files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |files| files.try_into().unwrap_or(usize::MAX))
}

/// From this file number on, [`crate::Backend::Auto`] leaves the rest of the table to rings,
/// listeners and whatever else the process opens. The system gives the lowest free number, so a
/// high one says how full the table is.
pub(crate) fn files_spill() -> i32 {
    let max = files_max();
    i32::try_from(max - (max / 4).min(1024)).unwrap_or(i32::MAX)
}
