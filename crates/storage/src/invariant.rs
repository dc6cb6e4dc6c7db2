//! Statements that hold unless Corvus has a bug or its memory is damaged.

/// Returns [`crate::Corruption::Contradiction`] from the function unless the condition holds. It is checked in
/// every build: going on after a contradiction could write wrong data, and an error closes the write path or
/// fails the one transaction instead. For places where what was computed meets what is stored; what clients send
/// and what is read from disk have errors of their own.
///
/// The function's error type converts from [`crate::StorageError`].
#[macro_export]
macro_rules! invariant {
    ($condition:expr, $what:literal $(,)?) => {
        if !$condition {
            let (file, line) = (file!(), line!());
            let contradiction = $crate::Corruption::Contradiction { what: $what, file, line };
            return Err($crate::StorageError::from(contradiction).into());
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::StorageError;

    fn halve(number: u64) -> Result<u64, StorageError> {
        invariant!(number.is_multiple_of(2), "only even numbers are halved");
        Ok(number / 2)
    }

    #[test]
    fn a_contradiction_is_an_error_that_names_its_place() {
        assert_eq!(halve(8).unwrap(), 4);
        let message = halve(7).unwrap_err().to_string();
        assert!(message.contains("only even numbers are halved"), "{message}");
        assert!(message.contains("invariant.rs:"), "{message}");
    }
}
