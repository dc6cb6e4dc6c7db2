//! Corvus's storage, with a thread that flushes when the environment requests it.

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
};

use platform::Platform;
use storage::{Environment, EnvironmentOptions, Transaction, TreeName};

use super::{DurableStep, Engine, EngineError, Found};
use crate::entries::{Entry, Key};

enum Wish {
    Flush,
    Stop,
}

struct Corvus {
    environment: Arc<Environment>,
    tree: TreeName,
    wishes: Sender<Wish>,
    flusher: Option<JoinHandle<()>>,
}

pub(super) fn open(directory: &Path) -> Result<Box<dyn Engine>, EngineError> {
    let options = EnvironmentOptions::new(directory);
    let environment = Environment::open(&Platform::real(), options)?;
    let (wishes, received) = mpsc::channel();
    let flush_wishes = wishes.clone();
    environment.on_flush_wanted(move || {
        let _stopped = flush_wishes.send(Wish::Flush);
    });
    let flushed = environment.clone();
    let flusher = Some(thread::spawn(move || flush_when_wished(&flushed, &received)));
    let tree = TreeName::from("entries");
    Ok(Box::new(Corvus { environment, tree, wishes, flusher }))
}

fn flush_when_wished(environment: &Environment, wishes: &Receiver<Wish>) {
    while let Ok(Wish::Flush) = wishes.recv() {
        if let Err(error) = environment.keep_up() {
            eprintln!("corvus: flush: {error}");
        }
    }
}

/// The directory is removed after this, so nothing may write into it any more.
impl Drop for Corvus {
    fn drop(&mut self) {
        let _ended = self.wishes.send(Wish::Stop);
        if let Some(flusher) = self.flusher.take() {
            let _panicked = flusher.join();
        }
    }
}

impl Engine for Corvus {
    fn apply(&self, entries: &[Entry<'_>]) -> Result<DurableStep<'_>, EngineError> {
        let mut transaction = self.environment.write()?;
        let mut tree = transaction.tree_mut(&self.tree)?;
        for entry in entries {
            tree.put(&entry.key, entry.value)?;
        }
        let sealed = transaction.seal()?;
        Ok(Box::new(move || Ok(sealed.make_durable()?)))
    }

    fn find(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<Found, EngineError> {
        let transaction = self.environment.read();
        let tree = transaction.tree(&self.tree)?;
        let mut found = Found::default();
        for key in keys {
            found.add(tree.get(&key)?);
        }
        Ok(found)
    }
}
