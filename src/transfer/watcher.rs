//! What a transfer tells while it runs.

/// Is told of a transfer while it runs. A closure that takes the sentences is one.
pub trait Watcher: Send {
    /// Something is left out, in a sentence.
    fn named(&mut self, sentence: &str);

    /// So many more jobs are done.
    fn advanced(&mut self, jobs: u64) {
        let _ = jobs;
    }
}

impl<F: FnMut(&str) + Send> Watcher for F {
    fn named(&mut self, sentence: &str) {
        self(sentence);
    }
}
