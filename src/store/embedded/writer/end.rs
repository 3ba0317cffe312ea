//! The end of the writer: a clean stop leaves an empty log.

use super::commit::Writer;
use crate::store::{
    Error,
    embedded::rows::{db::wal_checkpoint, meta::RunState},
};

impl Writer {
    /// Ends the thread. After a clean stop the log is empty and the database file is marked as clean; otherwise the
    /// next start recovers everything.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        let stopped = self.checkpoints.stop();
        if let Err(error) = stopped {
            self.checkpoint_failed(&error);
        }
        self.published.check()?;
        if !self.published.stops_cleanly() {
            return Ok(());
        }
        let mut emptied = self.empty_wal();
        if self.ran_out_of_space && self.disk.make_room() {
            emptied = self.empty_wal();
        }
        if emptied.is_err() && self.ran_out_of_space {
            tracing::warn!(db = %self.db_path.display(), "the disk is full; the next start copies the log into the database file");
        } else {
            emptied?;
        }
        tracing::info!(db = %self.db_path.display(), "the store is closed");
        self.published.check()
    }

    /// Marks the database as cleanly closed, and copies all of the log into its file.
    fn empty_wal(&mut self) -> Result<(), Error> {
        self.ran_out_of_space = false;
        self.transact(|txn| txn.db.set_run_state(RunState::Clean))?;
        // With `interval` this is the last sync, before the log is emptied.
        self.syncer = None;
        match wal_checkpoint(self.db.conn(), "TRUNCATE") {
            Ok(_) => Ok(()),
            Err(error) if self.disk.explains(&error) => {
                self.ran_out_of_space = true;
                self.disk.ran_out();
                Err(self.disk.full())
            }
            Err(error) => Err(self
                .published
                .fail("the write-ahead log could not be copied into the database file", &error)),
        }
    }
}
