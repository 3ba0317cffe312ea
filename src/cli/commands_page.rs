//! `docs/commands.md` is the help of every command. `LINGER_WRITE_DOCS=1 cargo test --lib commands_page` writes it
//! anew.

use std::{env, fs, path::Path};

use super::{args, help};

/// Columns of the help on the page.
const WIDTH: usize = 100;

const HEAD: &str = "\
# Commands

The help of every command, as `linger COMMAND --help` prints it. `linger man DIR` writes the same as manual pages, and
`linger completions SHELL` prints completions for bash, zsh, fish, elvish and PowerShell.

## Commands that call a server

On a terminal they print text, otherwise JSON lines: one API object per line. Line breaks between the values of a body
become blanks; `linger get ID --body` prints the exact bytes. Stdout has data only; errors are on stderr. Calls that meet a
connection fault or a 5xx answer are retried until `--timeout`. The help of each of these commands ends with:

";

/// What the help of all commands that call a server ends with.
const COMMON: &str = "The server is that of --url";

fn block(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n\n", lines.join("\n"))
}

/// The section of a command and those of its subcommands. What many have in common is left out.
fn sections(command: &mut clap::Command, name: &str, page: &mut String) {
    let help = command.clone().bin_name(name).term_width(WIDTH).render_help().to_string();
    let help = help.split_once(COMMON).map_or(&*help, |(before, _)| before);
    page.push_str(&format!("## {name}\n\n{}", block(help)));
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        let name = format!("{name} {}", inner.get_name());
        sections(inner, &name, page);
    }
}

#[test]
fn the_page_of_commands_has_the_help_of_each() {
    let common = clap::Command::new("linger").help_template("{after-help}").after_help(help::CALLS);
    let common = common.term_width(WIDTH).render_help().to_string();
    assert!(common.trim_start().starts_with(COMMON), "{common}");
    let mut page = format!("{HEAD}{}", block(common.trim_start()));
    sections(&mut args::description(), "linger", &mut page);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let page = format!("{}\n", page.trim_end());
    if env::var_os("LINGER_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(page, written)| page != written);
    assert!(
        page == written,
        "write docs/commands.md anew with LINGER_WRITE_DOCS=1; the first difference: {differs:?}"
    );
}
