//! The tags of a segment's entries.
//!
//! ```text
//! tags                     u16; 0 when no entry has a tag, and nothing follows
//! each tag                 length, one byte · text
//! which tag an entry has   packed numbers; 0 for none
//! ```

use std::collections::HashMap;

use crate::{
    Entries,
    bytes::{Damaged, damaged, take, take_byte, take_u16},
    packed::{pack, unpack},
};

pub(crate) fn write<'a>(tags: impl Iterator<Item = Option<&'a str>>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0, 0]);
    let (mut known, mut chosen) = (HashMap::new(), Vec::new());
    for tag in tags {
        let Some(tag) = tag else {
            chosen.push(0);
            continue;
        };
        let next = known.len() as i64 + 1;
        chosen.push(*known.entry(tag).or_insert_with(|| {
            out.push(tag.len() as u8);
            out.extend_from_slice(tag.as_bytes());
            next
        }));
    }
    if known.is_empty() {
        return;
    }
    out[start..start + 2].copy_from_slice(&(known.len() as u16).to_le_bytes());
    pack(&chosen, out);
}

/// Takes the tags of `count` entries from the front of `bytes`.
pub(crate) fn read(
    bytes: &mut &[u8],
    count: usize,
    into: &mut Entries,
    numbers: &mut Vec<i64>,
) -> Result<(), Damaged> {
    let tags = take_u16(bytes)?;
    if tags == 0 {
        into.push_no_tags(count);
        return Ok(());
    }
    if count < usize::from(tags) {
        return Err(damaged("it has more tags than entries"));
    }
    let mut texts = Vec::with_capacity(usize::from(tags));
    for _ in 0..tags {
        let length = usize::from(take_byte(bytes)?);
        let text = std::str::from_utf8(take(bytes, length)?);
        texts.push(into.add_tag(text.map_err(|_| damaged("a tag is not UTF-8"))?));
    }
    unpack(bytes, count, numbers)?;
    for number in numbers {
        let text = match usize::try_from(*number) {
            Ok(0) => None,
            Ok(number) => Some(*texts.get(number - 1).ok_or(damaged("a tag is unknown"))?),
            Err(_) => return Err(damaged("a tag is unknown")),
        };
        into.push_tag(text);
    }
    Ok(())
}
