//! libfaketime, which sets the clock of a single program.
//!
//! It is preloaded. Its own command would refuse to start a program when a killed one with the same process id has left its
//! shared memory behind.

use std::{fs, path::PathBuf};

/// Debian's libfaketime, in the variant for programs with threads.
pub fn library() -> PathBuf {
    let folders =
        fs::read_dir("/usr/lib").expect("the directory exists").map(|entry| entry.expect("reads").path());
    let mut found =
        folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).filter(|file| file.exists());
    found.next().expect("libfaketime is missing; install it with scripts/test")
}
