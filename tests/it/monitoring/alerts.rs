//! The alerts: `promtool` tests each of them, and each has its runbook and its row in the documentation.

use std::{collections::BTreeSet, fs};

use super::{alerts, list, read, read_yaml, root, text};
use crate::harness::prometheus::promtool;

#[test]
fn every_alert_fires_on_its_cause_and_is_quiet_otherwise() {
    for (what, file) in
        [("rules", "deploy/prometheus/alerts.yml"), ("config", "deploy/prometheus/prometheus.yml")]
    {
        let checked = promtool(&["check", what, file], root());
        assert!(checked.status.success(), "{checked:?}");
    }
    let tested = promtool(&["test", "rules", "tests/alerts.yml"], root());
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
    let (mut fires, mut is_quiet) = (BTreeSet::new(), BTreeSet::new());
    let tests = read_yaml("tests/alerts.yml");
    for case in list(&tests["tests"]).iter().flat_map(|test| list(&test["alert_rule_test"])) {
        let quiet = list(&case["exp_alerts"]).is_empty();
        let names = if quiet { &mut is_quiet } else { &mut fires };
        names.insert(text(&case["alertname"]).to_owned());
    }
    let all: BTreeSet<String> = alerts().iter().map(|alert| text(&alert["alert"]).to_owned()).collect();
    assert_eq!((&fires, &is_quiet), (&all, &all));
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let mut pages = BTreeSet::new();
    for alert in alerts() {
        let (name, page) = (text(&alert["alert"]), text(&alert["annotations"]["runbook"]));
        let runbook = read(page);
        let mut lines = runbook.lines();
        assert_eq!(lines.next(), Some(format!("# {name}").as_str()), "{page}");
        let severity = if text(&alert["labels"]["severity"]) == "page" { "*A page: " } else { "*A ticket: " };
        assert!(lines.nth(1).is_some_and(|line| line.starts_with(severity)), "{page}");
        // `curl --json` needs a version that older systems do not have.
        assert!(!runbook.contains("--json"), "{page}");
        let headings: Vec<&str> = runbook.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(
            headings,
            ["## What users feel", "## Where to look", "## What to do", "## When it is over"],
            "{page}"
        );
        assert!(
            [".", "{{ end }}"].iter().any(|end| text(&alert["annotations"]["summary"]).ends_with(end)),
            "{name}"
        );
        pages.insert(page.to_owned());
    }
    let files = fs::read_dir(root().join("docs/runbooks")).expect("a folder");
    let files = files.map(|file| file.expect("readable").file_name().to_string_lossy().into_owned());
    assert_eq!(files.map(|name| format!("docs/runbooks/{name}")).collect::<BTreeSet<_>>(), pages);
}

#[test]
fn the_documentation_lists_every_alert() {
    let page = read("docs/operate/monitor.md");
    let rows =
        page.lines().filter(|line| line.contains("](../runbooks/")).filter(|line| line.starts_with("| "));
    let listed: Vec<String> = rows.map(|row| row.split(" | ").next().expect("a cell").to_owned()).collect();
    let expected = alerts().into_iter().map(|alert| {
        let page = text(&alert["annotations"]["runbook"]).replacen("docs/", "../", 1);
        let link = format!("[{}]({page})", text(&alert["alert"]));
        if text(&alert["labels"]["severity"]) == "page" {
            format!("| **{link}**")
        } else {
            format!("| {link}")
        }
    });
    assert_eq!(listed, expected.collect::<Vec<_>>());
}
