//! Puts the values of constants in the place of their names. Redis makes the functions of a script anew for each call, and
//! with each a reference to every variable of the script that it uses, which costs more than the function itself.

use std::collections::BTreeMap;

/// The script with the values of its constants in place of their names, and without comments. Every line keeps its number.
/// A line that begins with `local` and declares nothing but numbers, by names in capitals, declares constants.
pub fn inline_constants(text: &str) -> String {
    let constants: BTreeMap<&str, &str> = text.lines().filter_map(constants_in).flatten().collect();
    let lines = text.lines().map(|line| match constants_in(line) {
        Some(_) => String::new(),
        None => replace_names(line, &constants),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The names and values of a line that declares constants.
pub(super) fn constants_in(line: &str) -> Option<Vec<(&str, &str)>> {
    let (names, values) = line.strip_prefix("local ")?.split_once(" = ")?;
    let values = values.split_once(" --").map_or(values, |(values, _)| values);
    let (names, values): (Vec<&str>, Vec<&str>) = (names.split(", ").collect(), values.split(", ").collect());
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let is_number = |value: &&str| value.bytes().all(|b| b.is_ascii_digit());
    let declares = names.len() == values.len() && names.iter().all(is_name) && values.iter().all(is_number);
    declares.then(|| names.into_iter().zip(values).collect())
}

fn replace_names(line: &str, constants: &BTreeMap<&str, &str>) -> String {
    let (mut replaced, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(first) = rest.chars().next().filter(|_| !rest.starts_with("--")) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let ends = match first {
            '\'' => rest[1..].find('\'').map(|at| at + 2),
            _ if is_part(first) => rest.find(|c| !is_part(c)),
            _ => Some(first.len_utf8()),
        };
        let (token, after) = rest.split_at(ends.unwrap_or(rest.len()));
        let may_be_constant = first.is_ascii_uppercase() || first == '_';
        let value = if may_be_constant { constants.get(token) } else { None };
        replaced.push_str(value.unwrap_or(&token));
        rest = after;
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_constants_are_replaced_but_not_in_strings_and_comments() {
        let text = "#!lua flags=no-writes\nlocal ONE, TWO_MORE = 1, 2 -- that's ONE\nlocal NOT, ALL = 3, KEYS[1]\n\
                    f(ONE, 'ONE --', TWO_MORE, TWO) -- ONE\nlocal other = 4";
        assert_eq!(
            inline_constants(text),
            "#!lua flags=no-writes\n\nlocal NOT, ALL = 3, KEYS[1]\nf(1, 'ONE --', 2, TWO) \nlocal other = 4"
        );
    }
}
