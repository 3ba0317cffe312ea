//! The rows that are not jobs: what is set for topics, how far the clock has come, how the last run ended.

use std::time::Duration;

use rusqlite::{
    OptionalExtension, Row, params,
    types::{Value, ValueRef},
};

use super::{
    checksum::decode_clock,
    records::{Db, SqlResult},
};
use crate::{
    job::{RetrySchedule, Timestamp, Topic, TopicPause, TopicSettings, Ttr},
    store::{
        TopicConfig,
        embedded::recovery::{
            identity::{HeadState, StoreHead},
            wal::RunState,
        },
    },
};

impl Db {
    /// Stores what is set for a topic; defaults are not stored.
    pub fn put_topic(&mut self, name: &Topic, config: &TopicConfig) -> SqlResult<()> {
        self.begin()?;
        if config.is_default() {
            self.conn().prepare_cached("DELETE FROM topic WHERE name = ?1")?.execute([name.as_str()])?;
            return Ok(());
        }
        let TopicSettings { ttr, max_attempts, retry, require_receipt } = &config.settings;
        let retry = retry.as_ref().map(|retry| {
            let steps: Vec<String> = retry.steps().iter().map(|step| step.as_millis().to_string()).collect();
            steps.join(",")
        });
        let row = params![
            name.as_str(),
            ttr.map(|ttr| ttr.as_duration().as_millis() as i64),
            max_attempts,
            retry,
            require_receipt,
            config.pause.delivery,
            config.pause.intake,
        ];
        let sql = "INSERT OR REPLACE INTO topic VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        self.conn().prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    /// What is set for each topic; `Err` names a row that makes no sense.
    pub fn topics(&self) -> SqlResult<Vec<Result<(Topic, TopicConfig), String>>> {
        let mut select = self.conn().prepare("SELECT * FROM topic")?;
        let topics = select.query_map([], |row| {
            let name: String = row.get(0)?;
            let settings = topic_settings(row)?;
            let pause = TopicPause { delivery: row.get(5)?, intake: row.get(6)? };
            let parsed = Topic::parse(&name).ok().zip(settings);
            Ok(parsed.map(|(topic, settings)| (topic, TopicConfig { settings, pause })).ok_or(name))
        })?;
        topics.collect()
    }

    /// No moment later than this was ever acted on; `None` where it is damaged.
    pub fn clock(&self) -> SqlResult<Option<Timestamp>> {
        let sql = "SELECT value FROM meta WHERE name = 'clock_ms'";
        let mark = self.conn().query_row(sql, [], |row| {
            Ok(match row.get_ref(0)? {
                // As it was written before there were sums.
                ValueRef::Integer(ms) => Some(Timestamp::from_millis(ms)),
                ValueRef::Blob(sealed) => decode_clock(sealed),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) => None,
            })
        });
        Ok(mark.optional()?.flatten())
    }

    /// How the last run ended; what nobody ever wrote counts as not ended.
    pub fn run(&self) -> SqlResult<RunState> {
        let sql = "SELECT value FROM meta WHERE name = 'run'";
        let text: String = self.conn().query_row(sql, [], |row| row.get(0))?;
        Ok(RunState::parse(&text).unwrap_or(RunState::Open))
    }

    /// How far the store has come.
    pub fn store_head_state(&self) -> SqlResult<HeadState> {
        let sql = "SELECT value FROM meta WHERE name = 'link'";
        let value = self.conn().query_row(sql, [], |row| row.get::<_, Value>(0)).optional()?;
        Ok(match value {
            None => HeadState::Nothing,
            Some(Value::Blob(bytes)) => {
                StoreHead::decode(&bytes).map_or(HeadState::Damaged, HeadState::StoreHead)
            }
            Some(Value::Null | Value::Integer(_) | Value::Real(_) | Value::Text(_)) => HeadState::Damaged,
        })
    }

    pub fn set_run(&mut self, run: RunState) -> SqlResult<()> {
        self.begin()?;
        self.conn().execute("UPDATE meta SET value = ?1 WHERE name = 'run'", [run.as_str()])?;
        Ok(())
    }
}

fn topic_settings(row: &Row<'_>) -> SqlResult<Option<TopicSettings>> {
    let ms = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
    let (ttr, retry): (Option<i64>, Option<String>) = (row.get(1)?, row.get(3)?);
    let ttr = ttr.map(|ttr| Ttr::new(ms(ttr))).transpose().ok();
    let steps = |text: String| {
        let steps = text.split(',').filter(|step| !step.is_empty()).map(|step| step.parse().map(ms));
        RetrySchedule::new(steps.collect::<Result<_, _>>().ok()?).ok()
    };
    let retry = match retry {
        None => Some(None),
        Some(text) => steps(text).map(Some),
    };
    let (max_attempts, require_receipt) = (row.get(2)?, row.get(4)?);
    Ok(ttr.zip(retry).map(|(ttr, retry)| TopicSettings { ttr, max_attempts, retry, require_receipt }))
}
