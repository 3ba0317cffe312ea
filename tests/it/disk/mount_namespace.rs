//! File systems for one test, in a mount namespace. The namespace and its loop devices end with this process, however
//! it ends. Needs root.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::harness::process::{Server, linger_under};

/// A mount namespace. Its mounts are visible from outside only through `/proc` of the process that keeps it open.
pub struct MountNamespace {
    keeper: Child,
    directory: tempfile::TempDir,
}

impl MountNamespace {
    /// Opens a namespace, or returns why that is impossible here.
    pub fn open() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting needs root".to_owned());
        }
        // In memory if possible: a hundred power cuts should not wear out a disk, and are faster there.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let directory = directory.map_err(|error| error.to_string())?;
        // The keeper ends with its input, so it ends with this process.
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", "echo open; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let stdout = keeper.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let namespace = Self { keeper, directory };
        if line == "open\n" { Ok(namespace) } else { Err("no mount namespace could be made".to_owned()) }
    }

    /// Runs a shell script in the namespace's directory. Returns its output, or its errors.
    pub fn run(&self, script: &str) -> Result<String, String> {
        let [pid, directory] = [self.keeper.id().to_string(), self.directory.path().display().to_string()];
        let script = format!("set -e; cd {directory}; {script}");
        let output = Command::new("nsenter")
            .args(["--target", &pid, "--mount", "sh", "-c", &script])
            .output()
            .map_err(|error| format!("nsenter: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("{script}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }

    /// Runs a script that must succeed.
    pub fn run_ok(&self, script: &str) -> String {
        self.run(script).unwrap_or_else(|why| panic!("{why}"))
    }

    /// A path of the namespace as this process reaches it.
    pub fn path(&self, inside: &str) -> PathBuf {
        let directory = self.directory.path().strip_prefix("/").expect("is absolute");
        Path::new("/proc").join(self.keeper.id().to_string()).join("root").join(directory).join(inside)
    }

    /// Clones a file on a file system that shares blocks: a snapshot of all its bytes at one moment.
    pub fn clone_file(&self, from: &str, to: &str) {
        let from = File::open(self.path(from)).expect("is there");
        let to = File::create(self.path(to)).expect("can be made");
        rustix::fs::ioctl_ficlone(to, from).expect("the file system shares blocks");
    }

    /// A command line of `linger` on `data`, a directory of the namespace.
    pub fn linger(&self, arguments: &[&str], data: &str) -> Command {
        let pid = self.keeper.id().to_string();
        let data = self.directory.path().join(data).display().to_string();
        let arguments = [arguments, &["--data-dir", &data]].concat();
        let wrapper = ["nsenter", "--target", &pid, "--mount", "--"];
        linger_under(&wrapper, &arguments, self.directory.path())
    }

    /// The command line of a server on `data`, a directory of the namespace.
    pub fn server(&self, data: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = self.linger(&["serve", "--listen", "127.0.0.1:0"], data);
        command.envs(variables.iter().copied());
        command
    }

    /// Starts a server on `data`, a directory of the namespace.
    pub fn serve(&self, data: &str, variables: &[(&str, &str)]) -> Server {
        Server::spawn(self.server(data, variables))
    }
}

impl Drop for MountNamespace {
    fn drop(&mut self) {
        // The mounts end with the last process in the namespace. A server that a test has not dropped keeps them.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
