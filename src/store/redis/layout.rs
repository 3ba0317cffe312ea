//! The layout of what lies under a prefix: its format, and over how many shards the jobs are spread. The
//! very first process decides it, and all others must go by it, or jobs would not be found again.

use std::sync::MutexGuard;

use fred::{clients::Client, error::Error as FredError, interfaces::HashesInterface, types::Value};

use super::{
    Context, Options,
    connection::{
        call::Call,
        error::{ConnectError, Fault},
        retry::Caller,
    },
    keys, options,
    reply::{Reply, unexpected},
    scripts::Op,
};
use crate::store::Error;

/// Version of everything under a prefix.
const FORMAT: &str = "1";
/// How many shards one server is first used with: callers share calls shard by shard, so that fewer
/// shards make fewer calls. A Cluster has enough for every server to hold some.
const SHARDS: u16 = 4;
const SHARDS_IN_CLUSTER: u16 = 16;

/// Over how many shards the jobs under the prefix are spread. The very first start decides it: what is
/// configured, or else what is best for these servers; at every later one, what is stored counts.
pub(super) async fn agree(caller: Caller<'_>) -> Result<u16, ConnectError> {
    let options = &caller.context.options;
    let first = first_shards(caller);
    let stored = stored(caller, write(options, first)).await;
    let (format, stored) =
        stored.map_err(|error| ConnectError::of_store(&options.mode.to_string(), error))?;
    agreed(&format, &stored, options.shards)
        .map_err(|why| ConnectError::Layout { at: options.mode.to_string(), why })
}

/// How what a server holds differs from this number of shards, if it does: after a failover, or behind an
/// address that leads elsewhere now. A server that holds nothing, or not this, does not differ.
pub(super) async fn other(
    client: &Client,
    options: &Options,
    shards: u16,
) -> Result<Option<String>, FredError> {
    let (meta, _) = keys::meta(&options.prefix);
    let found: Vec<Option<String>> = match client.hmget(meta, vec!["format", "shards"]).await {
        Ok(found) => found,
        Err(error) if matches!(Fault::sort(&error), Fault::Moved | Fault::Ask(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(match &found[..] {
        [Some(format), Some(number)] => differs(format, number, shards),
        _ => None,
    })
}

fn differs(format: &str, number: &str, shards: u16) -> Option<String> {
    ((format, number) != (FORMAT, &shards.to_string())).then(|| {
        format!(
            "{number} shards in format {format} are stored, and this process works with {shards} in format {FORMAT}"
        )
    })
}

/// Why a call may not be made while another layout is stored: jobs that it adds would not be found by those who go by
/// that, nor it find theirs.
pub(super) fn parted(context: &Context, op: Op) -> Option<String> {
    let why = lock(context).clone()?;
    (!matches!(op, Op::Layout | Op::Start)).then_some(why)
}

fn lock(context: &Context) -> MutexGuard<'_, Option<String>> {
    context.parted.lock().expect("no code panics while it holds the reason")
}

/// Keeps the number of shards stored, and stops all other calls while another one is.
pub(super) async fn watch(caller: Caller<'_>, shards: u16) {
    let found = match keep(caller, shards).await {
        Ok(()) => None,
        Err(Error::Damaged(why)) => Some(why),
        // Whether the server can be reached is the sweep's to tell.
        Err(_) => return,
    };
    let before = std::mem::replace(&mut *lock(caller.context), found.clone());
    match (before, found) {
        (None, Some(why)) => {
            tracing::error!(%why, "nothing is done on another layout; start this process anew");
        }
        (Some(_), None) => tracing::info!("the layout is stored again that this process works with"),
        (None, None) | (Some(_), Some(_)) => {}
    }
}

/// As [`agree`], without writing anything: where nothing is stored, what a first start would decide.
pub(super) async fn read(caller: Caller<'_>) -> Result<u16, ConnectError> {
    let options = &caller.context.options;
    let found = found(caller, look(options)).await;
    let found = found.map_err(|error| ConnectError::of_store(&options.mode.to_string(), error))?;
    match found {
        None => Ok(first_shards(caller)),
        Some((format, number)) => agreed(&format, &number, options.shards)
            .map_err(|why| ConnectError::Layout { at: options.mode.to_string(), why }),
    }
}

/// Over how many shards the jobs are spread where nothing is stored.
fn first_shards(caller: Caller<'_>) -> u16 {
    let suits = if caller.routes.spans_slots() { SHARDS } else { SHARDS_IN_CLUSTER };
    caller.context.options.shards.unwrap_or(suits)
}

/// Writes the layout again if the server has lost it with all else, so that a process which starts from then on
/// does not decide for another one than this process works with.
///
/// # Errors
/// [`Error::Damaged`] when another layout is stored, those of the store when that cannot be known now.
async fn keep(caller: Caller<'_>, shards: u16) -> Result<(), Error> {
    let options = &caller.context.options;
    let (format, number) = match found(caller, look(options).brief()).await? {
        None => stored(caller, write(options, shards).once()).await?,
        Some(found) => found,
    };
    differs(&format, &number, shards).map_or(Ok(()), |why| Err(Error::Damaged(why)))
}

/// The call that reads the layout.
fn look(options: &Options) -> Call {
    let (meta, slot) = keys::meta(&options.prefix);
    Call::new(Op::Layout, slot, vec![meta], Vec::new())
}

/// The format and the number of shards that are stored, if they are.
async fn found(caller: Caller<'_>, look: Call) -> Result<Option<(String, String)>, Error> {
    let mut found = Reply::new(caller.insist(look).await?.value)?;
    match (found.value()?, found.value()?) {
        (Value::Null, _) | (_, Value::Null) => Ok(None),
        (format, number) => Ok(Some((text(format)?, text(number)?))),
    }
}

fn text(value: Value) -> Result<String, Error> {
    value.into_string().ok_or_else(|| unexpected("a text"))
}

/// The call that writes the layout where there is none, and tells what it is.
fn write(options: &Options, shards: u16) -> Call {
    let (meta, slot) = keys::meta(&options.prefix);
    Call::new(Op::Start, slot, vec![meta], Vec::new()).arg(FORMAT).arg(shards.to_string()).dated()
}

/// The format and the number of shards that `call` finds.
async fn stored(caller: Caller<'_>, call: Call) -> Result<(String, String), Error> {
    let mut reply = Reply::new(caller.insist(call).await?.value)?;
    Ok((reply.text()?, reply.text()?))
}

/// The number of shards that is stored, unless this version or these options are for another layout.
fn agreed(format: &str, stored: &str, configured: Option<u16>) -> Result<u16, String> {
    if format != FORMAT {
        return Err(format!("it has format {format}, this version reads {FORMAT}"));
    }
    let Some(shards) = stored.parse().ok().filter(|shards| options::SHARDS.contains(shards)) else {
        let (least, most) = options::SHARDS.into_inner();
        return Err(format!(
            "its number of shards is {stored:?}, which should lie between {least} and {most}"
        ));
    };
    match configured {
        Some(configured) if configured != shards => Err(format!(
            "it was first used with {shards} shards and {configured} are configured; the number cannot \
             change, or jobs would not be found again"
        )),
        Some(_) | None => Ok(shards),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_counts_unless_it_is_something_else() {
        assert_eq!(agreed("1", "16", None), Ok(16));
        assert_eq!(agreed("1", "8", Some(8)), Ok(8));
        assert_eq!(agreed("1", "256", None), Ok(256));
        let said = agreed("1", "16", Some(8)).expect_err("another number");
        assert!(said.contains("first used with 16 shards and 8 are configured"), "{said}");
        for odd in ["0", "257", "-1", "", "many", "70000"] {
            let said = agreed("1", odd, None).expect_err(odd);
            assert!(said.contains("between 1 and 256"), "{said}");
        }
        assert!(agreed("2", "16", None).expect_err("a later format").contains("format 2"));
    }
}
