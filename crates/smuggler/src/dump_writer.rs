//! Writes the frame of a dump: its names, brackets and commas. What is in it the caller writes.
//!
//! The text is appended to a buffer that the caller empties whenever it likes.

use crate::section::Section;

/// The frame of a dump that is being written.
#[derive(Debug, Default)]
pub struct DumpWriter {
    has_elements: bool,
    elements: u64,
}

impl DumpWriter {
    /// Begins a dump of a server of that build.
    pub fn begin(build_version: u64, out: &mut Vec<u8>) -> DumpWriter {
        out.extend_from_slice(format!("{{\"BuildVersion\":{build_version}").as_bytes());
        DumpWriter::default()
    }

    /// Begins a property, whose value the caller appends.
    pub fn value(&mut self, name: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
    }

    /// Begins a section, which [`DumpWriter::end_section`] ends.
    pub fn begin_section(&mut self, section: Section, out: &mut Vec<u8>) {
        self.value(section.name(), out);
        out.push(b'[');
        self.has_elements = false;
    }

    /// Separates the next element from the one before; the caller appends it, and raw bytes that belong to it.
    pub fn begin_element(&mut self, out: &mut Vec<u8>) {
        self.elements += 1;
        if std::mem::replace(&mut self.has_elements, true) {
            out.push(b',');
        }
    }

    /// How many elements were begun.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Ends a section.
    pub fn end_section(&mut self, out: &mut Vec<u8>) {
        out.push(b']');
    }

    /// Ends the dump.
    pub fn end(self, out: &mut Vec<u8>) {
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_separated_in_each_section() {
        let mut out = Vec::new();
        let mut writer = DumpWriter::begin(54000, &mut out);
        for (section, elements) in [(Section::Documents, 2), (Section::Indexes, 0)] {
            writer.begin_section(section, &mut out);
            for _ in 0..elements {
                writer.begin_element(&mut out);
                out.extend_from_slice(b"{}");
            }
            writer.end_section(&mut out);
        }
        writer.value("Other", &mut out);
        out.extend_from_slice(b"1");
        writer.end(&mut out);
        assert_eq!(out, br#"{"BuildVersion":54000,"Docs":[{},{}],"Indexes":[],"Other":1}"#);
    }
}
