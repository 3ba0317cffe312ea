//! The pages for users and their code blocks, for the tests that check and run them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A code block of a page.
#[derive(Debug)]
pub struct Block {
    /// The word after the fence, such as `sh`.
    pub language: String,
    /// The comment on the line before the fence, such as `background`.
    pub mark: Option<String>,
    pub code: String,
    /// The line of the fence.
    pub line: usize,
}

/// A function of the shell that is curl for the blocks: a response of 400 or more is a failure. A call that the server has not begun,
/// because its process was paused, is sent again, as the answer asks: a busy machine can hold up any process for over a second.
pub const TRY_CURL: &str = r#"try_curl() {
    local answer status
    while :; do
        answer=$(command curl --fail-with-body -sS "$@"; echo ".$?")
        status=${answer##*.} answer=${answer%.*}
        [[ $status = 22 && $answer = *'"code":"not_begun"'* ]] || break
        sleep 0.1
    done
    printf %s "$answer"
    return "$status"
}
"#;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The table of contents of the site, which is no page itself: in the site it is beside each page.
pub const CONTENTS: &str = "docs/SUMMARY.md";

/// Every page, by its path from the root.
pub fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![root().join("docs")];
    let mut entries = entries(root());
    entries.extend(self::entries(&root().join("examples")));
    while let Some(folder) = folders.pop() {
        entries.extend(self::entries(&folder));
        folders.extend(
            entries.iter().filter(|entry| entry.parent() == Some(&folder) && entry.is_dir()).cloned(),
        );
    }
    for entry in entries {
        if entry.extension().is_some_and(|extension| extension == "md") {
            pages.push(entry.strip_prefix(root()).expect("is ours").to_owned());
        }
    }
    pages.retain(|page| page != Path::new(CONTENTS));
    pages.sort();
    assert!(pages.contains(&PathBuf::from("README.md")) && pages.len() > 20, "{pages:?}");
    pages
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()).collect()
}

/// The text of a page.
pub fn read(page: impl AsRef<Path>) -> String {
    let page = page.as_ref();
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// The code blocks of a text, in their order. The indentation of a block in a list is removed.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut mark, mut open): (Option<String>, Option<(Block, usize)>) = (None, None);
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        match (trimmed.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let block = Block {
                    language: language.to_owned(),
                    mark: mark.take(),
                    code: String::new(),
                    line: number + 1,
                };
                open = Some((block, line.len() - trimmed.len()));
            }
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
            (None, Some((block, indent))) => {
                let indented = line.get(..*indent).is_some_and(|start| start.trim().is_empty());
                block.code += if indented { &line[*indent..] } else { line };
                block.code += "\n";
            }
            (None, None) => {
                let comment = trimmed.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                mark = comment.map(str::to_owned);
            }
        }
    }
    blocks
}

/// The code blocks of a page after a comment such as `<!-- NAME runs the next block -->`, in their order.
pub fn blocks_after(page: &str, comment: &str) -> Vec<Block> {
    let text = read(page);
    let (_, rest) = text.split_once(&format!("{comment}\n")).expect("the page has the comment");
    blocks(rest)
}
