//! Reads small files that an operator names: tokens, certificates, keys. Their size is limited, and reading never waits
//! for a writer.

use std::{
    fs::OpenOptions,
    io::{Error, ErrorKind, Read, Result},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

use crate::files::file_kind::BYTE_ORDER_MARK;

/// Largest file accepted, in bytes: enough for a hundred thousand tokens.
const MAX_BYTES: u64 = 16 * 1_024 * 1_024;

/// Reads a regular file of up to 16 MiB. Blocks for as long as its file system does.
///
/// # Errors
/// If it cannot be read, or is a pipe or a device, which might never end.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits();
    // Without this flag, opening a pipe waits for its writer.
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Reads a text file, as [`read`] does, without the byte order mark that some editors put before it.
///
/// # Errors
/// As [`read`], and when the bytes are not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let text = String::from_utf8(read(path)?);
    let text = text.map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "text").expect("writes");
        assert_eq!(read_text(&path).expect("is read"), "text");
        std::fs::write(&path, "\u{feff}text").expect("writes");
        assert_eq!(read_text(&path).expect("is read"), "text");
        let large = File::create(&path).expect("a file");
        large.set_len(MAX_BYTES + 1).expect("is set");
        assert_eq!(read(&path).expect_err("is refused").kind(), ErrorKind::FileTooLarge);
        large.set_len(MAX_BYTES).expect("is set");
        assert!(read(&path).is_ok());
        for other in ["/dev/zero", "."] {
            assert_eq!(read(Path::new(other)).expect_err("is refused").kind(), ErrorKind::InvalidInput);
        }
    }
}
