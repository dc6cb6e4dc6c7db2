//! The keys of encrypted databases: one for each, encrypted with the master key in the file `keys` of the data
//! directory. See docs/internals/keys.md.
//!
//! ```text
//! Corvus keys 1
//! base64 of the name, in lower case · space · base64 of the wrapped key        (a line for each)
//! ```
//!
//! The master key is read whenever it is needed and not kept. It is in the file that `Security.MasterKey.Path` names, or
//! what the program of `Security.MasterKey.Exec` writes, or else in `master.key` in the data directory, which is made with
//! the first key.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use model::{base64_bytes, base64_text, lower_case};
use platform::{
    Exposure, Platform,
    program::{Program, ProgramError},
    wiping_allocator::WipesFreedMemory,
};
use security::{SECRET_KEY_BYTES, SecretKey, WRAPPING_NONCE_BYTES};
use settings::{MasterKeySource, ProgramSettings};
use storage::EncryptionKey;

const KEYS_FILE: &str = "keys";
const MASTER_KEY_FILE: &str = "master.key";
const FIRST_LINE: &str = "Corvus keys 1";
/// A master key in base64 with white space around it, as a program writes it.
const MASTER_KEY_TEXT_BYTES_MAX: usize = 4096;

/// Why a key cannot be stored or read.
#[derive(Debug)]
pub enum KeyError {
    /// There is one, and it was not to be replaced.
    Exists {
        /// The name that it is stored under.
        name: String,
    },
    /// There is none.
    Missing {
        /// The name that it should be stored under.
        name: String,
    },
    /// A database is encrypted with it.
    InUse {
        /// The name of the database.
        name: String,
    },
    /// The key that is to replace the present one is the present one.
    Same {
        /// The name that it is stored under.
        name: String,
    },
    /// The bytes are no key.
    Invalid,
    /// The file of the master key contains something else, or others may read it.
    MasterKey {
        /// The file.
        path: PathBuf,
        /// What is wrong, as the end of a sentence that begins with the file.
        reason: &'static str,
    },
    /// The program that writes the master key failed.
    Program(ProgramError),
    /// It wrote something else.
    ProgramOutput {
        /// The program.
        path: PathBuf,
    },
    /// The file of keys is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The stored key cannot be decrypted: the master key is another one, or the file was changed.
    Undecryptable {
        /// The name that it is stored under.
        name: String,
    },
    /// A file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        source: io::Error,
    },
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyError::Exists { name } => write!(
                f,
                "There is a key for '{name}' already, and replacing it would make what is encrypted with it \
                 unreadable. If nothing is, send it to /admin/secrets/distribute with overwrite=true"
            ),
            KeyError::Missing { name } => write!(
                f,
                "There is no key for the encrypted database '{name}'. Send one to \
                 /admin/secrets/distribute?name={name} first; /admin/secrets/generate makes one"
            ),
            KeyError::InUse { name } => {
                write!(
                    f,
                    "The database '{name}' is encrypted with the present key, which must stay"
                )
            }
            KeyError::Same { name } => write!(
                f,
                "The key that is to replace that of the database '{name}' is the same one"
            ),
            KeyError::Invalid => {
                write!(f, "A key is {SECRET_KEY_BYTES} bytes, as base64 in the body of the request")
            }
            KeyError::MasterKey { path, reason } => {
                write!(f, "The master key in {} {reason}", path.display())
            }
            KeyError::Program(error) => {
                write!(f, "Security.MasterKey.Exec yields no key: {error}")
            }
            KeyError::ProgramOutput { path } => write!(
                f,
                "What the program '{}' of Security.MasterKey.Exec writes is no key: {SECRET_KEY_BYTES} bytes, or their \
                 base64, are expected",
                path.display()
            ),
            KeyError::Damaged { path } => write!(f, "{} is damaged", path.display()),
            KeyError::Undecryptable { name } => write!(
                f,
                "The key of the database '{name}' cannot be decrypted: the master key is not the one that it was \
                 stored with"
            ),
            KeyError::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            KeyError::Io { source, .. } => Some(source),
            KeyError::Program(error) => Some(error),
            _ => None,
        }
    }
}

type Wrapped = BTreeMap<String, Vec<u8>>;

/// What a key has replaced.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplacedKey {
    /// There was none.
    Nothing,
    /// The same one was there.
    Same,
    /// Another one, which is kept under this name.
    Former(String),
}

/// The store of keys.
pub struct EncryptionKeys {
    platform: Platform,
    file: PathBuf,
    master_key: MasterKeySource,
    /// The file of the master key where it is made.
    made_master_key: PathBuf,
    changing: Mutex<()>,
    /// Set once there were keys in requests or responses.
    wipes: OnceLock<WipesFreedMemory>,
}

impl EncryptionKeys {
    /// The store of a data directory. Nothing is read or written yet.
    pub fn new(
        platform: &Platform,
        data_directory: &Path,
        master_key: MasterKeySource,
    ) -> EncryptionKeys {
        EncryptionKeys {
            platform: platform.clone(),
            file: data_directory.join(KEYS_FILE),
            master_key,
            made_master_key: data_directory.join(MASTER_KEY_FILE),
            changing: Mutex::default(),
            wipes: OnceLock::new(),
        }
    }

    /// From now on, memory is zeroed when it is freed: there are keys in it.
    pub fn handle_secrets(&self) {
        self.wipes.get_or_init(WipesFreedMemory::begin);
    }

    /// The names that keys are stored under, in lower case.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn names(&self) -> Result<Vec<String>, KeyError> {
        Ok(self.read()?.into_keys().collect())
    }

    /// Stores a key under a name.
    ///
    /// # Errors
    /// There is one and `overwrites` is false; none of the present keys can be decrypted with the master key
    /// ([`KeyError::Undecryptable`]); the files cannot be read or written.
    pub fn store(&self, name: &str, key: &SecretKey, overwrites: bool) -> Result<(), KeyError> {
        self.handle_secrets();
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let name = lower_case(name).into_owned();
        let mut keys = self.read()?;
        if keys.contains_key(&name) && !overwrites {
            return Err(KeyError::Exists { name });
        }
        let master = self.master_key(keys.is_empty())?;
        // With another master key than that of the server, it could not read the key.
        let is_master_of = |(name, wrapped): (&String, &Vec<u8>)| {
            SecretKey::unwrap_with(&master, name, wrapped).is_some()
        };
        if let Some((known, _)) = keys.first_key_value()
            && !keys.iter().any(is_master_of)
        {
            return Err(KeyError::Undecryptable { name: known.clone() });
        }
        let mut nonce = [0; WRAPPING_NONCE_BYTES];
        self.platform.entropy.fill(&mut nonce);
        let wrapped = key.wrapped(&master, &name, nonce);
        keys.insert(name, wrapped);
        self.write(&keys)
    }

    /// Stores a key under a name. Another one that is there stays under a name of its own, `<name> (former <number>)`: files
    /// may need it. What was replaced is returned for [`EncryptionKeys::put_back`].
    ///
    /// # Errors
    /// The present key cannot be decrypted, which may be the fault of the master key alone; those of
    /// [`EncryptionKeys::store`].
    pub fn replace(&self, name: &str, key: &SecretKey) -> Result<ReplacedKey, KeyError> {
        let former = match self.secret(name) {
            Ok(former) if *former.0 == *key.0 => return Ok(ReplacedKey::Same),
            Ok(former) => former,
            Err(KeyError::Missing { .. }) => {
                self.store(name, key, false)?;
                return Ok(ReplacedKey::Nothing);
            }
            Err(error) => return Err(error),
        };
        let known = self.names()?;
        let is_free = |name: &String| !known.contains(&lower_case(name).into_owned());
        let free = (1..).map(|number| format!("{name} (former {number})")).find(is_free);
        let free = free.expect("numbers do not end");
        // The former one is stored first: there is no moment at which it could be lost.
        self.store(&free, &former, false)?;
        self.store(name, key, true)?;
        Ok(ReplacedKey::Former(free))
    }

    /// Takes a replacement back.
    ///
    /// # Errors
    /// The files cannot be read or written; a former key stays under its own name then.
    pub fn put_back(&self, name: &str, replaced: ReplacedKey) -> Result<(), KeyError> {
        match replaced {
            ReplacedKey::Same => Ok(()),
            ReplacedKey::Nothing => self.remove(name),
            ReplacedKey::Former(kept) => {
                self.store(name, &self.secret(&kept)?, true)?;
                self.remove(&kept)
            }
        }
    }

    /// Removes a key for good, if there is one.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, name: &str) -> Result<(), KeyError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keys = self.read()?;
        match keys.remove(&*lower_case(name)) {
            Some(_) => self.write(&keys),
            None => Ok(()),
        }
    }

    /// Whether there is a key of that name that can be decrypted.
    ///
    /// # Errors
    /// There is none ([`KeyError::Missing`]), or it cannot be read.
    pub fn check(&self, name: &str) -> Result<(), KeyError> {
        self.secret(name).map(drop)
    }

    /// The key of a database.
    ///
    /// # Errors
    /// As [`EncryptionKeys::check`]; the kernel has no room for it.
    pub fn key_of(&self, name: &str) -> Result<EncryptionKey, KeyError> {
        let mut secret = self.secret(name)?;
        EncryptionKey::take(&mut secret.0).map_err(|source| self.failed(source))
    }

    /// The bytes of a key, for its owner.
    ///
    /// # Errors
    /// As [`EncryptionKeys::check`].
    pub fn secret(&self, name: &str) -> Result<SecretKey, KeyError> {
        self.handle_secrets();
        let name = lower_case(name).into_owned();
        let keys = self.read()?;
        let Some(wrapped) = keys.get(&name) else { return Err(KeyError::Missing { name }) };
        let master = self.master_key(false)?;
        SecretKey::unwrap_with(&master, &name, wrapped).ok_or(KeyError::Undecryptable { name })
    }

    fn failed(&self, source: io::Error) -> KeyError {
        KeyError::Io { path: self.file.clone(), source }
    }

    /// The master key, which is made if it is missing, `makes`, and this is how there is to be one.
    fn master_key(&self, makes: bool) -> Result<SecretKey, KeyError> {
        match &self.master_key {
            MasterKeySource::Made => self.master_key_in(&self.made_master_key, makes),
            MasterKeySource::File(path) => self.master_key_in(path, false),
            MasterKeySource::Program(program) => master_key_of(program),
        }
    }

    fn master_key_in(&self, path: &Path, makes: bool) -> Result<SecretKey, KeyError> {
        let (disk, path) = (&*self.platform.disk, path.to_path_buf());
        let failed = |source| KeyError::Io { path: path.clone(), source };
        if makes && !disk.exists(&path).map_err(failed)? {
            let mut key = SecretKey::zeroed();
            self.platform.entropy.fill(&mut key.0[..]);
            disk.write_file_atomically(&path, &key.0[..]).map_err(failed)?;
            tracing::warn!(
                path = %path.display(),
                "a master key was made; anyone who has the data directory has it, too. Set Security.MasterKey.Path to \
                 a file on another disk"
            );
            return Ok(key);
        }
        let refused = |reason| KeyError::MasterKey { path: path.clone(), reason };
        match disk.exposure(&path).map_err(failed)? {
            Exposure::Private => {}
            Exposure::OpenToOthers | Exposure::WritableByAll => {
                return Err(refused(
                    "can be read by others; make the file readable by its owner alone",
                ));
            }
            Exposure::OwnedByAnother { .. } => {
                return Err(refused("is in a file of another user"));
            }
        }
        let mut text = disk.read_file(&path).map_err(failed)?;
        SecretKey::read(&mut text)
            .ok_or_else(|| refused("is not one: 32 bytes, or their base64, are expected"))
    }

    fn read(&self) -> Result<Wrapped, KeyError> {
        let disk = &*self.platform.disk;
        if !disk.exists(&self.file).map_err(|error| self.failed(error))? {
            return Ok(Wrapped::new());
        }
        let bytes = disk.read_file(&self.file).map_err(|error| self.failed(error))?;
        let damaged = || KeyError::Damaged { path: self.file.clone() };
        let mut lines = std::str::from_utf8(&bytes).map_err(|_| damaged())?.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(damaged());
        }
        let key = |line: &str| {
            let (name, wrapped) = line.split_once(' ')?;
            let name = String::from_utf8(base64_bytes(name)?).ok()?;
            Some((name, base64_bytes(wrapped)?))
        };
        lines.map(|line| key(line).ok_or_else(damaged)).collect()
    }

    fn write(&self, keys: &Wrapped) -> Result<(), KeyError> {
        let mut text = format!("{FIRST_LINE}\n");
        for (name, wrapped) in keys {
            text.push_str(&format!("{} {}\n", base64_text(name.as_bytes()), base64_text(wrapped)));
        }
        let written = self.platform.disk.write_file_atomically(&self.file, text.as_bytes());
        written.map_err(|error| self.failed(error))
    }
}

fn master_key_of(program: &ProgramSettings) -> Result<SecretKey, KeyError> {
    let ProgramSettings { path, arguments, time_max } = program.clone();
    let written = Program { path: path.clone(), arguments, time_max };
    let mut text = written.output(MASTER_KEY_TEXT_BYTES_MAX).map_err(KeyError::Program)?;
    SecretKey::read(&mut text).ok_or(KeyError::ProgramOutput { path })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use platform::simulated::Simulation;

    use super::*;

    fn store(simulation: &Simulation) -> EncryptionKeys {
        let platform = simulation.platform.clone();
        platform.disk.create_dir_all("/data".as_ref()).unwrap();
        EncryptionKeys::new(&platform, "/data".as_ref(), MasterKeySource::Made)
    }

    fn secret(byte: u8) -> SecretKey {
        SecretKey(Box::new([byte; SECRET_KEY_BYTES]))
    }

    #[test]
    fn keys_are_stored_encrypted_and_read_back_by_name() {
        let simulation = Platform::simulated(1);
        let keys = store(&simulation);
        keys.store("Orders", &secret(7), false).unwrap();
        keys.store("shop", &secret(8), false).unwrap();
        assert_eq!(store(&simulation).names().unwrap(), ["orders", "shop"]);
        assert_eq!(*keys.secret("ORDERS").unwrap().0, [7; SECRET_KEY_BYTES]);
        assert!(keys.key_of("shop").is_ok());
        let stored = simulation.disk.file_bytes("/data/keys".as_ref()).unwrap();
        let text = String::from_utf8(stored).unwrap();
        assert!(!text.contains(base64_text(&[7; SECRET_KEY_BYTES]).trim_end_matches('=')));
        let error = keys.store("orders", &secret(9), false).unwrap_err();
        assert!(matches!(error, KeyError::Exists { .. }), "{error}");
        keys.store("orders", &secret(9), true).unwrap();
        assert_eq!(*keys.secret("orders").unwrap().0, [9; SECRET_KEY_BYTES]);
        keys.remove("Orders").unwrap();
        assert!(matches!(keys.check("orders"), Err(KeyError::Missing { .. })));
        assert_eq!(keys.names().unwrap(), ["shop"]);
    }

    #[test]
    fn a_key_that_is_replaced_stays_under_a_name_of_its_own() {
        let simulation = Platform::simulated(1);
        let keys = store(&simulation);
        let of = |name: &str| keys.secret(name).map(|key| key.0[0]).ok();
        assert_eq!(keys.replace("Vault", &secret(1)).unwrap(), ReplacedKey::Nothing);
        assert_eq!(keys.replace("vault", &secret(1)).unwrap(), ReplacedKey::Same);
        let second = keys.replace("vault", &secret(2)).unwrap();
        assert_eq!(second, ReplacedKey::Former("vault (former 1)".to_owned()));
        let third = keys.replace("vault", &secret(3)).unwrap();
        let kept = ["vault (former 1)", "vault (former 2)", "vault"].map(of);
        assert_eq!(kept, [Some(1), Some(2), Some(3)]);
        keys.put_back("vault", third).unwrap();
        assert_eq!(["vault", "vault (former 2)"].map(of), [Some(2), None]);
        keys.put_back("vault", second).unwrap();
        keys.put_back("vault", ReplacedKey::Same).unwrap();
        assert_eq!((of("vault"), keys.names().unwrap().len()), (Some(1), 1));
        keys.put_back("vault", ReplacedKey::Nothing).unwrap();
        assert_eq!(of("vault"), None);
        keys.store("vault", &secret(1), false).unwrap();
        let another = Path::new("/data/master.key");
        simulation.platform.disk.write_file_atomically(another, &[9; 32]).unwrap();
        let error = keys.replace("vault", &secret(2)).unwrap_err();
        assert!(matches!(error, KeyError::Undecryptable { .. }), "{error}");
        let error = keys.store("vault", &secret(2), true).unwrap_err();
        assert!(matches!(error, KeyError::Undecryptable { .. }), "{error}");
    }

    #[test]
    fn a_program_writes_the_master_key() {
        let simulation = Platform::simulated(3);
        let with = |script: &str| {
            let arguments = ["-c", script].map(str::to_owned).to_vec();
            let time_max = Duration::from_millis(500);
            let program = ProgramSettings { path: "/bin/sh".into(), arguments, time_max };
            let (platform, source) = (&simulation.platform, MasterKeySource::Program(program));
            EncryptionKeys::new(platform, "/data".as_ref(), source)
        };
        simulation.platform.disk.create_dir_all("/data".as_ref()).unwrap();
        let base64 = format!("echo {}", base64_text(&[5; SECRET_KEY_BYTES]));
        with(&base64).store("orders", &secret(7), false).unwrap();
        assert!(!simulation.platform.disk.exists("/data/master.key".as_ref()).unwrap());
        let raw = "printf '%32s' '' | tr ' ' '\\005'";
        assert_eq!(*with(raw).secret("orders").unwrap().0, [7; SECRET_KEY_BYTES]);
        for (script, expected) in [
            ("echo no", "is no key"),
            ("exit 0", "is no key"),
            ("echo 'vault is sealed' >&2; exit 2", "failed (exit status: 2): vault is sealed"),
            ("sleep 100", "took longer than 0.5 seconds"),
            ("cat /dev/zero", "wrote more than 4096 bytes"),
            ("printf '%32s' x", "the master key is not the one"),
        ] {
            let error = with(script).check("orders").unwrap_err().to_string();
            assert!(error.contains(expected), "{script}: {error}");
        }
    }

    #[test]
    fn another_master_key_or_a_changed_file_is_noticed() {
        let simulation = Platform::simulated(2);
        let keys = store(&simulation);
        keys.store("orders", &secret(7), false).unwrap();
        let platform = &simulation.platform;
        let (master, file) = (&keys.made_master_key, &keys.file);
        let own = platform.disk.read_file(master).unwrap();
        platform.disk.write_file_atomically(master, &[1; SECRET_KEY_BYTES]).unwrap();
        assert!(matches!(keys.check("orders"), Err(KeyError::Undecryptable { .. })));
        let error = keys.store("shop", &secret(8), false).unwrap_err();
        assert!(matches!(error, KeyError::Undecryptable { .. }), "the server could not read it");
        platform.disk.write_file_atomically(master, b"too short").unwrap();
        assert!(matches!(keys.check("orders"), Err(KeyError::MasterKey { .. })));
        platform.disk.remove_file(master).unwrap();
        assert!(matches!(keys.check("orders"), Err(KeyError::Io { .. })));
        let error = keys.store("shop", &secret(8), false).unwrap_err();
        assert!(matches!(error, KeyError::Io { .. }), "no second master key is made: {error}");
        platform.disk.write_file_atomically(master, &own).unwrap();
        keys.check("orders").unwrap();
        for damage in ["Corvus keys 2\n", "Corvus keys 1\nno-pair\n", "Corvus keys 1\n! !\n"] {
            platform.disk.write_file_atomically(file, damage.as_bytes()).unwrap();
            assert!(matches!(keys.names(), Err(KeyError::Damaged { .. })), "{damage}");
        }
    }
}
