//! Who goes first when there are not enough cores for all threads.

/// By how much a thread in the background is nicer than the others.
const BACKGROUND_NICENESS: i32 = 5;

/// Lets the other threads of the process go before the calling one whenever a core is short. There is
/// no way back for the thread. What the system refuses leaves the thread as it was.
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
