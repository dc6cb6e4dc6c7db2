//! The id of a node among the voters is its tag, read as a number whose digits are the letters, with A = 1 and base 27.
//! The tag A is 1, as in clusters of one node that older builds made.

use model::NodeTag;

const BASE: u64 = 27;

/// The id of the node with this tag.
pub(crate) fn id_of(tag: NodeTag) -> u64 {
    tag.as_str().bytes().fold(0, |id, letter| id * BASE + u64::from(letter - b'A' + 1))
}

/// The tag of the node with this id; `None` if there is none.
pub(crate) fn tag_of(mut id: u64) -> Option<NodeTag> {
    let mut letters = Vec::new();
    while id != 0 {
        let letter = u8::try_from(id % BASE).ok()?.checked_sub(1)?;
        letters.insert(0, char::from(b'A' + letter));
        id /= BASE;
    }
    letters.into_iter().collect::<String>().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_ids_belong_to_each_other() {
        for (tag, id) in [("A", 1), ("Z", 26), ("AA", 28), ("ZZZZ", 26 * (1 + 27 + 729 + 19_683))] {
            assert_eq!(id_of(tag.parse().unwrap()), id);
            assert_eq!(tag_of(id).unwrap().as_str(), tag);
        }
        for id in [0, 27, 27 * 27, u64::MAX] {
            assert_eq!(tag_of(id), None, "{id}");
        }
    }
}
