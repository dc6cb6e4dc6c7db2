//! What a power cut leaves of the changes that were not synced.

use std::collections::BTreeMap;

use crate::simulated::random::Random;

/// Which unsynced changes survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None: exactly what was synced is left.
    Nothing,
    /// All: the process died, the machine did not.
    Everything,
    /// The first few in the order in which they were issued; the next one may be torn.
    Prefix,
    /// Each one independently or not; writes may be torn, and a file may have grown without its
    /// bytes.
    RandomSubset,
    /// As `RandomSubset`, and sectors that were being written may hold rubbish instead of the old
    /// or the new bytes.
    Garbled,
    /// One of the above but the last, chosen at random at each cut.
    Random,
}

impl Survival {
    /// Every way in which a cut can end.
    pub const ALL: [Self; 5] =
        [Self::Nothing, Self::Everything, Self::Prefix, Self::RandomSubset, Self::Garbled];
}

/// What happens to one unsynced change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Lost,
    /// Of a write past the end of the file, only the growth survives.
    LengthOnly,
    /// Some of the sectors of a write survive.
    Torn,
    /// Some of the sectors of a write survive, some are destroyed.
    Garbled,
    Whole,
}

/// The fates of unsynced changes by their sequence number.
pub(super) type Fates = BTreeMap<u64, Fate>;

/// Decides the fate of each change; `changes` are in the order in which they were issued.
pub(super) fn decide(survival: Survival, changes: &[u64], random: &mut Random) -> Fates {
    match survival {
        Survival::Nothing => all(changes, Fate::Lost),
        Survival::Everything => all(changes, Fate::Whole),
        Survival::Prefix => prefix(changes, random),
        Survival::RandomSubset => {
            subset([Fate::Lost, Fate::LengthOnly, Fate::Torn, Fate::Whole], changes, random)
        }
        Survival::Garbled => {
            subset([Fate::Lost, Fate::Garbled, Fate::Torn, Fate::Whole], changes, random)
        }
        Survival::Random => {
            let policies = [
                Survival::Nothing,
                Survival::Everything,
                Survival::Prefix,
                Survival::RandomSubset,
                Survival::RandomSubset,
            ];
            decide(policies[random.below(policies.len() as u64) as usize], changes, random)
        }
    }
}

fn all(changes: &[u64], fate: Fate) -> Fates {
    changes.iter().map(|sequence| (*sequence, fate)).collect()
}

fn prefix(changes: &[u64], random: &mut Random) -> Fates {
    let whole = random.below(changes.len() as u64 + 1) as usize;
    let mut fates = all(changes, Fate::Lost);
    fates.extend(all(&changes[..whole], Fate::Whole));
    if let Some(sequence) = changes.get(whole)
        && random.coin()
    {
        fates.insert(*sequence, Fate::Torn);
    }
    fates
}

fn subset(fates: [Fate; 4], changes: &[u64], random: &mut Random) -> Fates {
    changes.iter().map(|sequence| (*sequence, fates[random.below(4) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_whole_then_perhaps_one_torn_then_lost() {
        let changes = [3, 5, 8, 13];
        let mut lengths = [0; 5];
        for seed in 0..200 {
            let fates = decide(Survival::Prefix, &changes, &mut Random::new(seed));
            let mut fates: Vec<Fate> = fates.into_values().collect();
            let whole = fates.iter().take_while(|fate| **fate == Fate::Whole).count();
            lengths[whole] += 1;
            fates.drain(..whole);
            assert!(fates.iter().skip(1).all(|fate| *fate == Fate::Lost), "seed {seed}");
        }
        assert!(lengths.iter().all(|count| *count > 10), "{lengths:?}");
    }

    #[test]
    fn no_change_is_left_undecided() {
        let changes: Vec<u64> = (10..20).collect();
        let policies = [
            Survival::Nothing,
            Survival::Everything,
            Survival::Prefix,
            Survival::RandomSubset,
            Survival::Random,
        ];
        for policy in policies {
            let fates = decide(policy, &changes, &mut Random::new(1));
            assert!(fates.keys().eq(&changes), "{policy:?}");
        }
    }
}
