//! The pages for users: they are short where they have to be, their links lead somewhere, they name what exists
//! (`configuration`: each setting, as `config/default.toml` has it), their shell blocks run (`shell`), packages have what
//! they need (`packages`), and so has the site that `scripts/book` makes (`contents`).

mod configuration;
mod contents;
mod packages;
mod shell;

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use crate::harness::pages::{pages, read, root};

/// Longest front page, in lines.
const MAX_FRONT_PAGE_LINES: usize = 150;

/// The lines of a page that are not in a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    })
}

/// What the `[text](target)` links of a page name.
fn links(text: &str) -> Vec<String> {
    let text: Vec<&str> = prose(text).collect();
    let text = text.join("\n");
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Removes `..` from a path.
fn resolved(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut done, part| {
        match part {
            Component::ParentDir => assert!(done.pop(), "{} leaves the repository", path.display()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => done.push(part),
        }
        done
    })
}

#[test]
fn the_front_page_is_short() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= MAX_FRONT_PAGE_LINES, "README.md has {lines} lines");
}

/// The links of a page to files, each with the anchor that it names.
fn targets(page: &Path, text: &str) -> Vec<(String, PathBuf, String)> {
    let ours = links(text).into_iter().filter(|link| !link.starts_with("http"));
    ours.map(|link| {
        let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = match file {
            "" => page.to_owned(),
            file => resolved(&page.parent().expect("has a folder").join(file)),
        };
        let anchor = anchor.to_owned();
        (link, target, anchor)
    })
    .collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        for (link, target, anchor) in targets(&page, &read(&page)) {
            let found = root().join(&target).exists()
                && (anchor.is_empty() || anchors(&read(&target)).contains(&anchor));
            if !found {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn links_lead_from_the_front_page_to_every_page_for_users() {
    let mut found = BTreeSet::from([PathBuf::from("README.md")]);
    let mut unread = vec![PathBuf::from("README.md")];
    while let Some(page) = unread.pop() {
        let targets = targets(&page, &read(&page)).into_iter().map(|(_, target, _)| target);
        let next = targets.filter(|target| target.extension().is_some_and(|ending| ending == "md"));
        unread.extend(next.filter(|target| found.insert(target.clone())));
    }
    let missing: Vec<PathBuf> = pages().into_iter().filter(|page| !found.contains(page)).collect();
    assert!(missing.is_empty(), "no links lead to {missing:?}");
}

/// What stands between backticks in the prose of the pages for users.
fn code_spans() -> Vec<(PathBuf, String)> {
    let for_users = |page: &PathBuf| page.starts_with("docs") || page == Path::new("README.md");
    let mut spans = Vec::new();
    for page in pages().into_iter().filter(for_users) {
        let text = read(&page);
        for line in prose(&text) {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (page.clone(), span.to_owned())));
        }
    }
    spans
}

#[test]
fn the_pages_name_settings_that_exist() {
    let settings: toml::Table = read(Path::new("config/default.toml")).parse().expect("is TOML");
    let mut checked = 0;
    for (page, span) in code_spans() {
        let words: Vec<&str> = span.split(" = ").next().expect("not empty").split('.').collect();
        let [section, key] = words[..] else { continue };
        let Some(section) = settings.get(section).and_then(toml::Value::as_table) else { continue };
        if key.chars().all(|c| c.is_ascii_lowercase() || c == '_') && key != "toml" {
            assert!(section.contains_key(key), "{} names {span}", page.display());
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn the_pages_name_metrics_that_exist() {
    let mut sources = String::new();
    for entry in fs::read_dir(root().join("src/metrics")).expect("a folder") {
        sources += &read(entry.expect("readable").path());
    }
    let mut checked = 0;
    for (page, span) in code_spans().into_iter().filter(|(_, span)| span.starts_with("linger_")) {
        // Expressions begin with the name of a metric.
        let name = span.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().expect("not empty");
        let name = name.trim_end_matches("_total").trim_end_matches("_info");
        assert!(sources.contains(&format!("\"{name}\"")), "{} names {span}", page.display());
        checked += 1;
    }
    assert!(checked >= 5, "{checked}");
}

#[test]
fn the_reader_of_links_and_headings_knows_what_github_does() {
    let text = "# Now, `code`: a_b\n\n[x](a.md#b) and [`y`](c)\n```sh\n[no](d)\n# no\n```\n[z\nz](e)\n";
    assert_eq!(links(text), ["a.md#b", "c", "e"]);
    assert_eq!(anchors(text), BTreeSet::from(["now-code-a_b".to_owned()]));
}
