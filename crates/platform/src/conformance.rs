//! What every [`Disk`] must do, as one list of checks that the tests of each implementation run.

use std::{io::ErrorKind, path::Path, sync::Arc};

use crate::disk::{Access, AlignedBuffer, Disk, File, SECTOR_BYTES};

type Check = fn(&dyn Disk, &Path);

/// Runs all checks in the directory `base`, which may or may not exist.
pub(crate) fn check(disk: &dyn Disk, base: &Path) {
    let checks: [(&str, Check); 11] = [
        ("create_and_open", create_and_open),
        ("lengths", lengths),
        ("reads_and_writes", reads_and_writes),
        ("direct_files", direct_files),
        ("listing", listing),
        ("renames_of_files", renames_of_files),
        ("renames_of_directories", renames_of_directories),
        ("removals", removals),
        ("mappings", mappings),
        ("locks", locks),
        ("whole_files", whole_files),
    ];
    for (name, run) in checks {
        let directory = base.join(name).join("inner");
        disk.create_dir_all(&directory).unwrap();
        disk.create_dir_all(&directory).unwrap();
        run(disk, &directory);
        disk.remove_dir_all(&base.join(name)).unwrap();
        assert!(!disk.exists(&directory).unwrap(), "{name}");
    }
    let space = disk.space(base).unwrap();
    assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
}

fn kind<T>(outcome: std::io::Result<T>) -> ErrorKind {
    outcome.err().expect("an error").kind()
}

fn create(disk: &dyn Disk, path: &Path, content: &[u8]) -> Arc<dyn File> {
    let file = disk.create(path, Access::Buffered).unwrap();
    file.write_all_at(content, 0).unwrap();
    file
}

fn create_and_open(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    assert_eq!(kind(disk.open(&path, Access::Buffered)), ErrorKind::NotFound);
    assert!(!disk.exists(&path).unwrap());
    let first = disk.create(&path, Access::Buffered).unwrap();
    assert!(first.is_empty().unwrap());
    assert_eq!(kind(disk.create(&path, Access::Buffered)), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.create(dir, Access::Buffered)), ErrorKind::AlreadyExists);
    assert!(disk.exists(&path).unwrap() && disk.exists(dir).unwrap());
    first.write_all_at(b"shared", 0).unwrap();
    let second = disk.open(&path, Access::Buffered).unwrap();
    let mut buffer = [0; 6];
    second.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer, b"shared");
    let orphan = dir.join("missing").join("a");
    assert_eq!(kind(disk.create(&orphan, Access::Buffered)), ErrorKind::NotFound);
    assert!(!disk.exists(&orphan).unwrap());
    disk.sync_dir(dir).unwrap();
    assert_eq!(kind(disk.sync_dir(&dir.join("missing"))), ErrorKind::NotFound);
}

fn lengths(disk: &dyn Disk, dir: &Path) {
    let file = create(disk, &dir.join("a"), &[7; 100]);
    file.set_len(10).unwrap();
    assert_eq!(file.len().unwrap(), 10);
    file.set_len(20).unwrap();
    assert_eq!(content(&*file), [[7; 10], [0; 10]].concat());
    file.allocate(15).unwrap();
    assert_eq!(file.len().unwrap(), 20, "allocating never cuts");
    file.allocate(10_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
    assert_eq!(content(&*file)[..11], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    assert!(content(&*file)[10..].iter().all(|byte| *byte == 0));
    file.allocate(0).unwrap();
    file.sync_data().unwrap();
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![1; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn reads_and_writes(disk: &dyn Disk, dir: &Path) {
    let file = create(disk, &dir.join("a"), b"0123456789");
    file.write_all_at(b"abc", 4).unwrap();
    file.write_all_at(b"end", 12).unwrap();
    file.write_all_at(b"", 100).unwrap();
    assert_eq!(content(&*file), b"0123abc789\0\0end");
    let mut buffer = [0; 4];
    file.read_exact_at(&mut buffer, 11).unwrap();
    assert_eq!(&buffer, b"\0end");
    assert_eq!(kind(file.read_exact_at(&mut buffer, 12)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(file.read_exact_at(&mut buffer, 1000)), ErrorKind::UnexpectedEof);
    file.read_exact_at(&mut [], 1000).unwrap();
}

fn direct_files(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("journal");
    let file = disk.create(&path, Access::DirectSync).unwrap();
    file.allocate(8 * SECTOR_BYTES as u64).unwrap();
    let mut buffer = AlignedBuffer::zeroed(2 * SECTOR_BYTES);
    buffer.fill(9);
    file.write_all_at(&buffer, SECTOR_BYTES as u64).unwrap();
    buffer.fill(1);
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert!(buffer[..SECTOR_BYTES].iter().all(|byte| *byte == 0));
    assert!(buffer[SECTOR_BYTES..].iter().all(|byte| *byte == 9));
    let end = 7 * SECTOR_BYTES as u64;
    assert_eq!(kind(file.read_exact_at(&mut buffer, end)), ErrorKind::UnexpectedEof);
    file.set_len(end + 100).unwrap();
    assert_eq!(kind(file.read_exact_at(&mut buffer, end)), ErrorKind::UnexpectedEof);

    let misaligned = [(0, SECTOR_BYTES, 512), (512, SECTOR_BYTES, 0), (0, 512, 0)];
    for (start, len, offset) in misaligned {
        let part = &mut buffer[start..start + len];
        assert_eq!(kind(file.write_all_at(part, offset)), ErrorKind::InvalidInput);
        assert_eq!(kind(file.read_exact_at(part, offset)), ErrorKind::InvalidInput);
    }
    let buffered = disk.open(&path, Access::Buffered).unwrap();
    assert_eq!(content(&*buffered)[SECTOR_BYTES], 9);
    buffered.write_all_at(b"odd", 3).unwrap();
    buffered.sync_data().unwrap();
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer[..7], b"\0\0\0odd\0");
}

fn listing(disk: &dyn Disk, dir: &Path) {
    assert_eq!(disk.list(dir).unwrap(), Vec::<String>::new());
    for name in ["b", "a.1", "a", "c"] {
        create(disk, &dir.join(name), b"");
    }
    disk.create_dir_all(&dir.join("d").join("e")).unwrap();
    assert_eq!(disk.list(dir).unwrap(), ["a", "a.1", "b", "c", "d"]);
    assert_eq!(disk.list(&dir.join("d")).unwrap(), ["e"]);
    assert_eq!(kind(disk.list(&dir.join("missing"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.list(&dir.join("a"))), ErrorKind::NotADirectory);
    assert!(disk.create_dir_all(&dir.join("a").join("b")).is_err());
}

fn renames_of_files(disk: &dyn Disk, dir: &Path) {
    let (a, b) = (dir.join("a"), dir.join("b"));
    let file = create(disk, &a, b"moved");
    create(disk, &b, b"replaced and longer");
    disk.rename(&a, &b).unwrap();
    assert!(!disk.exists(&a).unwrap());
    assert_eq!(disk.read_file(&b).unwrap(), b"moved");
    file.write_all_at(b"M", 0).unwrap();
    assert_eq!(disk.read_file(&b).unwrap(), b"Moved", "open files follow their rename");
    assert_eq!(kind(disk.rename(&a, &b)), ErrorKind::NotFound);
    disk.rename(&b, &b).unwrap();
    assert_eq!(kind(disk.rename(&b, &dir.join("missing").join("b"))), ErrorKind::NotFound);
    disk.create_dir_all(&a).unwrap();
    assert_eq!(kind(disk.rename(&b, &a)), ErrorKind::IsADirectory);
}

fn renames_of_directories(disk: &dyn Disk, dir: &Path) {
    let (old, new) = (dir.join("old"), dir.join("new"));
    disk.create_dir_all(&old.join("deep")).unwrap();
    create(disk, &old.join("deep").join("a"), b"inside");
    assert_eq!(kind(disk.rename(&old, &old.join("deep").join("x"))), ErrorKind::InvalidInput);
    disk.rename(&old, &new).unwrap();
    assert_eq!(disk.list(dir).unwrap(), ["new"]);
    assert_eq!(disk.read_file(&new.join("deep").join("a")).unwrap(), b"inside");
    disk.create_dir_all(&old).unwrap();
    assert_eq!(kind(disk.rename(&old, &new)), ErrorKind::DirectoryNotEmpty);
    disk.rename(&new, &old).unwrap();
    assert_eq!(disk.list(dir).unwrap(), ["old"]);
}

fn removals(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    let file = create(disk, &path, b"open");
    disk.remove_file(&path).unwrap();
    assert_eq!(kind(disk.remove_file(&path)), ErrorKind::NotFound);
    assert_eq!(content(&*file), b"open", "an open file outlives its name");
    file.write_all_at(b"OPEN", 0).unwrap();
    create(disk, &path, b"another");
    assert_eq!(content(&*file), b"OPEN");
    assert!(disk.remove_file(dir).is_err());
    disk.create_dir_all(&dir.join("b").join("c")).unwrap();
    create(disk, &dir.join("b").join("c").join("d"), b"");
    disk.remove_dir_all(&dir.join("b")).unwrap();
    disk.remove_dir_all(&dir.join("b")).unwrap();
    assert_eq!(disk.list(dir).unwrap(), ["a"]);
}

fn mappings(disk: &dyn Disk, dir: &Path) {
    let file = create(disk, &dir.join("a"), &[1; 4096]);
    let mapping = file.map(1 << 30).unwrap();
    assert_eq!(mapping.len(), 1 << 30);
    // SAFETY: here and below the ranges are inside the file, and no write happens while the slices
    // live: each is compared and dropped within its statement.
    assert_eq!(unsafe { mapping.slice(0, 4096) }, [1; 4096]);
    file.write_all_at(&[2; 10], 4090).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { mapping.slice(4089, 11) }, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    file.allocate(1 << 20).unwrap();
    file.write_all_at(b"far", 1 << 19).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { mapping.slice(1 << 19, 4) }, b"far\0");
    let second = disk.open(&dir.join("a"), Access::Buffered).unwrap().map(4096).unwrap();
    file.write_all_at(b"both", 0).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { (mapping.slice(0, 4), second.slice(0, 4)) }, (&b"both"[..], &b"both"[..]));
    drop(mapping);
    // SAFETY: as above.
    assert_eq!(unsafe { second.slice(0, 4) }, b"both");
    second.load(0, 4096).unwrap();
    second.load(100, 1).unwrap();
    file.set_len(0).unwrap();
    assert!(second.load(0, 4096).is_err(), "the file became shorter");
    assert!(file.map(0).unwrap().is_empty());
}

fn locks(disk: &dyn Disk, dir: &Path) {
    let (path, neighbour) = (dir.join("locked"), dir.join("neighbour"));
    assert_eq!(kind(disk.lock_dir(&path)), ErrorKind::NotFound);
    disk.create_dir_all(&path).unwrap();
    disk.create_dir_all(&neighbour).unwrap();
    let held = disk.lock_dir(&path).unwrap();
    assert_eq!(kind(disk.lock_dir(&path)), ErrorKind::WouldBlock);
    // There is no file in it whose removal would release the lock.
    assert!(disk.list(&path).unwrap().is_empty());
    let other = disk.lock_dir(&neighbour).unwrap();
    drop(held);
    let again = disk.lock_dir(&path).unwrap();
    assert_eq!(kind(disk.lock_dir(&path)), ErrorKind::WouldBlock);
    drop((again, other));
}

fn whole_files(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("record");
    assert_eq!(kind(disk.read_file(&path)), ErrorKind::NotFound);
    for content in [&b"first, long"[..], b"second", b""] {
        disk.write_file_atomically(&path, content).unwrap();
        assert_eq!(disk.read_file(&path).unwrap(), content);
        assert_eq!(disk.list(dir).unwrap(), ["record"]);
    }
    create(disk, &dir.join("record.new"), b"left by a crash");
    disk.write_file_atomically(&path, b"third").unwrap();
    assert_eq!(disk.read_file(&path).unwrap(), b"third");
    assert_eq!(disk.list(dir).unwrap(), ["record"]);
}
