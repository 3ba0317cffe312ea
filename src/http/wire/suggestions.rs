//! Suggestions for misspelt names of fields and parameters.

/// The detail for `name`, which is not in `known`: suggests the nearest known name, or else lists all of them. `kind` is
/// what the name is not, such as "a field of this object"; `plural` is what the known names are.
pub fn unknown_name(name: &str, known: &[&'static str], kind: &str, plural: &str) -> String {
    match nearest(name, known) {
        Some(near) => format!("is not {kind}; did you mean {near}?"),
        None if known.is_empty() => format!("is not {kind}, which has none"),
        None => format!("is not {kind}; its {plural} are {}", known.join(", ")),
    }
}

/// The known name that was probably meant: few letters differ, ignoring case and separators.
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let name = normalized(name);
    let distance = |known: &str| strsim::damerau_levenshtein(&name, &normalized(known));
    let near = known.iter().map(|known| (distance(known), *known)).min()?;
    (near.0 <= name.chars().count() / 3).then_some(near.1)
}

fn normalized(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_name_that_was_probably_meant() {
        let known = ["topic", "delay", "at", "max_attempts"];
        for (name, meant) in [
            ("topics", Some("topic")),
            ("DELAY", Some("delay")),
            ("dealy", Some("delay")),
            ("maxAttempts", Some("max_attempts")),
            ("max-atempts", Some("max_attempts")),
            ("x", None),
            ("", None),
            ("payload", None),
        ] {
            assert_eq!(nearest(name, &known), meant, "{name}");
        }
        assert_eq!(nearest("topic", &[]), None);
        assert_eq!(
            unknown_name("x", &["a", "b"], "a field of it", "fields"),
            "is not a field of it; its fields are a, b"
        );
        assert_eq!(unknown_name("x", &[], "a field of it", "fields"), "is not a field of it, which has none");
    }
}
