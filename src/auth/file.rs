//! The file of tokens: TOML with one `[[token]]` per client. An error names the entry and the key, and never quotes a
//! value, since somebody may have pasted a token in place of its hash.

use std::{collections::HashMap, path::Path, sync::Arc};

use toml::{Table, Value};

use super::{Caller, Scope, TokenHash, Tokens};
use crate::{
    job::{TopicFilter, TopicPattern},
    small_file,
};

/// What is wrong with the file, and where.
type FileError = String;

/// The keys of an entry.
const KEYS: [&str; 4] = ["name", "sha256", "scopes", "topics"];

/// Reads the tokens from the file at `path`.
///
/// # Errors
/// One line that names the file and says what is wrong.
pub fn read_tokens(path: &Path) -> Result<Tokens, FileError> {
    let text = small_file::read_text(path)
        .map_err(|error| format!("the file of tokens {} cannot be read: {error}", path.display()))?;
    parse_tokens(&text).map_err(|error| format!("the file of tokens {}: {error}", path.display()))
}

/// Parses the text of a file of tokens.
///
/// # Errors
/// What is wrong with it.
pub fn parse_tokens(text: &str) -> Result<Tokens, FileError> {
    let mut table: Table = text.parse().map_err(|error| not_toml(text, &error))?;
    let entries = table.remove("token");
    if !table.is_empty() {
        return Err("contains something other than [[token]] entries".to_owned());
    }
    let entries = entries.as_ref().and_then(Value::as_array).filter(|entries| !entries.is_empty());
    let entries = entries.ok_or("contains no [[token]] entry; `linger token new` prints one")?;
    let mut tokens = HashMap::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let (hash, caller) = parse_entry(entry).map_err(|error| format!("entry {}: {error}", index + 1))?;
        if tokens.insert(hash, caller).is_some() {
            return Err(format!("entry {}: has the sha256 of an earlier entry", index + 1));
        }
    }
    Ok(Tokens(tokens))
}

/// Only the number of the line: the parser's message may quote its content.
fn not_toml(text: &str, error: &toml::de::Error) -> FileError {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("is not TOML (line {})", before.matches('\n').count() + 1)
}

fn parse_entry(entry: &Value) -> Result<(TokenHash, Caller), FileError> {
    let Value::Table(table) = entry else { return Err("is not a [[token]] table".to_owned()) };
    if table.keys().any(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("has an unknown key; the keys are {}", KEYS.join(", ")));
    }
    let Some(Value::String(name)) = table.get("name").filter(|name| is_name(name)) else {
        return Err("needs a name of 1 to 64 printable characters".to_owned());
    };
    let hash = match table.get("sha256") {
        Some(Value::String(text)) => TokenHash::parse(text),
        _ => None,
    };
    let hash = hash.ok_or("needs a sha256 of 64 hexadecimal digits, the hash of the token")?;
    let scopes =
        string_list(table.get("scopes")).ok_or("needs scopes, a list such as [\"add\", \"work\"]")?;
    let scopes: Option<Vec<Scope>> = scopes.into_iter().map(Scope::parse).collect();
    let scopes = scopes.filter(|scopes| !scopes.is_empty());
    let scopes = scopes.ok_or("needs scopes out of add, work, read, admin")?;
    let topics = match table.get("topics") {
        None => TopicFilter::ALL,
        some => parse_topics(some)?,
    };
    Ok((hash, Caller { name: Arc::from(name.as_str()), scopes: scopes.into(), topics }))
}

fn parse_topics(value: Option<&Value>) -> Result<TopicFilter, FileError> {
    let topics = string_list(value).filter(|topics| !topics.is_empty());
    let topics = topics
        .ok_or("topics must be a list such as [\"mail\", \"orders-*\"]; leave it out to allow all topics")?;
    let patterns: Result<Vec<_>, _> = topics.into_iter().map(TopicPattern::parse).collect();
    patterns
        .map(TopicFilter::only)
        .map_err(|_| "a topic must be a topic's name, or a prefix followed by *".to_owned())
}

fn is_name(value: &Value) -> bool {
    let printable = |name: &str| name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    value.as_str().is_some_and(|name| !name.trim().is_empty() && printable(name))
}

fn string_list(value: Option<&Value>) -> Option<Vec<&str>> {
    value?.as_array()?.iter().map(Value::as_str).collect()
}

/// The entry of a token, as text for the file.
#[must_use]
pub fn token_entry(name: &str, token: &str, scopes: &[Scope], topics: &[TopicPattern]) -> String {
    // Strings and lists of strings are the same in JSON and TOML.
    let list = |items: Vec<String>| serde_json::Value::from(items).to_string();
    let mut entry = format!(
        "[[token]]\nname = {}\nsha256 = \"{}\"\nscopes = {}\n",
        serde_json::Value::from(name),
        TokenHash::new(token.as_bytes()),
        list(scopes.iter().map(ToString::to_string).collect()),
    );
    if !topics.is_empty() {
        entry.push_str(&format!("topics = {}\n", list(topics.iter().map(ToString::to_string).collect())));
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Topic;

    #[test]
    fn reads_the_entries_that_it_writes() {
        let topics = ["mail", "orders-*"].map(|text| TopicPattern::parse(text).expect("a pattern"));
        let entries = token_entry("shop \"7\"", "t1", &[Scope::Add, Scope::Read], &topics)
            + &token_entry("ops", "t2", &[Scope::Admin], &[]);
        let tokens = parse_tokens(&entries).expect("is valid");
        let shop = tokens.find(b"t1").expect("is there");
        assert_eq!(&*shop.name, "shop \"7\"");
        assert_eq!(Scope::ALL.map(|scope| shop.has_scope(scope)), [true, false, true, false]);
        assert!(shop.topics.allows(&Topic::parse("orders-eu").expect("a topic")));
        assert!(!shop.topics.allows(&Topic::parse("sms").expect("a topic")));
        let ops = tokens.find(b"t2").expect("is there");
        assert_eq!(Scope::ALL.map(|scope| ops.has_scope(scope)), [true; 4]);
        assert!(ops.topics.is_all());
        assert!(tokens.find(b"t3").is_none() && tokens.find(b"").is_none());
    }

    #[test]
    fn refuses_invalid_files_without_quoting_them() {
        let hash = TokenHash::new(b"x").to_string();
        let good = format!("[[token]]\nname = 'a'\nsha256 = '{hash}'\nscopes = ['add']\n");
        assert!(parse_tokens(&good).is_ok());
        for (text, part) in [
            (String::new(), "no [[token]]"),
            ("token = []".to_owned(), "no [[token]]"),
            (format!("{good}{good}"), "entry 2: has the sha256"),
            (good.replace("name = 'a'", "name = ''"), "name"),
            (good.replace("name = 'a'", r#"name = "a\u0007""#), "name"),
            (good.replace("name = 'a'\n", ""), "name"),
            (good.replace(&hash, "linger_secret"), "sha256"),
            (good.replace("['add']", "'secret'"), "scopes"),
            (good.replace("['add']", "[]"), "scopes"),
            (good.replace("['add']", "['add', 'secret']"), "scopes"),
            (format!("{good}topics = []"), "topics"),
            (format!("{good}topics = ['secret topic']"), "topic"),
            (format!("{good}topic = 'secret'"), "unknown key"),
            (format!("secret = 1\n{good}"), "something other"),
            (format!("{good}\nsecret = = 'secret'"), "line 6"),
        ] {
            let Err(error) = parse_tokens(&text) else { panic!("accepted: {text}") };
            assert!(error.contains(part) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
