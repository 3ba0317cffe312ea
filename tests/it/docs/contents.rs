//! `docs/SUMMARY.md`, the table of contents of the site that `scripts/book` makes. The script itself checks the links of the
//! site.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::targets;
use crate::harness::pages::{CONTENTS, pages, read};

#[test]
fn the_contents_of_the_site_name_each_page_once_and_no_other() {
    let is_page = |target: &PathBuf| target.extension().is_some_and(|ending| ending == "md");
    let named = |page: &Path| targets(page, &read(page)).into_iter().map(|(_, target, _)| target);
    let mut expected: BTreeSet<PathBuf> = pages().into_iter().collect();
    // Links lead to a few pages in other folders, which the site needs too.
    expected.extend(pages().iter().flat_map(|page| named(page)).filter(is_page));
    let (mut found, mut wrong) = (BTreeSet::new(), Vec::new());
    for target in named(Path::new(CONTENTS)) {
        if !expected.contains(&target) {
            wrong.push(format!("{} is no page", target.display()));
        } else if !found.insert(target.clone()) {
            wrong.push(format!("{} is named twice", target.display()));
        }
    }
    wrong.extend(expected.difference(&found).map(|page| format!("{} is missing", page.display())));
    assert!(wrong.is_empty(), "{CONTENTS}: {wrong:#?}");
}
