//! Documents made up by number: the same number is the same document in every run.

use std::{fmt::Write as _, io::Write as _};

/// Different large documents; more would only measure the driver's memory.
const CITY_VARIANTS: u64 = 512;
/// More than are ever under way at once, so that no server's write holds one of them twice; few enough
/// for the processor's cache.
const PERSON_VARIANTS: u64 = 1024;
/// Different words in texts.
const WORDS: u64 = 1_500;
const SYLLABLES: [&str; 12] =
    ["ka", "lo", "mira", "ten", "vos", "bury", "san", "do", "port", "el", "gra", "heim"];

/// A document of about 300 bytes.
pub(crate) fn write_person(out: &mut Vec<u8>, number: u64) {
    write!(
        out,
        "{{\"Name\":\"{}\",\"Email\":\"person.{number}@example.com\",\"Age\":{},\"Active\":{},\
         \"Balance\":{}.{:02},\"Tags\":[\"customer\",\"{}\",\"newsletter\"],\"Address\":{{\
         \"Street\":\"{} street {}\",\"City\":\"{}\",\"Zip\":\"{:05}\",\"Country\":\"Utopia\"}},\
         \"Phone\":\"+99 30 {:07}\",\"Note\":\"calls on workdays\",\
         \"@metadata\":{{\"@collection\":\"People\"}}}}",
        Name(number),
        18 + number % 70,
        number.is_multiple_of(3),
        number % 10_000,
        number % 100,
        Name(number / 3),
        Name(number / 7),
        number % 200,
        Name(number / 11),
        number % 100_000,
        number % 10_000_000,
    )
    .expect("writing to a Vec cannot fail");
}

/// A document of about 100 bytes.
pub(crate) fn write_small(out: &mut Vec<u8>, number: u64) {
    write!(
        out,
        "{{\"Name\":\"{}\",\"Number\":{number},\"@metadata\":{{\"@collection\":\"Smalls\"}}}}",
        Name(number)
    )
    .expect("writing to a Vec cannot fail");
}

/// Customers in all orders.
pub(crate) const CUSTOMERS: u64 = 1_000;

/// A document of about 100 bytes with three fields: a name of its own, a number, some words.
pub(crate) fn write_note(out: &mut Vec<u8>, number: u64) {
    write!(out, "{{\"Name\":\"{}\",\"Number\":{number},\"Text\":\"", note_name(number))
        .expect("writing to a Vec cannot fail");
    for place in 0..4 {
        let separator = if place == 0 { "" } else { " " };
        write!(out, "{separator}{}", word(mixed(4 * number + place)))
            .expect("writing to a Vec cannot fail");
    }
    out.extend_from_slice(b"\",\"@metadata\":{\"@collection\":\"Notes\"}}");
}

/// An order of one of [`CUSTOMERS`] customers, with a total and the place where it goes.
pub(crate) fn write_order(out: &mut Vec<u8>, number: u64) {
    let chance = mixed(number);
    let (customer, total) = (chance % CUSTOMERS, (chance >> 12) % 1_000);
    let (latitude, longitude) = place(chance);
    write!(
        out,
        "{{\"Customer\":\"customers/{customer}\",\"Total\":{total},\"Lat\":{latitude:.4},\"Lng\":{longitude:.4},\
         \"@metadata\":{{\"@collection\":\"Orders\"}}}}"
    )
    .expect("writing to a Vec cannot fail");
}

/// A latitude and a longitude, spread over the part of the world where people live.
pub(crate) fn place(chance: u64) -> (f64, f64) {
    let share = |bits: u64| (bits % 10_000) as f64 / 10_000.0;
    (share(chance >> 3) * 110.0 - 50.0, share(chance >> 17) * 360.0 - 180.0)
}

/// The name in the note of that number, which no other note has.
pub(crate) fn note_name(number: u64) -> String {
    format!("{}-{number}", Name(number))
}

/// A word as they are spread in a text: the frequent ones come up for many numbers.
pub(crate) fn word(number: u64) -> impl std::fmt::Display {
    let share = (number % 1_000) as f64 / 1_000.0;
    let rank = (share * share * (WORDS as f64)) as u64;
    Name(rank + 100_000)
}

/// A number that looks like chance, for each number.
pub(crate) fn mixed(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
}

/// The name of a package in the manner of npm: `@scope/words` or words and a number.
pub(crate) fn package_name(number: u64) -> String {
    let chance = mixed(number);
    match chance % 4 {
        0 => format!("@{}/{}-{number}", word(chance >> 2), word(chance >> 12)),
        1 => format!("{}{number}", word(chance >> 2)),
        _ => format!("{}-{}-{number}", word(chance >> 2), word(chance >> 12)),
    }
}

/// A document of 90 to 900 KB: a name, a number, and many lines that no index looks at.
pub(crate) fn write_large(out: &mut Vec<u8>, number: u64) {
    let end = out.len() + 90_000 + (mixed(number) % 800_000) as usize;
    write!(out, "{{\"Name\":\"{}\",\"Number\":{number},\"Lines\":[", note_name(number))
        .expect("writing to a Vec cannot fail");
    let mut line = 0;
    while out.len() < end {
        let separator = if line == 0 { "" } else { "," };
        let chance = mixed(number ^ (line << 24));
        write!(
            out,
            "{separator}{{\"Product\":\"products/{}\",\"Name\":\"{}\",\"Quantity\":{},\
             \"Price\":{}.{:02}}}",
            chance % 5_000,
            Name(chance),
            chance % 40,
            chance % 900,
            chance % 100,
        )
        .expect("writing to a Vec cannot fail");
        line += 1;
    }
    out.extend_from_slice(b"],\"@metadata\":{\"@collection\":\"Notes\"}}");
}

/// A document with one text of 300 KB that no index looks at.
pub(crate) fn write_with_text(out: &mut Vec<u8>, number: u64) {
    write!(out, "{{\"Name\":\"{}\",\"Number\":{number},\"Body\":\"", note_name(number))
        .expect("writing to a Vec cannot fail");
    let end = out.len() + 300_000;
    let mut place = 0;
    while out.len() < end {
        write!(out, "{} ", Name(mixed(number ^ (place << 24))))
            .expect("writing to a Vec cannot fail");
        place += 1;
    }
    out.extend_from_slice(b"\",\"@metadata\":{\"@collection\":\"Notes\"}}");
}

/// Bytes that do not compress.
pub(crate) fn incompressible(length: usize) -> Vec<u8> {
    /// Of [`mixed`]: its highest bits are zero.
    const RANDOM_BYTES: usize = 5;
    let words = 0..length.div_ceil(RANDOM_BYTES) as u64;
    let bytes = words.flat_map(|number| mixed(number).to_le_bytes().into_iter().take(RANDOM_BYTES));
    bytes.take(length).collect()
}

/// A document of about 1 KB that hardly compresses.
pub(crate) fn write_noise(out: &mut Vec<u8>, number: u64) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    out.extend_from_slice(b"{\"Noise\":\"");
    let mut state = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for _ in 0..100 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend((0..10).map(|digit| DIGITS[(state >> (6 * digit)) as usize % 64]));
    }
    out.extend_from_slice(b"\",\"@metadata\":{\"@collection\":\"Noises\"}}");
}

/// Documents rendered beforehand, so that writing one is a copy.
pub(crate) struct Rendered(Vec<Vec<u8>>);

impl Rendered {
    /// Documents of about 1 KB in the manner of a gazetteer.
    pub(crate) fn cities() -> Self {
        Self((0..CITY_VARIANTS).map(render_city).collect())
    }

    /// Documents of about 300 bytes.
    pub(crate) fn people() -> Self {
        let render = |number| {
            let mut out = Vec::new();
            write_person(&mut out, number);
            out
        };
        Self((0..PERSON_VARIANTS).map(render).collect())
    }

    /// The document of that number; after all variants they begin again.
    pub(crate) fn document(&self, number: u64) -> &[u8] {
        &self.0[(number % self.0.len() as u64) as usize]
    }
}

fn render_city(number: u64) -> Vec<u8> {
    let mut names = String::new();
    for variant in 0..22 {
        let separator = if variant == 0 { "" } else { "," };
        write!(names, "{separator}\"{}\"", Name(number.wrapping_mul(31) + variant * 7_919))
            .expect("writing to a String cannot fail");
    }
    let name = Name(number + 5_000);
    let mut out = Vec::new();
    write!(
        out,
        "{{\"Name\":\"{name}\",\"AsciiName\":\"{name}\",\"AlternateNames\":[{names}],\
         \"Location\":{{\"Latitude\":{}.{:05},\"Longitude\":-{}.{:05}}},\"FeatureClass\":\"P\",\
         \"FeatureCode\":\"PPL\",\"CountryCode\":\"UT\",\"Administration\":{{\"First\":\"{}\",\
         \"Second\":\"{}\",\"Third\":null,\"Fourth\":null}},\"Population\":{},\"Elevation\":{},\
         \"DigitalElevationModel\":{},\"TimeZone\":\"Utopia/{name}\",\"ModifiedOn\":\"20{:02}-03-17\",\
         \"Description\":\"{}\",\"@metadata\":{{\"@collection\":\"Cities\"}}}}",
        number % 90,
        number * 197 % 100_000,
        number % 180,
        number * 389 % 100_000,
        Name(number / 5),
        Name(number / 2),
        number * 7_919 % 9_000_000,
        number % 3_000,
        number % 3_100,
        number % 25,
        "A town on a river between two hills, known for its market and its bridge. ".repeat(4),
    )
    .expect("writing to a Vec cannot fail");
    out
}

/// A name by number.
struct Name(u64);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        for _ in 0..3 {
            f.write_str(SYLLABLES[(rest % 12) as usize])?;
            rest /= 12;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], sizes: std::ops::Range<usize>) {
        let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert!(value["@metadata"]["@collection"].is_string());
        assert!(sizes.contains(&bytes.len()), "{} bytes", bytes.len());
    }

    #[test]
    fn documents_are_json_of_about_the_size_that_their_work_names() {
        let cities = Rendered::cities();
        for number in [0, 1, 99, 512, 100_000, 123_456_789] {
            let mut out = Vec::new();
            write_person(&mut out, number);
            check(&out, 260..360);
            out.clear();
            write_small(&mut out, number);
            check(&out, 60..110);
            check(cities.document(number), 950..1_150);
            out.clear();
            write_noise(&mut out, number);
            check(&out, 1_000..1_100);
            out.clear();
            write_note(&mut out, number);
            check(&out, 85..170);
            out.clear();
            write_large(&mut out, number);
            check(&out, 90_000..900_000);
            out.clear();
            write_with_text(&mut out, number);
            check(&out, 300_000..301_000);
        }
    }
}
