//! Ids in order, in little memory: those of one moment one behind the other, and a set of those that came later.

use std::{collections::BTreeSet, ops::Bound};

use crate::job::JobId;

/// What an id that came later takes besides its text.
const BYTES_OF_LATER: usize = 64;

/// Ids in any order, some perhaps twice.
#[derive(Debug, Default)]
pub(super) struct UnsortedIds {
    /// Each with its length in front.
    text: Vec<u8>,
    starts: Vec<u32>,
}

impl UnsortedIds {
    /// Adds an id. A text that is too long to be one is skipped.
    pub fn push(&mut self, id: &str) {
        let (Ok(start), Ok(length)) = (u32::try_from(self.text.len()), u8::try_from(id.len())) else {
            return;
        };
        self.starts.push(start);
        self.text.push(length);
        self.text.extend(id.as_bytes());
    }

    pub fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&self.starts[..])
    }

    pub fn sort(mut self) -> SortedIds {
        let id = |start: &u32| text_at(&self.text, *start);
        self.starts.sort_unstable_by(|one, other| id(one).cmp(id(other)));
        self.starts.dedup_by(|one, other| id(one) == id(other));
        self.text.shrink_to_fit();
        SortedIds { text: self.text, starts: self.starts, later: BTreeSet::new(), later_bytes: 0 }
    }
}

/// Ids in order, each once.
#[derive(Debug)]
pub(super) struct SortedIds {
    text: Vec<u8>,
    starts: Vec<u32>,
    later: BTreeSet<Box<str>>,
    later_bytes: usize,
}

impl SortedIds {
    pub fn add(&mut self, id: &JobId) {
        let id = id.as_str();
        let is_known =
            self.starts.binary_search_by(|start| text_at(&self.text, *start).cmp(id.as_bytes())).is_ok();
        if !is_known && self.later.insert(id.into()) {
            self.later_bytes += id.len() + BYTES_OF_LATER;
        }
    }

    /// The memory of those that came later.
    pub fn later_bytes(&self) -> usize {
        self.later_bytes
    }

    /// The ids that begin with `prefix`, in order; `None` if there are more than `most`.
    pub fn beginning_with(&self, prefix: &str, most: usize) -> Option<Vec<JobId>> {
        let at = |start: &u32| text_at(&self.text, *start);
        let first = self.starts.partition_point(|start| at(start) < prefix.as_bytes());
        let sorted = self.starts[first..].iter().map(at).map_while(|id| std::str::from_utf8(id).ok());
        let sorted = sorted.take_while(|id| id.starts_with(prefix)).take(most + 1);
        let later = self.later.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)).map(|id| &**id);
        let later = later.take_while(|id| id.starts_with(prefix)).take(most + 1);
        let found: BTreeSet<&str> = sorted.chain(later).collect();
        (found.len() <= most).then(|| found.into_iter().filter_map(|id| JobId::parse(id).ok()).collect())
    }
}

/// The id whose length stands at `start`.
fn text_at(text: &[u8], start: u32) -> &[u8] {
    let start = start as usize;
    &text[start + 1..start + 1 + usize::from(text[start])]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: &SortedIds, prefix: &str, most: usize) -> Option<Vec<String>> {
        Some(ids.beginning_with(prefix, most)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn ids_are_found_by_their_beginning_in_order_and_once() {
        let mut unsorted = UnsortedIds::default();
        let longest = "z".repeat(255);
        for id in ["b-2", "a", "b-1", "ba", "b-1", &longest, "b", "B-3", "d-1", "d-1", "d-2"] {
            unsorted.push(id);
        }
        unsorted.push(&"x".repeat(256));
        let mut ids = unsorted.sort();
        for id in ["b-3", "b-1", "c", "b-3"] {
            ids.add(&JobId::parse(id).expect("valid"));
        }
        assert_eq!(found(&ids, "b-", 3).expect("three"), ["b-1", "b-2", "b-3"]);
        assert_eq!(found(&ids, "b", 9).expect("five"), ["b", "b-1", "b-2", "b-3", "ba"]);
        assert_eq!(found(&ids, "b-1", 1).expect("it came three times"), ["b-1"]);
        assert_eq!(found(&ids, "b-", 2), None, "there are three");
        assert_eq!(found(&ids, "d-", 1), None, "there is another one behind the two that are equal");
        assert_eq!(found(&ids, "zz", 1).expect("one"), [longest]);
        assert_eq!(found(&ids, "x", 0).expect("none"), [""; 0]);
    }

    #[test]
    fn the_memory_of_ids_is_counted() {
        let mut unsorted = UnsortedIds::default();
        ["abc", "abd"].iter().for_each(|id| unsorted.push(id));
        // The text, its length, and where it begins.
        let bytes = 2 * (3 + 1 + 4);
        assert_eq!(unsorted.bytes(), bytes);
        let mut ids = unsorted.sort();
        let later = JobId::parse("abcde").expect("valid");
        for id in [&later, &later, &JobId::parse("abd").expect("valid")] {
            ids.add(id);
        }
        assert_eq!(ids.later_bytes(), 5 + BYTES_OF_LATER, "the second and the known one cost nothing");
    }
}
