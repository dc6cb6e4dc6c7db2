//! studio_files: the files of the Studio, compressed, inside the executable.
//!
//! `studio/run build` writes them to the folder `built`, from which the build script makes [`FILES`]. On a machine
//! without Node.js there are none, and the server says how to get them (ADR 15). Not here: serving them.
#![forbid(unsafe_code)]

/// A file of the Studio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StudioFile {
    /// Its path below `/studio/`, such as `assets/index-x.js`.
    pub path: &'static str,
    /// A hash of its content, in hexadecimal digits.
    pub hash: &'static str,
    /// Its content, compressed with Brotli (RFC 7932).
    pub brotli: &'static [u8],
    /// Its content, compressed with gzip (RFC 1952).
    pub gzip: &'static [u8],
}

/// All of them; none where the server was built without the Studio.
pub static FILES: &[StudioFile] = include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// The file of a path below `/studio/`.
pub fn find(path: &str) -> Option<&'static StudioFile> {
    FILES.iter().find(|file| file.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_studio_begins_with_its_page_and_has_no_file_twice() {
        for (place, file) in FILES.iter().enumerate() {
            assert_eq!(FILES.iter().position(|other| other.path == file.path), Some(place));
            assert!(
                file.gzip.starts_with(&[0x1f, 0x8b]) && !file.brotli.is_empty(),
                "{}",
                file.path
            );
            assert!(
                file.hash.len() >= 16 && file.hash.bytes().all(|byte| byte.is_ascii_hexdigit())
            );
        }
        assert_eq!(find("index.html").is_some(), !FILES.is_empty());
        assert_eq!(find("no such file"), None);
    }
}
