//! The sources of settings and their precedence: compiled-in defaults, one file, the environment, flags. It knows keys
//! and sources, not the meaning of values.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use config::{ConfigError, Environment, File, FileFormat, Map, Source, Value, ValueKind};

use super::fault::ConfigFault;
use crate::messages::printable;

/// The defaults as TOML, with the documentation of every key.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Prefix and separator have two underscores, because Kubernetes sets variables such as `LINGER_PORT=tcp://...` if there
/// is a service of that name.
pub(super) const PREFIX: &str = "LINGER__";

/// Searched in this order if no file is named. Only the first one that exists is read.
pub const USUAL_FILES: [&str; 2] = ["linger.toml", "/etc/linger/linger.toml"];

/// A setting given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag, such as `--listen`.
    pub name: &'static str,
    /// The key that it sets, such as `server.listen`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// All sources of settings, so that tests need neither a working directory nor a process environment of their own.
#[derive(Clone, Default)]
pub struct Sources {
    /// The one file to read, if any.
    pub file: Option<PathBuf>,
    /// Variables of the environment; those without the prefix are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Settings on the command line.
    pub flags: Vec<Flag>,
}

impl Sources {
    /// Describes the sources other than the defaults: one line each for the file, the variables and the flags, without
    /// values.
    #[must_use]
    pub fn describe(&self) -> String {
        let file = self.file.as_ref().map_or_else(
            || format!("none (there is neither {})", USUAL_FILES.join(" nor ")),
            |file| printable::escape_line(&file.display().to_string()).into_owned(),
        );
        let names = self.environment.iter().filter_map(|(name, _)| name.to_str());
        let mut variables: Vec<&str> = names.filter(|name| name.starts_with(PREFIX)).collect();
        variables.sort_unstable();
        let mut flags: Vec<&str> = self.flags.iter().map(|flag| flag.name).collect();
        flags.dedup();
        let listed = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let variables = listed(&variables);
        let variables = printable::escape_line(&variables);
        format!("file         {file}\nenvironment  {variables}\nflags        {}\n", listed(&flags))
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment and the flags may contain secrets.
        f.debug_struct("Sources").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The layers, merged.
pub(super) struct Layers {
    /// The defaults alone: they define the known keys and replace invalid values.
    pub defaults: Value,
    /// The settings in force.
    pub effective: Value,
}

impl Layers {
    /// Reads every source. A source that cannot be read is recorded in `faults` and left out.
    pub fn read(sources: &Sources, faults: &mut Vec<ConfigFault>) -> Self {
        let defaults = File::from_str(DEFAULTS, FileFormat::Toml);
        let known = built(&[Box::new(defaults.clone())]).expect("the compiled-in defaults are TOML");
        let mut layers: Vec<Layer> = vec![Box::new(defaults)];
        let upper = [file(sources, faults), environment(sources, faults), Some(flags(sources))];
        for layer in upper.into_iter().flatten() {
            // Each layer is checked alone, so that a higher layer does not hide a mistake in a lower one.
            let alone = built(std::slice::from_ref(&layer)).expect("every layer is in memory");
            check_keys(&alone, &known, faults);
            layers.push(layer);
        }
        let effective = built(&layers).expect("every layer is in memory");
        Self { defaults: known, effective }
    }
}

type Layer = Box<dyn Source + Send + Sync>;

fn built(layers: &[Layer]) -> Result<Value, ConfigError> {
    Ok(config::Config::builder().add_source(layers.to_vec()).build()?.cache)
}

fn file(sources: &Sources, faults: &mut Vec<ConfigFault>) -> Option<Layer> {
    let path = sources.file.as_deref()?;
    let mut refuse = |problem: String| {
        faults.push(ConfigFault { key: String::new(), source: path.display().to_string(), problem });
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            refuse(format!("cannot be read: {error}"));
            return None;
        }
    };
    match Parsed::read(path, &text) {
        Ok(parsed) => Some(Box::new(parsed)),
        Err(error) => {
            refuse(format!("is not TOML: {}", without_excerpt(&error)));
            None
        }
    }
}

/// The parser's message without the line that it quotes, which may contain a secret.
fn without_excerpt(error: &ConfigError) -> String {
    let ConfigError::FileParse { cause, .. } = error else {
        return error.to_string();
    };
    let text = cause.to_string();
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains('|')).map(str::trim).collect();
    kept.join(": ").replace("TOML parse error ", "")
}

fn environment(sources: &Sources, faults: &mut Vec<ConfigFault>) -> Option<Layer> {
    let mut texts = Map::new();
    for (name, value) in &sources.environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        match value.to_str() {
            Some(value) => {
                texts.insert(name.to_owned(), value.to_owned());
            }
            None => faults.push(ConfigFault {
                key: String::new(),
                source: format!("environment variable {name}"),
                problem: "is not UTF-8 text".to_owned(),
            }),
        }
    }
    // Not `try_parsing`: it would turn the secret 0123 into 123. Values are parsed by the type of their key.
    let environment = Environment::with_prefix(PREFIX.trim_end_matches('_'))
        .prefix_separator("__")
        .separator("__")
        .source(Some(texts));
    Some(Box::new(environment))
}

fn flags(sources: &Sources) -> Layer {
    let values = sources.flags.iter().map(|flag| {
        let origin = format!("flag {}", flag.name);
        (flag.key.to_owned(), Value::new(Some(&origin), flag.value.clone()))
    });
    Box::new(Parsed(values.collect()))
}

/// Values in memory.
#[derive(Debug, Clone)]
struct Parsed(Map<String, Value>);

impl Parsed {
    fn read(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let values = File::from_str(text, FileFormat::Toml).collect()?;
        let origin = path.display().to_string();
        Ok(Self(values.into_iter().map(|(key, value)| (key, with_origin(value, &origin))).collect()))
    }
}

impl Source for Parsed {
    fn clone_into_box(&self) -> Layer {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

/// Sets the origin of a value and of everything in it.
fn with_origin(value: Value, origin: &String) -> Value {
    match value.kind {
        ValueKind::Table(table) => {
            let table: Map<String, Value> =
                table.into_iter().map(|(key, value)| (key, with_origin(value, origin))).collect();
            Value::new(Some(origin), table)
        }
        kind => Value::new(Some(origin), kind),
    }
}

/// Describes the source of a value of `key`.
pub(super) fn source_of(key: &str, value: &Value) -> String {
    match value.origin() {
        None => "default".to_owned(),
        Some("the environment") => {
            format!("environment variable {PREFIX}{}", key.to_uppercase().replace('.', "__"))
        }
        Some(origin) => origin.to_owned(),
    }
}

/// Refuses unknown keys: a misspelt key must not be ignored.
fn check_keys(layer: &Value, known: &Value, faults: &mut Vec<ConfigFault>) {
    let mut found: Vec<ConfigFault> = Vec::new();
    for (key, value) in leaves(layer) {
        let problem = match find(known, &key).map(|value| &value.kind) {
            Some(ValueKind::Table(_)) => "is a section, not a key".to_owned(),
            Some(_) => continue,
            None => unknown_key(&key, known),
        };
        found.push(ConfigFault { source: source_of(&key, value), key, problem });
    }
    found.sort_by(|one, other| one.key.cmp(&other.key));
    faults.append(&mut found);
}

fn unknown_key(key: &str, known: &Value) -> String {
    let nearest = leaves(known)
        .into_iter()
        .map(|(candidate, _)| (strsim::damerau_levenshtein(key, &candidate), candidate))
        .min()
        .filter(|(distance, _)| *distance <= 3.max(key.len() / 4));
    match nearest {
        Some((_, candidate)) => format!("is not a known key; did you mean {candidate}?"),
        None => "is not a known key; `linger config default` lists them all".to_owned(),
    }
}

/// All values other than tables, by dotted key.
pub(super) fn leaves(tree: &Value) -> Vec<(String, &Value)> {
    fn walk<'a>(prefix: &str, value: &'a Value, found: &mut Vec<(String, &'a Value)>) {
        match &value.kind {
            ValueKind::Table(table) => {
                for (key, value) in table {
                    let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(&key, value, found);
                }
            }
            _ => found.push((prefix.to_owned(), value)),
        }
    }
    let mut found = Vec::new();
    walk("", tree, &mut found);
    found
}

/// The value at a dotted key.
pub(super) fn find<'a>(tree: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(tree, |value, part| match &value.kind {
        ValueKind::Table(table) => table.get(part),
        _ => None,
    })
}

/// The file to read: `named`, or else the one named by the variable `LINGER_CONFIG`, or else the first of [`USUAL_FILES`]
/// that exists. A file that may exist but cannot be examined is chosen too, so that reading it reports the fault.
#[must_use]
pub fn choose_file(named: Option<PathBuf>, variable: Option<OsString>) -> Option<PathBuf> {
    let from_variable = || variable.filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(from_variable).or_else(|| {
        USUAL_FILES.iter().map(PathBuf::from).find(|path| !matches!(path.try_exists(), Ok(false)))
    })
}
