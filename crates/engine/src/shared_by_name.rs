//! Values by name, each of which exists for as long as somebody uses it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// One value for each name, such as a lock for each database. All who ask for a name at the same time
/// share its value; it is forgotten once nobody has it.
#[derive(Debug)]
pub struct SharedByName<T> {
    values: Mutex<HashMap<String, Weak<T>>>,
}

impl<T> Default for SharedByName<T> {
    fn default() -> Self {
        SharedByName { values: Mutex::default() }
    }
}

impl<T> SharedByName<T> {
    /// The value of a name, made by `new` if nobody has it.
    pub fn get(&self, name: &str, new: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = values.get(name).and_then(Weak::upgrade) {
            return value;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let value = new();
        values.insert(name.to_owned(), Arc::downgrade(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shared_while_it_is_in_use() {
        let values = SharedByName::default();
        let a = values.get("a", || Arc::new(1));
        assert_eq!((*values.get("a", || Arc::new(2)), *values.get("b", || Arc::new(3))), (1, 3));
        drop(a);
        assert_eq!(*values.get("a", || Arc::new(4)), 4);
        assert_eq!(values.values.lock().unwrap().len(), 1);
    }
}
