//! Giving memory back to the system.

/// Returns the pages of the heap that nothing lives on any more. The allocator keeps them by
/// itself, so that a process that shrank looks as large as it ever was. It walks the whole heap:
/// for rare moments only. Does nothing on systems whose allocator has no such call.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the C library has no safe face for it")]
        // SAFETY: malloc_trim takes the allocator's own locks and touches only free memory; it
        // has no precondition (malloc_trim(3)).
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_env = "gnu")]
    fn what_lies_free_between_living_memory_goes_back() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
        };
        // Every hundredth piece lives on, so that the heap cannot shrink at its end.
        let pieces: Vec<Vec<u8>> = (0..16_000).map(|_| vec![1; 4000]).collect();
        let full = resident();
        let living: Vec<_> = pieces.into_iter().step_by(100).collect();
        super::trim();
        assert!(resident() < full / 2, "{} of {full} pages", resident());
        assert_eq!(living.len(), 160);
    }
}
