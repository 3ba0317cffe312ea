//! The file of tokens: TOML with one `[[token]]` per client. An error names the entry and the key, and never quotes a
//! value, since an operator may have pasted a token in place of its hash.

use std::{collections::HashSet, path::Path, sync::Arc};

use toml::{Table, Value};

use super::{Caller, Scope, TokenHash, Tokens};
use crate::{
    files::small_file,
    job::{TopicFilter, TopicPattern},
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
    parse_entries(text).map(|entries| Tokens(entries.into_iter().collect()))
}

/// The clients in the text of a file of tokens, in its order.
///
/// # Errors
/// What is wrong with it.
pub fn list_tokens(text: &str) -> Result<Vec<Caller>, FileError> {
    Ok(parse_entries(text)?.into_iter().map(|(_, caller)| caller).collect())
}

/// The text of a file without the entries of this name, and how many there were. Everything else stays, also comments.
///
/// # Errors
/// What is wrong with the file, or why the entries cannot be removed.
pub fn without_token(text: &str, name: &str) -> Result<(String, usize), FileError> {
    let callers = list_tokens(text)?;
    let count = callers.iter().filter(|caller| &*caller.name == name).count();
    if count == 0 {
        let names: Vec<_> = callers.iter().map(|caller| &*caller.name).collect();
        return Err(format!("has no token named {name:?} (tokens: {})", names.join(", ")));
    }
    if count == callers.len() {
        return Err("has no other token, and a server needs one; make a new one first".to_owned());
    }
    let mut parts = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if line.trim() == "[[token]]" {
            parts.push(String::new());
        }
        parts.last_mut().expect("there is the first").push_str(line);
    }
    let mut kept = parts.remove(0);
    let unusual = || "is not one [[token]] after the other; remove the entry by hand".to_owned();
    if parts.len() != callers.len() {
        return Err(unusual());
    }
    for part in parts {
        match list_tokens(&part).ok().as_deref() {
            Some([caller]) if &*caller.name == name => kept.push_str(behind_entry(&part)),
            Some([_]) => kept.push_str(&part),
            _ => return Err(unusual()),
        }
    }
    Ok((kept, count))
}

/// The comments behind the keys of an entry: they belong to the next one.
fn behind_entry(part: &str) -> &str {
    let is_key = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines: Vec<&str> = part.split_inclusive('\n').collect();
    let keys = lines.iter().rposition(is_key).map_or(0, |last| last + 1);
    let length: usize = lines[..keys].iter().map(|line| line.len()).sum();
    part[length..].trim_start_matches(['\r', '\n'])
}

fn parse_entries(text: &str) -> Result<Vec<(TokenHash, Caller)>, FileError> {
    let mut table: Table = text.parse().map_err(|error| not_toml(text, &error))?;
    let entries = table.remove("token");
    if !table.is_empty() {
        return Err("contains something other than [[token]] entries".to_owned());
    }
    let entries = entries.as_ref().and_then(Value::as_array).filter(|entries| !entries.is_empty());
    let entries = entries.ok_or("contains no [[token]] entry; `linger token new` prints one")?;
    let (mut tokens, mut hashes) = (Vec::with_capacity(entries.len()), HashSet::new());
    for (index, entry) in entries.iter().enumerate() {
        let (hash, caller) = parse_entry(entry).map_err(|error| format!("entry {}: {error}", index + 1))?;
        if !hashes.insert(hash.clone()) {
            return Err(format!("entry {}: has the sha256 of an earlier entry", index + 1));
        }
        tokens.push((hash, caller));
    }
    Ok(tokens)
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
    fn an_entry_is_removed_and_nothing_else() {
        let entry = |name: &str, token: &str| token_entry(name, token, &[Scope::Add], &[]);
        let [shop, ops, old] =
            [("shop", "t1"), ("ops", "t2"), ("shop", "t3")].map(|(name, token)| entry(name, token));
        let text = format!("# Tokens\n{shop}\n# For the night shift\n{ops}# in a box\n\n{old}# The end\n");
        let (left, count) = without_token(&text, "shop").expect("is there");
        assert_eq!(
            (left, count),
            (format!("# Tokens\n# For the night shift\n{ops}# in a box\n\n# The end\n"), 2)
        );
        let (left, _) = without_token(&text, "ops").expect("is there");
        assert_eq!(left, format!("# Tokens\n{shop}\n# For the night shift\n# in a box\n\n{old}# The end\n"));
        let listed = list_tokens(&text).expect("is valid");
        assert_eq!(listed.iter().map(|caller| &*caller.name).collect::<Vec<_>>(), ["shop", "ops", "shop"]);
        let refused = |text: &str, name: &str| without_token(text, name).expect_err("is refused");
        assert_eq!(refused(&text, "web"), "has no token named \"web\" (tokens: shop, ops, shop)");
        assert!(refused(&shop, "shop").contains("no other token"));
        let hashes = ["a", "b"].map(|token| TokenHash::new(token.as_bytes()).to_string());
        let inline = hashes.map(|hash| format!("{{name='{}',sha256='{hash}',scopes=['add']}}", &hash[..1]));
        let name = inline[0][7..8].to_owned();
        assert!(refused(&format!("token = [{}]", inline.join(",")), &name).contains("by hand"));
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
