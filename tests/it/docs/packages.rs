//! The contents of the Debian package and of the archive, as `Cargo.toml` and `scripts/release` list them: what they name
//! exists, and what the units and the pages name is among it. `scripts/try-package` installs the real package.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use super::targets;
use crate::harness::pages::{pages, read, root};

/// Where `scripts/release` puts what it generates.
const GENERATED: &str = "target/release-files";

/// Where the package has the documents.
const DOCUMENTS: &str = "usr/share/doc/linger";

/// A file of the package, by the pattern of its source, its place and its mode.
struct Asset {
    source: String,
    place: String,
    mode: String,
}

fn manifest() -> toml::Table {
    let manifest: toml::Table = read(Path::new("Cargo.toml")).parse().expect("is TOML");
    manifest["package"]["metadata"]["deb"].as_table().expect("a table").clone()
}

fn assets() -> Vec<Asset> {
    let manifest = manifest();
    let assets = manifest["assets"].as_array().expect("a list");
    assets
        .iter()
        .map(|asset| {
            let [source, place, mode] = [0, 1, 2].map(|at| asset[at].as_str().expect("is text").to_owned());
            Asset { source, place, mode }
        })
        .collect()
}

/// The files of a fresh clone.
fn tracked() -> Vec<PathBuf> {
    let mut git = Command::new("git");
    // In a container the clone may belong to another user, and git would refuse it.
    git.args(["-c", "safe.directory=*", "ls-files", "-z"]).current_dir(root());
    let listed = String::from_utf8(git.output().expect("git runs").stdout).expect("names are text");
    let files: Vec<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    assert!(files.len() > 100, "{files:?}");
    files
}

/// How a path that the pattern matches goes on below the pattern's fixed part: `a/**/*`, `a/*`, `*.md` or a whole path.
fn below<'a>(pattern: &str, path: &'a Path) -> Option<&'a Path> {
    let (folder, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let (parent, file) = (path.parent()?, path.file_name()?.to_str()?);
    let is_named = name.strip_prefix('*').map_or(name == file, |ending| file.ends_with(ending));
    match folder.strip_suffix("/**") {
        Some(folder) => path.strip_prefix(folder).ok().filter(|_| is_named),
        None => (is_named && parent == Path::new(folder)).then_some(Path::new(path.file_name()?)),
    }
}

/// The files of the package that a clone has: where they are in the package, and in the clone.
fn packaged() -> BTreeMap<PathBuf, PathBuf> {
    let tracked = tracked();
    let mut packaged = BTreeMap::new();
    for Asset { source, place, .. } in assets() {
        let found = tracked.iter().filter_map(|path| Some((path, below(&source, path)?)));
        packaged.extend(found.map(|(path, below)| {
            let place =
                if place.ends_with('/') { Path::new(&place).join(below) } else { PathBuf::from(&place) };
            (place, path.clone())
        }));
    }
    packaged
}

/// What `scripts/release` copies into the archive: files, and folders with all that is in them.
fn archived() -> Vec<String> {
    let script = read(Path::new("scripts/release"));
    let (_, list) = script.split_once("\ndocuments=(\n").expect("the script has the list");
    let (list, _) = list.split_once("\n)\n").expect("the list ends");
    list.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn what_goes_into_the_package_exists() {
    let (tracked, script) = (tracked(), read(Path::new("scripts/release")));
    for Asset { source, .. } in assets() {
        let exists = match source.strip_prefix(GENERATED) {
            Some(generated) => script.contains(&format!("$files{}", generated.trim_end_matches("/*.1"))),
            None => tracked.iter().any(|path| below(&source, path).is_some()),
        };
        assert!(exists, "no file is {source}");
    }
    for document in archived() {
        assert!(root().join(&document).exists(), "there is no {document}");
    }
    let scripts = PathBuf::from(manifest()["maintainer-scripts"].as_str().expect("is text"));
    for script in ["postinst", "prerm", "postrm"] {
        // cargo-deb puts there what starts and stops units.
        assert!(read(scripts.join(script)).contains("\n#DEBHELPER#\n"), "{script}");
    }
}

/// Without one of them the library does not compile.
#[test]
fn the_archive_has_each_file_of_the_library_for_go() {
    let (mut files, archived) = (tracked(), archived());
    files.retain(|path| below("clients/go/linger/*.go", path).is_some());
    assert!(files.len() > 1, "{files:?}");
    files.retain(|path| !archived.iter().any(|document| path.as_path() == Path::new(document)));
    assert!(files.is_empty(), "the archive lacks {files:?}");
}

/// Nothing else is under `/etc`, and the settings may have a password.
#[test]
fn the_package_hides_the_settings_from_others() {
    let settings: Vec<Asset> = assets().into_iter().filter(|asset| asset.place.starts_with("etc/")).collect();
    let [Asset { source, mode, .. }] = &settings[..] else { panic!("{} files", settings.len()) };
    assert_eq!((source.as_str(), mode.as_str()), ("deploy/systemd/linger.toml", "640"));
}

#[test]
fn the_units_name_files_of_the_package() {
    let program = assets().into_iter().find(|asset| asset.source == format!("{GENERATED}/linger"));
    let program = format!("/{}linger", program.expect("the program is an asset").place);
    let packaged = packaged();
    let unit = |name: &str| read(Path::new("deploy/systemd").join(name));
    let (server, worker) = (unit("linger.service"), unit("linger-work@.service"));
    for unit in [&server, &worker] {
        let start =
            unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("it starts something");
        assert!(start.starts_with(&format!("{program} ")), "{start}");
        assert!(unit.contains(&format!(" file:///{DOCUMENTS}/\n")), "{unit}");
    }
    let (_, settings) = server.split_once(" --config /").expect("the server reads a file");
    let settings = settings.split_whitespace().next().expect("it has a name");
    assert!(packaged.contains_key(Path::new(settings)), "{settings} is not in the package");
    // The server's unit gets its place from cargo-deb.
    let units = &manifest()["systemd-units"][0];
    assert_eq!(
        (units["unit-scripts"].as_str(), units["unit-name"].as_str()),
        (Some("deploy/systemd/"), Some("linger"))
    );
    assert!(packaged.contains_key(Path::new("usr/lib/systemd/system/linger-work@.service")));
}

#[test]
fn links_of_packaged_pages_lead_to_packaged_files() {
    let (packaged, archived) = (packaged(), archived());
    let in_package: BTreeSet<PathBuf> =
        packaged.keys().filter_map(|place| Some(place.strip_prefix(DOCUMENTS).ok()?.to_owned())).collect();
    let is_in_archive = |file: &Path| archived.iter().any(|document| file.starts_with(document));
    let mut missing = BTreeSet::new();
    for page in pages().into_iter().filter(|page| is_in_archive(page) || in_package.contains(page)) {
        for (_, target, _) in targets(&page, &read(&page)) {
            if !is_in_archive(&target) {
                missing.insert(format!("{}: {} is not in the archive", page.display(), target.display()));
            }
            // A link may lead to a folder.
            if !in_package.iter().any(|file| file.starts_with(&target)) {
                missing.insert(format!("{}: {} is not in the package", page.display(), target.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    let scripts: Vec<_> = in_package.iter().filter(|file| file.starts_with("deploy/debian")).collect();
    assert!(scripts.is_empty(), "the package has its own scripts as documents: {scripts:?}");
}

#[test]
fn patterns_of_assets_match_as_cargo_deb_has_them() {
    let cases = [
        ("a/**/*", "a/b/c.md", Some("b/c.md")),
        ("a/*", "a/b.md", Some("b.md")),
        ("a/*", "a/b/c.md", None),
        ("*.md", "b.md", Some("b.md")),
        ("*.md", "a/b.md", None),
        ("a/b.md", "a/b.md", Some("b.md")),
        ("a/b.md", "a/bb.md", None),
    ];
    for (pattern, path, expected) in cases {
        assert_eq!(below(pattern, Path::new(path)), expected.map(Path::new), "{pattern} {path}");
    }
}
