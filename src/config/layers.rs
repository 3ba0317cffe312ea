//! Where settings come from, and how the layers lie on each other: compiled-in defaults, one file,
//! the environment, flags. It knows keys and sources, not what a value means.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use config::{ConfigError, Environment, File, FileFormat, Map, Source, Value, ValueKind};

use super::fault::Fault;
use crate::printable;

/// The defaults as TOML, which also document every key.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Prefix and separator are doubled, because Kubernetes injects variables such as
/// `LINGER_PORT=tcp://...` beside a service of that name.
pub(super) const PREFIX: &str = "LINGER__";

/// Looked for in this order when no file is named; the first that is there is the only one read.
pub const USUAL_FILES: [&str; 2] = ["linger.toml", "/etc/linger/linger.toml"];

/// A setting given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as the user wrote it, such as `--listen`.
    pub name: &'static str,
    /// The key that it sets, such as `server.listen`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// Everything that settings are read from, so that tests need neither a working directory nor a
/// process environment of their own.
#[derive(Clone, Default)]
pub struct Sources {
    /// The one file to read, if any.
    pub file: Option<PathBuf>,
    /// Variables of the environment; those without the prefix are passed over.
    pub environment: Vec<(OsString, OsString)>,
    /// Settings of the command line.
    pub flags: Vec<Flag>,
}

impl Sources {
    /// What the settings are read from besides the defaults: one line each for the file, the variables and the flags,
    /// without values.
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
        // The environment and the flags may carry secrets.
        f.debug_struct("Sources").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The layers laid on each other.
pub(super) struct Layers {
    /// Defaults alone, for what is known and as a stand-in for what is at fault.
    pub defaults: Value,
    /// What is in force.
    pub effective: Value,
}

impl Layers {
    /// Reads every source. Faults go to `faults`, and their layer is left out.
    pub fn read(sources: &Sources, faults: &mut Vec<Fault>) -> Self {
        let defaults = File::from_str(DEFAULTS, FileFormat::Toml);
        let known = built(&[Box::new(defaults.clone())]).expect("the compiled-in defaults are TOML");
        let mut layers: Vec<Layer> = vec![Box::new(defaults)];
        let upper = [file(sources, faults), environment(sources, faults), Some(flags(sources))];
        for layer in upper.into_iter().flatten() {
            // Each layer is looked at alone: a mistake in a lower one is not hidden by a higher one.
            let alone = built(std::slice::from_ref(&layer)).expect("was read before or is in memory");
            faults_of_keys(&alone, &known, faults);
            layers.push(layer);
        }
        let effective = built(&layers).expect("was read before or is in memory");
        Self { defaults: known, effective }
    }
}

type Layer = Box<dyn Source + Send + Sync>;

fn built(layers: &[Layer]) -> Result<Value, ConfigError> {
    Ok(config::Config::builder().add_source(layers.to_vec()).build()?.cache)
}

fn file(sources: &Sources, faults: &mut Vec<Fault>) -> Option<Layer> {
    let path = sources.file.as_deref()?;
    let mut refuse = |problem: String| {
        faults.push(Fault { key: String::new(), source: path.display().to_string(), problem });
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

/// The parser's message without the line that it quotes, which may hold a secret.
fn without_excerpt(error: &ConfigError) -> String {
    let ConfigError::FileParse { cause, .. } = error else {
        return error.to_string();
    };
    let text = cause.to_string();
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains('|')).map(str::trim).collect();
    kept.join(": ").replace("TOML parse error ", "")
}

fn environment(sources: &Sources, faults: &mut Vec<Fault>) -> Option<Layer> {
    let mut texts = Map::new();
    for (name, value) in &sources.environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        match value.to_str() {
            Some(value) => {
                texts.insert(name.to_owned(), value.to_owned());
            }
            None => faults.push(Fault {
                key: String::new(),
                source: format!("environment variable {name}"),
                problem: "is not UTF-8 text".to_owned(),
            }),
        }
    }
    // Not `try_parsing`: it would turn the secret 0123 into 123. Texts are read by their key's type.
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

/// Values that are in memory already.
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

/// The same value, all its leaves naming `origin`.
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

/// Where a value of `key` comes from, in words.
pub(super) fn source_of(key: &str, value: &Value) -> String {
    match value.origin() {
        None => "default".to_owned(),
        Some("the environment") => {
            format!("environment variable {PREFIX}{}", key.to_uppercase().replace('.', "__"))
        }
        Some(origin) => origin.to_owned(),
    }
}

/// Refuses what the defaults do not have: a key with a typing mistake must not be passed over.
fn faults_of_keys(layer: &Value, known: &Value, faults: &mut Vec<Fault>) {
    let mut found: Vec<Fault> = Vec::new();
    for (key, value) in leaves(layer) {
        let problem = match find(known, &key).map(|value| &value.kind) {
            Some(ValueKind::Table(_)) => "is a section, not a key".to_owned(),
            Some(_) => continue,
            None => unknown(&key, known),
        };
        found.push(Fault { source: source_of(&key, value), key, problem });
    }
    found.sort_by(|one, other| one.key.cmp(&other.key));
    faults.append(&mut found);
}

fn unknown(key: &str, known: &Value) -> String {
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

/// Every value that is no table, by its dotted key. An empty table of an unknown name counts too.
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

/// The file to read: `named`, or else the one that the variable `LINGER_CONFIG` names, or else the first of
/// [`USUAL_FILES`] that exists. One that exists but cannot be examined is chosen too, so that reading it names the
/// fault.
#[must_use]
pub fn choose_file(named: Option<PathBuf>, variable: Option<OsString>) -> Option<PathBuf> {
    let from_variable = || variable.filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(from_variable).or_else(|| {
        USUAL_FILES.iter().map(PathBuf::from).find(|path| !matches!(path.try_exists(), Ok(false)))
    })
}
