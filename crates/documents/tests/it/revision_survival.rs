//! Revisions through power cuts, salvage and compaction.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use documents::{
    DatabaseIdentity, DocumentError, DocumentWriter, ExpectedVersion, RequestedId, WriteContext,
};
use model::{DatabaseId, DocumentId, NodeTag, RevisionsConfiguration};
use platform::{
    Platform,
    simulated::{Random, Simulation, Survival},
};
use storage::{Environment, EnvironmentOptions, ReadTransaction, Salvage};

use crate::{
    database::{body, user},
    revision_histories::content_of,
    revisions::rule,
};

const STEPS: u64 = 40;
const IDENTITY: DatabaseIdentity =
    DatabaseIdentity { database_id: DatabaseId([0; 16]), node_tag: NodeTag::A };

/// What is there, without the times, which differ between two runs.
fn shown(tx: &ReadTransaction) -> String {
    tx.check().unwrap();
    documents::check(tx).unwrap();
    format!("{:?}", content_of(tx).without_times())
}

fn open(simulation: &Simulation) -> Result<Arc<Environment>, DocumentError> {
    let mut options = EnvironmentOptions::new("/source");
    options.journal_bytes_max = 256 * 1024;
    let environment = Environment::open(&simulation.platform, options)?;
    let mut tx = environment.write()?;
    documents::initialize(&mut tx, IDENTITY)?;
    tx.commit()?;
    Ok(environment)
}

/// One transaction that puts or deletes one of a few documents.
fn step(
    platform: &Platform,
    environment: &Arc<Environment>,
    random: &mut Random,
) -> Result<(), DocumentError> {
    let configuration = RevisionsConfiguration::new(Some(rule(Some(3))));
    let (number, is_deletion) = (random.below(4), random.below(5) == 0);
    let text = "filling ".repeat(random.below(800) as usize);
    let mut tx = environment.write()?;
    let plain = WriteContext::new(platform.clock.now(), &*platform.entropy);
    let context = WriteContext { revisions: &configuration, ..plain };
    let mut writer = DocumentWriter::open(&mut tx, context)?;
    let id = DocumentId::new(format!("u/{number}"))?;
    if is_deletion {
        writer.delete(&id, &ExpectedVersion::Any)?;
    } else {
        writer.put(&RequestedId::Exactly(id), &ExpectedVersion::Any, &body(&user(&text)))?;
    }
    writer.finish()?;
    tx.commit()?;
    if random.below(8) == 0 {
        environment.flush()?;
    }
    Ok(())
}

#[test]
fn a_version_and_its_revision_survive_a_power_cut_together() {
    let simulation = Platform::simulated(7);
    let environment = open(&simulation).unwrap();
    let mut random = Random::new(7);
    let mut expected = vec![shown(&environment.read())];
    for _ in 0..STEPS {
        step(&simulation.platform, &environment, &mut random).unwrap();
        expected.push(shown(&environment.read()));
    }
    let survivals = [Survival::Nothing, Survival::Garbled, Survival::Everything, Survival::Prefix];
    for nth in 1..120 {
        let simulation = Platform::simulated(7);
        let environment = open(&simulation).unwrap();
        let survival = survivals[nth as usize % survivals.len()];
        simulation.disk.cut_power_at_operation(nth, survival);
        let mut random = Random::new(7);
        let mut acknowledged = 0;
        while acknowledged < STEPS as usize
            && step(&simulation.platform, &environment, &mut random).is_ok()
        {
            acknowledged += 1;
        }
        drop(environment);
        simulation.disk.restart().unwrap();
        let found = shown(&open(&simulation).unwrap().read());
        // The transaction of the cut may have reached the disk; and a flush may be what was cut.
        let possible = &expected[acknowledged..expected.len().min(acknowledged + 2)];
        assert!(possible.contains(&found), "operation {nth}, after {acknowledged} steps");
    }
}

#[test]
fn a_sound_database_is_salvaged_and_compacted_with_all_its_revisions() {
    let simulation = Platform::simulated(8);
    let environment = open(&simulation).unwrap();
    let mut random = Random::new(8);
    for _ in 0..STEPS {
        step(&simulation.platform, &environment, &mut random).unwrap();
    }
    let expected = shown(&environment.read());
    let platform = &simulation.platform;
    let compacted = Environment::open(platform, EnvironmentOptions::new("/compacted")).unwrap();
    let mut go_on = |_: &_| ControlFlow::Continue(());
    storage::compact(&environment.read(), &compacted, documents::TABLES, &mut go_on).unwrap();
    assert_eq!(shown(&compacted.read()), expected);
    let options = environment.options().clone();
    environment.flush().unwrap();
    drop(environment);
    let mut salvage = Salvage::open(platform, &options, Path::new("/salvaged")).unwrap();
    let report = documents::salvage(&mut salvage, IDENTITY).unwrap();
    salvage.publish().unwrap();
    let salvaged = Environment::open(platform, EnvironmentOptions::new("/salvaged")).unwrap();
    let total = documents::revisions_total(&salvaged.read()).unwrap();
    assert_eq!((report.revisions, report.lost_revisions), (total, 0));
    assert!(0 < total);
    assert_eq!(shown(&salvaged.read()), expected);
}
