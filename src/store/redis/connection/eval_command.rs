//! `EVALSHA` and `EVAL` as commands for a pipeline. Knows nothing of what scripts do.

use fred::{
    bytes_utils::Str,
    types::{ClusterHash, CustomCommand, Key, Value},
};

/// One run of a script.
pub struct EvalCommand {
    pub hash: Str,
    /// The script's text, if the server does not know the hash.
    pub text: Option<Str>,
    pub keys: Vec<Key>,
    pub args: Vec<Value>,
}

impl EvalCommand {
    /// The command and its arguments: the library's pipelines have no methods for scripts.
    pub fn into_custom(self) -> (CustomCommand, Vec<Value>) {
        let (name, script) = self.text.map_or(("EVALSHA", self.hash), |text| ("EVAL", text));
        let count = i64::try_from(self.keys.len()).expect("keys fit an i64");
        let mut all = Vec::with_capacity(2 + self.keys.len() + self.args.len());
        all.extend([script.into(), count.into()]);
        all.extend(self.keys.into_iter().map(Value::from));
        all.extend(self.args);
        (CustomCommand::new_static(name, ClusterHash::Random, false), all)
    }
}
