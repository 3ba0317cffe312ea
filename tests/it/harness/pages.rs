//! The code blocks of the pages for users, for the tests that run them.

use std::path::Path;

/// A code block of a page.
#[derive(Debug)]
pub struct Block {
    /// The word after the fence, such as `sh`.
    pub language: String,
    pub code: String,
}

/// The code blocks of a page after a comment such as `<!-- NAME runs the next block -->`, in their order.
pub fn blocks_after(page: &str, comment: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (_, rest) = text.split_once(&format!("{comment}\n")).expect("the page has the comment");
    // Every second part is outside of the blocks.
    let blocks = rest.split("```").skip(1).step_by(2);
    blocks
        .map(|block| {
            let (language, code) = block.split_once('\n').expect("a fence is a line");
            Block { language: language.to_owned(), code: code.to_owned() }
        })
        .collect()
}
