//! Section `[ui]`: its defaults, and which titles are accepted.

use super::*;

#[test]
fn the_dashboard_is_served_without_a_title() {
    let ui = load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config.ui;
    assert_eq!(ui, UiSettings { enabled: true, title: String::new(), hide_bodies: false });
    assert_eq!(ui, UiSettings::default());
}

#[test]
fn titles_are_short_and_plain() {
    let title = |text: &str| load_with("", &[("LINGER__UI__TITLE", text)], &[]);
    let longest = "é".repeat(40);
    for accepted in ["production", "eu <1> \"a\"", &longest] {
        assert_eq!(title(accepted).expect("is valid").config.ui.title, accepted);
    }
    for refused in ["é".repeat(41), "a\tb".to_owned()] {
        let found = faults("", &[("LINGER__UI__TITLE", &refused)]);
        assert!(matches!(&found[..], [one] if one.starts_with("ui.title: must be at most 40")), "{found:?}");
    }
}
