//! Suppresses the messages of panics that a drill provokes and counts.

type Hook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Sync + Send>;

/// Restores the usual messages when it is dropped.
pub(crate) struct Quiet {
    usual: Option<Hook>,
}

/// Switches messages of panics off.
pub(crate) fn silence() -> Quiet {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    Quiet { usual: Some(usual) }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(usual) = self.usual.take() {
            std::panic::set_hook(usual);
        }
    }
}
