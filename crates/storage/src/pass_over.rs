//! Skipping the first entries of a result, but never an error.

/// For [`Iterator::skip_while`]: passes over the first `count` entries, and stops at an error,
/// which [`Iterator::skip`] would pass over, too. Otherwise a failed read would look like an empty
/// page.
pub fn pass_over<T, E>(count: usize) -> impl FnMut(&Result<T, E>) -> bool {
    let mut left = count;
    move |entry| {
        let is_passed_over = entry.is_ok() && 0 < left;
        left -= usize::from(is_passed_over);
        is_passed_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_passed_over_and_errors_are_not() {
        let page = |entries: &[Result<u8, u8>], count| -> Vec<Result<u8, u8>> {
            entries.iter().copied().skip_while(pass_over(count)).take(2).collect()
        };
        let sound = [Ok(1), Ok(2), Ok(3)];
        assert_eq!(page(&sound, 0), [Ok(1), Ok(2)]);
        assert_eq!(page(&sound, 2), [Ok(3)]);
        assert_eq!(page(&sound, usize::MAX), []);
        let damaged = [Ok(1), Err(9), Ok(3)];
        assert_eq!(page(&damaged, 3), [Err(9), Ok(3)]);
    }
}
