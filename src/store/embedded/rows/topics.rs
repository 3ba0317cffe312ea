//! The statements over the table `topic`: settings and pauses that differ from the defaults.

use std::time::Duration;

use rusqlite::{Row, params};

use super::db::{Db, SqlResult};
use crate::{
    job::{RetrySchedule, Topic, TopicPause, TopicSettings, Ttr},
    store::TopicConfig,
};

impl Db {
    /// Stores the configuration of a topic; defaults are not stored.
    pub fn put_topic_config(&mut self, name: &Topic, config: &TopicConfig) -> SqlResult<()> {
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

    /// The configuration of each topic that has one; `Err` carries the name of an invalid row.
    pub fn topic_configs(&self) -> SqlResult<Vec<Result<(Topic, TopicConfig), String>>> {
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
