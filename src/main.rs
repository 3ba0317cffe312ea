//! The binary: hands the command line to the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    linger::cli::run(std::env::args_os())
}
