//! Reads typed values from the layers. A fault is collected and replaced by the default, so that one run finds every
//! fault.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use config::{Value, ValueKind};

use super::{
    fault::ConfigFault,
    layers::{Layers, Sources, find, source_of},
    secret::Secret,
    values::{self, ValueProblem},
};

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

/// The compiled-in defaults alone. Parsed once: tests need them thousands of times.
static DEFAULT_LAYERS: LazyLock<Layers> =
    LazyLock::new(|| Layers::read(&Sources::default(), &mut Vec::new()));

/// Reads a section of the compiled-in defaults.
pub(super) fn read_defaults<T>(read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
    read(&mut Reader::new(&DEFAULT_LAYERS, &mut Vec::new()))
}

/// Reads the values in force, by key.
pub(super) struct Reader<'a> {
    layers: &'a Layers,
    faults: &'a mut Vec<ConfigFault>,
    /// Every key that was read: a test compares them with the documented keys.
    keys_read: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    pub fn new(layers: &'a Layers, faults: &'a mut Vec<ConfigFault>) -> Self {
        Self { layers, faults, keys_read: Vec::new() }
    }

    /// The keys read so far.
    #[cfg(test)]
    pub fn keys_read(&self) -> &[&'static str] {
        &self.keys_read
    }

    /// Reads `key` with `parse`. If that fails, records a fault and returns the default.
    pub fn get<T>(&mut self, key: &'static str, parse: impl Fn(&ValueKind) -> Result<T, ValueProblem>) -> T {
        self.keys_read.push(key);
        let default = find(&self.layers.defaults, key).expect("every key that is read has a default");
        match parse(&self.value(key).kind) {
            Ok(value) => value,
            Err(problem) => {
                self.refuse(key, problem);
                parse(&default.kind).expect("the compiled-in defaults are valid")
            }
        }
    }

    /// Records a fault of the value of `key`.
    pub fn refuse(&mut self, key: &str, problem: impl Into<String>) {
        let source = source_of(key, self.value(key));
        self.faults.push(ConfigFault { key: key.to_owned(), source, problem: problem.into() });
    }

    /// Whether a source other than the defaults sets `key`.
    pub fn is_set(&self, key: &str) -> bool {
        self.value(key).origin().is_some()
    }

    /// Whether the value of `key` is this text.
    pub fn is_text(&self, key: &str, text: &str) -> bool {
        matches!(&self.value(key).kind, ValueKind::String(found) if found == text)
    }

    /// Whether the value of `key` is the default, even if a source sets it.
    pub fn is_default(&self, key: &str) -> bool {
        find(&self.layers.defaults, key).is_some_and(|default| default.kind == self.value(key).kind)
    }

    pub fn address(&mut self, key: &'static str) -> SocketAddr {
        self.get(key, values::address)
    }

    /// An address; `None` if it is empty.
    pub fn optional_address(&mut self, key: &'static str) -> Option<SocketAddr> {
        self.get(key, values::optional_address)
    }

    pub fn path(&mut self, key: &'static str) -> PathBuf {
        self.get(key, values::path)
    }

    pub fn host_names(&mut self, key: &'static str) -> Vec<String> {
        self.get(key, values::host_names)
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.get(key, values::optional_text)
    }

    pub fn flag(&mut self, key: &'static str) -> bool {
        self.get(key, values::flag)
    }

    /// The name of a file; `None` if it is empty.
    pub fn optional_file(&mut self, key: &'static str) -> Option<PathBuf> {
        self.get(key, values::optional_file)
    }

    pub fn duration(&mut self, key: &'static str, min: Duration, max: Duration) -> Duration {
        self.get(key, |kind| values::duration(kind, min, max))
    }

    pub fn count<T: TryFrom<u64>>(&mut self, key: &'static str, min: u64, max: u64) -> T {
        let count = self.get(key, |kind| values::count(kind, min, max));
        T::try_from(count).ok().expect("the range of the key fits its type")
    }

    pub fn size<T: TryFrom<u64>>(&mut self, key: &'static str, min: u64, max: u64) -> T {
        let size = self.get(key, |kind| values::size(kind, min, max));
        T::try_from(size).ok().expect("the range of the key fits its type")
    }

    pub fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> T {
        self.get(key, |kind| values::choice(kind, choices))
    }

    /// Reads a secret from `key` or from the file that `file_key` names, but not from both.
    pub fn secret(&mut self, key: &'static str, file_key: &'static str) -> Option<Secret> {
        let direct = self.text(key);
        let Some(path) = self.optional_file(file_key) else { return direct.map(Secret::new) };
        if direct.is_some() {
            self.refuse(file_key, format!("and {key} are both set; leave one of them out"));
            return None;
        }
        match read_secret(&path) {
            Ok(secret) => Some(secret),
            Err(problem) => {
                self.refuse(file_key, problem);
                None
            }
        }
    }

    fn value(&self, key: &str) -> &'a Value {
        let layers = self.layers;
        // Type conflicts between layers are reported already; fall back to the default.
        find(&layers.effective, key)
            .filter(|value| !matches!(value.kind, ValueKind::Table(_)))
            .or_else(|| find(&layers.defaults, key))
            .expect("every key that is read has a default")
    }
}

/// Reads a secret from a file. The error does not quote the path, since an operator may have set the secret in its
/// place.
fn read_secret(path: &Path) -> Result<Secret, ValueProblem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("names a file that cannot be read: {error}"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err("names a file that is empty".to_owned());
    }
    Ok(Secret::new(text.to_owned()))
}
