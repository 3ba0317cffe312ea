//! Copies all records of a store into an export, and those of an export into a store.

use std::io::{self, Write};

use super::{
    counted,
    file::{CheckedExport, LineSum, TransferError},
    line::{self, End, ExportLine, FORMAT, Header},
    watcher::Watcher,
};
use crate::{
    job::{RememberedId, Timestamp},
    store::{self, JobRecord, Put, RecordReader, ScheduleUpdates, Store, StoredSchedule, TopicUpdates},
};

/// Most jobs or schedules stored by one call, and about the most bytes of their bodies or texts.
pub(super) const BATCH: (usize, usize) = (500, 1 << 20);

/// What an export has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exported {
    /// Jobs.
    pub jobs: u64,
    /// Topics for which something is set.
    pub topics: u64,
    /// Schedules.
    pub schedules: u64,
    /// Remembered ids.
    pub remembered: u64,
    /// Records that could not be read, and are not in the export.
    pub broken: u64,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Jobs that were stored.
    pub jobs: u64,
    /// Topics that were set.
    pub topics: u64,
    /// Schedules that were stored.
    pub schedules: u64,
    /// Ids that are remembered now.
    pub remembered: u64,
    /// Jobs, schedules, remembered ids and topics that were there already.
    pub existing: u64,
    /// Jobs, schedules, remembered ids and topics that are not stored, because others have their names.
    pub refused: u64,
}

/// Writes all records to `out`, and names those that cannot be read. `name` is that of `out` in errors.
///
/// # Errors
/// Why the export is not complete.
pub async fn export(
    mut records: Box<dyn RecordReader>,
    (engine, at): (&str, Timestamp),
    out: &mut (impl Write + Send),
    name: &str,
    watcher: &mut dyn Watcher,
) -> Result<Exported, TransferError> {
    let unwritten = |error: io::Error| TransferError::Failed(format!("{name}: {error}"));
    let header = Header {
        linger_export: FORMAT,
        version: env!("LINGER_VERSION").to_owned(),
        engine: engine.to_owned(),
        at: at.to_string(),
    };
    out.write_all(&line::header(&header)).map_err(unwritten)?;
    let (mut done, mut sum) = (Exported::default(), LineSum::default());
    let unread = |error: store::Error| TransferError::Failed(format!("not exported: {error}"));
    while let Some(page) = records.next().await.map_err(unread)? {
        let mut broken = page.broken;
        let mut lines: Vec<Vec<u8>> = page.topics.iter().map(line::topic).collect();
        done.topics += lines.len() as u64;
        for schedule in &page.schedules {
            match line::schedule(schedule) {
                Ok(line) => {
                    lines.push(line);
                    done.schedules += 1;
                }
                Err(why) => {
                    broken.push(format!("the schedule {:?} is broken: {why}", schedule.name.as_str()));
                }
            }
        }
        lines.extend(page.remembered.iter().map(line::remembered));
        done.remembered += page.remembered.len() as u64;
        for job in &page.jobs {
            match line::job(job) {
                Ok(line) => {
                    lines.push(line);
                    done.jobs += 1;
                }
                Err(why) => {
                    broken.push(format!("the record of job {:?} is broken: {why}", job.job.id.as_str()))
                }
            }
        }
        for line in lines {
            sum.add(&line);
            out.write_all(&line).map_err(unwritten)?;
        }
        broken.iter().for_each(|sentence| watcher.named(sentence));
        done.broken += broken.len() as u64;
        watcher.advanced(page.jobs.len() as u64);
    }
    let Exported { jobs, topics, schedules, remembered, .. } = done;
    let end = End { jobs, topics, schedules, remembered, sha256: sum.hex() };
    out.write_all(&line::end(&end)).and_then(|()| out.flush()).map_err(unwritten)?;
    Ok(done)
}

/// Stores the records of an export that was [checked](super::check), and names those that are not stored
/// because others have their names. What is there already stays, so a second run completes the first.
///
/// # Errors
/// Why not everything was stored.
pub async fn import(
    store: &dyn Store,
    export: CheckedExport,
    watcher: &mut dyn Watcher,
) -> Result<Imported, TransferError> {
    let mut import = Import {
        store,
        done: Imported::default(),
        schedules: Vec::new(),
        remembered: Vec::new(),
        jobs: Vec::new(),
        bytes: 0,
    };
    let CheckedExport { lines, found } = export;
    let (mut lines, mut read, mut sum) = (lines.rewind()?, End::default(), LineSum::default());
    while let Some((line, bytes)) = lines.next_record()? {
        match line {
            ExportLine::Topic(record) => {
                read.topics += 1;
                let name = format!("topic {}: other settings are there", record.topic);
                let put = store.put_topic(*record).await.map_err(|error| import.unstored(&error))?;
                import.count(put, |done| &mut done.topics, &name, watcher);
            }
            ExportLine::Schedule(schedule) => {
                read.schedules += 1;
                import.bytes += schedule.content.text.len();
                import.schedules.push(schedule);
                import.flush_if_full(watcher).await?;
            }
            ExportLine::Remembered(remembered) => {
                read.remembered += 1;
                import.remembered.push(remembered);
                import.flush_if_full(watcher).await?;
            }
            ExportLine::Job(record) => {
                read.jobs += 1;
                import.bytes += record.job.body.as_bytes().len();
                import.jobs.push(*record);
                import.flush_if_full(watcher).await?;
            }
            ExportLine::End(_) => break,
        }
        sum.add(&bytes);
    }
    import.flush(watcher).await?;
    read.sha256 = sum.hex();
    if read != found {
        return Err(lines.fault("it was changed while it was imported; import the whole export again"));
    }
    Ok(import.done)
}

/// An import under way.
struct Import<'a> {
    store: &'a dyn Store,
    done: Imported,
    schedules: Vec<StoredSchedule>,
    remembered: Vec<RememberedId>,
    jobs: Vec<JobRecord>,
    /// Of the texts and bodies of these.
    bytes: usize,
}

impl Import<'_> {
    async fn flush_if_full(&mut self, watcher: &mut dyn Watcher) -> Result<(), TransferError> {
        let count = self.schedules.len() + self.remembered.len() + self.jobs.len();
        let is_full = count >= BATCH.0 || self.bytes >= BATCH.1;
        if is_full { self.flush(watcher).await } else { Ok(()) }
    }

    async fn flush(&mut self, watcher: &mut dyn Watcher) -> Result<(), TransferError> {
        self.bytes = 0;
        let schedules = std::mem::take(&mut self.schedules);
        if !schedules.is_empty() {
            let names: Vec<_> = schedules.iter().map(|schedule| schedule.name.clone()).collect();
            let put = self.store.put_schedules(schedules).await.map_err(|error| self.unstored(&error))?;
            for (name, put) in names.iter().zip(put) {
                let differs = format!("schedule {name}: another schedule with this name is there");
                self.count(put, |done| &mut done.schedules, &differs, watcher);
            }
        }
        let remembered = std::mem::take(&mut self.remembered);
        if !remembered.is_empty() {
            let ids: Vec<_> = remembered.iter().map(|remembered| remembered.id.clone()).collect();
            let put = self.store.put_remembered(remembered).await.map_err(|error| self.unstored(&error))?;
            for (id, put) in ids.iter().zip(put) {
                let differs =
                    format!("id {id}: a later end of its job is remembered, or there are too many ids");
                self.count(put, |done| &mut done.remembered, &differs, watcher);
            }
        }
        let jobs = std::mem::take(&mut self.jobs);
        let ids: Vec<_> = jobs.iter().map(|job| job.job.id.clone()).collect();
        let put = self.store.put(jobs).await.map_err(|error| self.unstored(&error))?;
        watcher.advanced(ids.len() as u64);
        for (id, put) in ids.iter().zip(put) {
            let differs = format!("job {id}: another job with this id is there");
            self.count(put, |done| &mut done.jobs, &differs, watcher);
        }
        Ok(())
    }

    fn count(
        &mut self,
        put: Put,
        stored: impl Fn(&mut Imported) -> &mut u64,
        differs: &str,
        watcher: &mut dyn Watcher,
    ) {
        match put {
            Put::Done => *stored(&mut self.done) += 1,
            Put::Exists => self.done.existing += 1,
            Put::Differs => {
                self.done.refused += 1;
                watcher.named(differs);
            }
        }
    }

    fn unstored(&self, error: &store::Error) -> TransferError {
        TransferError::Failed(format!(
            "not everything was imported: {error}; stored so far: {}; a second run continues",
            counted(self.done.jobs + self.done.existing, "job")
        ))
    }
}
