//! The bindings of names at a place of the definition.

use std::rc::Rc;

use crate::compile::plan::{Known, Slot};

/// What a variable is bound to.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    /// A value in a slot.
    Slot { slot: Slot, known: Known },
    /// An anonymous object that is never built: its properties are bound one by one.
    Members(Rc<Vec<(String, Binding)>>),
}

impl Binding {
    /// What the property `name` is bound to.
    pub(crate) fn member(&self, name: &str) -> Option<&Binding> {
        match self {
            Binding::Slot { .. } => None,
            Binding::Members(members) => {
                members.iter().find(|(own, _)| own == name).map(|(_, binding)| binding)
            }
        }
    }

    /// Adds the slots that it reads.
    pub(crate) fn add_slots(&self, slots: &mut Vec<Slot>) {
        match self {
            Binding::Slot { slot, .. } => slots.push(*slot),
            Binding::Members(members) => {
                members.iter().for_each(|(_, binding)| binding.add_slots(slots));
            }
        }
    }
}

/// The variables in scope, innermost last.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    variables: Vec<(String, Binding)>,
}

impl Scope {
    /// A mark to return to with [`Scope::leave`].
    pub(crate) fn enter(&self) -> usize {
        self.variables.len()
    }

    pub(crate) fn leave(&mut self, mark: usize) {
        self.variables.truncate(mark);
    }

    /// Forgets what was declared since `mark`, as `into` does, and returns it.
    pub(crate) fn declare(&mut self, name: &str, binding: Binding) {
        self.variables.push((name.to_owned(), binding));
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Binding> {
        self.variables.iter().rev().find(|(own, _)| own == name).map(|(_, binding)| binding)
    }

    /// The slots of all variables in scope.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.variables.iter().for_each(|(_, binding)| binding.add_slots(&mut slots));
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The names in scope, for suggestions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }
}
