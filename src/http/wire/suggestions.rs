//! Suggestions for names of fields and parameters that are misspelt, or that other systems use.

use super::foreign_names::{self, Meaning};

/// The detail for `name`, which is not in `known`: what a name of another system is called here, or the nearest known name,
/// or else all known names. `kind` is what the name is not, such as "a field of this object"; `plural` is what the known
/// names are.
pub fn unknown_name(name: &str, known: &[&'static str], kind: &str, plural: &str) -> String {
    let meaning = foreign_names::meaning(&normalized(name), known);
    match meaning.or_else(|| nearest(name, known).map(|near| Meaning::Called(near, ""))) {
        Some(Meaning::Called(here, note)) => format!("is not {kind}; did you mean {here}{note}?"),
        Some(Meaning::Missing(why)) => format!("is not {kind}: {why}"),
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
    #[test]
    fn names_of_other_systems_get_the_name_of_the_object_at_hand() {
        let job =
            ["id", "topic", "delay", "at", "ttr", "max_attempts", "retry", "expire", "callback", "body"];
        let pop = ["topics", "max", "wait", "ttr", "worker"];
        for (name, known, expected) in [
            ("payload", &job[..], "; did you mean body?"),
            ("delaySeconds", &job, "; did you mean delay?"),
            ("delay_ms", &job, "; did you mean delay, whose numbers are seconds?"),
            ("maxReceiveCount", &job, "; did you mean max_attempts, which counts the first attempt as well?"),
            ("timeout", &job, "; did you mean ttr?"),
            ("timeout", &pop, "; did you mean wait?"),
            ("visibility-timeout", &pop, "; did you mean ttr?"),
            ("Queue", &pop, "; did you mean topics?"),
            (
                "ttl",
                &job,
                "; did you mean expire, after which the job is not delivered any more (ttr is how long a worker has it)?",
            ),
            ("retention", &job, ": a job stays until it is finished or deleted, or until its expire"),
            ("ttl", &pop, "; did you mean ttr?"),
            ("priority", &pop, "; its fields are topics, max, wait, ttr, worker"),
        ] {
            let detail = unknown_name(name, known, "a field", "fields");
            assert_eq!(detail, format!("is not a field{expected}"), "{name}");
        }
    }
}
