//! Which threads run first when there are not enough cores for all.

/// The niceness added to background threads.
const BACKGROUND_NICENESS: i32 = 5;

/// Lowers the priority of the calling thread below the other threads of the process. This cannot be
/// undone. If the system refuses, the priority stays as it was.
pub fn step_back() {
    let _refused = rustix::process::nice(BACKGROUND_NICENESS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_steps_back() {
        let niceness = || rustix::process::getpriority_process(None).expect("a thread has one");
        let before = niceness();
        let inside = std::thread::spawn(move || {
            step_back();
            niceness()
        });
        assert_eq!(inside.join().expect("it ends"), before + BACKGROUND_NICENESS);
        assert_eq!(niceness(), before);
    }
}
