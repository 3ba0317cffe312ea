//! The layout that the servers store: agrees with other processes on it at start, watches that it is still there, and stores
//! another one once a loss of the store is accepted.

use fred::types::Value;

use super::store_identity;
use crate::store::{
    Error, MoveMark, Result,
    redis::{
        connection::{call::ScriptCall, connect_error::ConnectError, retry::ScriptClient},
        keys::{self, Keys},
        layout::{FORMAT, HostSeed, accept, difference, initial_shards, mark, marked_shards},
        options::Options,
        reply::{Reply, unexpected},
        scripts::Script,
    },
};

type Connected<T> = std::result::Result<T, ConnectError>;

/// Returns the number of shards that the jobs under the prefix are spread over. The very first start decides it:
/// the configured number, or else a default for these servers. At every later start the stored number counts. A store that
/// takes part in a move is refused, unless it is opened to be moved, and so is one that was lost.
pub async fn agree(client: &ScriptClient, to_move: bool) -> Connected<u16> {
    let options = &client.context.options;
    let failed = |error| from_store_error(options, error);
    let mut stored = fetch_stored(client).await.map_err(failed)?;
    if is_lost(client, &stored).await.map_err(failed)? {
        if !options.accept_empty {
            return Err(lost(options));
        }
        accept_stored(client).await?;
        stored = fetch_stored(client).await.map_err(failed)?;
    }
    let layout = match stored.layout {
        // Without a write, so that a start needs no memory.
        Some(layout) if layout.seed.is_some() => layout,
        Some(_) | None => {
            let begun = initialise(client, first_shards(client)).await.map_err(failed)?;
            // Another process has missed its store meanwhile.
            begun.ok_or_else(|| lost(options))?
        }
    };
    let shards = usable(options, &layout, to_move)?;
    if !layout.is_complete() {
        complete(client, &layout, shards).await?;
    }
    layout.seed.into_iter().for_each(|seed| client.context.layout.set_host_seed(seed));
    Ok(shards)
}

/// Like [`agree`], without writing anything; `None` if nothing is stored.
pub async fn read(client: &ScriptClient) -> Connected<Option<u16>> {
    let options = &client.context.options;
    let failed = |error| from_store_error(options, error);
    let stored = fetch_stored(client).await.map_err(failed)?;
    if !options.accept_empty && is_lost(client, &stored).await.map_err(failed)? {
        return Err(lost(options));
    }
    let Some(layout) = stored.layout else { return Ok(None) };
    layout.seed.into_iter().for_each(|seed| client.context.layout.set_host_seed(seed));
    usable(options, &layout, true).map(Some)
}

/// The error where a store was expected.
pub fn nothing_stored(options: &Options) -> ConnectError {
    let why = format!("nothing is stored under the prefix {:?}", options.prefix);
    ConnectError::Forbidden { at: options.address(), why }
}

/// Looks whether the layout of this process's store is still there. While another one is stored, or none, all calls that
/// need it are refused.
pub async fn watch(client: &ScriptClient, shards: u16) {
    let (options, layout) = (&client.context.options, &client.context.layout);
    let stored = match fetch(client, fetch_call(options).with_short_retry()).await {
        Ok(stored) => stored,
        Err(Error::Damaged(why)) => return layout.set_mismatch(Some(why)),
        // The sweep reports that a server cannot be reached.
        Err(
            Error::Unavailable(_)
            | Error::Refused { .. }
            | Error::Replaced
            | Error::Full(_)
            | Error::NotDurable(_)
            | Error::Stopped(_),
        ) => return,
    };
    let (_, slot) = keys::meta(&options.prefix);
    let (own, found) = (layout.host_seed(), stored.layout);
    let is_accepted = found.as_ref().is_some_and(|found| found.replaces.contains(&layout.mark()));
    match found {
        Some(found) if found.seed == Some(own) || is_accepted && found.is_complete() => {
            if let Some(seed) = found.seed.filter(|seed| *seed != own) {
                layout.set_host_seed(seed);
                tracing::warn!("goes on with what Redis stores now, in place of what was lost");
            }
            layout.set_lost(slot, false);
            layout.set_mismatch(found.forbidden.or_else(|| difference(&found.format, &found.shards, shards)));
        }
        Some(_) | None => {
            layout.set_lost(slot, !options.accept_empty);
            if stored.missed.is_none() && !is_accepted {
                miss(client).await;
            }
            if options.accept_empty
                && let Err(error) = accept_stored(client).await
            {
                tracing::debug!(%error, "the loss of the store could not be accepted");
            }
        }
    }
}

/// Makes what is stored now the store of the processes that miss theirs. Returns false if there is nothing to accept.
///
/// # Errors
/// [`ConnectError`], after which this may be repeated.
pub async fn accept_stored(client: &ScriptClient) -> Connected<bool> {
    let options = &client.context.options;
    let failed = |error| from_store_error(options, error);
    let stored = fetch_stored(client).await.map_err(failed)?;
    let (shards, whole) = match &stored.layout {
        Some(layout) => {
            let shards = usable(options, layout, false)?;
            let is_whole = is_whole(client, layout, shards).await.map_err(failed)?;
            (shards, layout.seed.filter(|_| is_whole))
        }
        None => match lost_shards(client, &stored).await.map_err(failed)? {
            Some(shards) => (shards, None),
            None => return Ok(false),
        },
    };
    if whole.is_some() && stored.missed.is_none() {
        return Ok(false);
    }
    // A new seed if anything is lost, because it may come back.
    let seed = whole.unwrap_or_else(rand::random);
    let layout = replace(client, &stored, shards, seed).await.map_err(failed)?;
    complete(client, &layout, usable(options, &layout, false)?).await?;
    Ok(true)
}

/// The number of shards to choose if nothing is stored.
pub fn first_shards(client: &ScriptClient) -> u16 {
    initial_shards(client.context.options.shards, client.router.has_single_primary())
}

/// What is stored under the prefix.
struct Stored {
    layout: Option<StoredLayout>,
    /// The mark of a store that a process misses here.
    missed: Option<String>,
}

/// A layout that the servers store.
struct StoredLayout {
    format: String,
    shards: String,
    /// `None` when it is missing or of another length.
    seed: Option<HostSeed>,
    /// Why no server may use the store, while it takes part in a move.
    forbidden: Option<String>,
    /// The mark that all shards have got.
    marked: Option<String>,
    /// The marks of the stores in whose place this one was accepted.
    replaces: String,
}

impl Stored {
    fn read(mut reply: Reply) -> Result<Self> {
        let mut value = || reply.value();
        let (format, shards, seed, move_mark) = (value()?, value()?, value()?, value()?);
        let (marked, replaces, missed) = (value()?, value()?, value()?.into_string());
        if format.is_null() || shards.is_null() {
            return Ok(Self { layout: None, missed });
        }
        let layout = StoredLayout {
            format: text(format)?,
            shards: text(shards)?,
            seed: seed.into_bytes().and_then(|bytes| HostSeed::try_from(&bytes[..]).ok()),
            forbidden: move_mark.into_bytes().and_then(|mark| forbidden(&mark)),
            marked: marked.into_string(),
            replaces: replaces.into_string().unwrap_or_default(),
        };
        Ok(Self { layout: Some(layout), missed })
    }
}

impl StoredLayout {
    /// Whether all shards have got the mark of the store.
    fn is_complete(&self) -> bool {
        let own = || Some(mark(&self.seed?, self.shards.parse().ok()?));
        self.marked.is_some() && self.marked == own()
    }
}

/// Whether a store was lost here: a process misses it, or shards have its mark and the layout is gone.
async fn is_lost(client: &ScriptClient, stored: &Stored) -> Result<bool> {
    match &stored.layout {
        Some(layout) => Ok(stored.missed.is_some() && !layout.is_complete()),
        None => Ok(lost_shards(client, stored).await?.is_some()
            // Another process may have made its first start meanwhile: the marks come after the layout.
            && fetch_stored(client).await?.layout.is_none()),
    }
}

/// The number of shards of the store whose layout was lost, if one was.
async fn lost_shards(client: &ScriptClient, stored: &Stored) -> Result<Option<u16>> {
    let first = first_shards(client);
    let mark = match &stored.missed {
        Some(mark) => Some(mark.clone()),
        None => store_identity::any_mark(client, &keys_of(client, first)).await?,
    };
    Ok(mark.map(|mark| marked_shards(&mark).unwrap_or(first)))
}

/// Whether all shards have the mark of this layout.
async fn is_whole(client: &ScriptClient, layout: &StoredLayout, shards: u16) -> Result<bool> {
    match &layout.marked {
        Some(mark) if layout.is_complete() => {
            store_identity::all_belong(client, &keys_of(client, shards), mark).await
        }
        Some(_) | None => Ok(false),
    }
}

/// The number of shards of a layout that this process may use.
fn usable(options: &Options, layout: &StoredLayout, to_move: bool) -> Connected<u16> {
    if let Some(why) = layout.forbidden.clone().filter(|_| !to_move) {
        return Err(ConnectError::Forbidden { at: options.address(), why });
    }
    accept(&layout.format, &layout.shards, options.shards)
        .map_err(|why| ConnectError::Layout { at: options.address(), why })
}

/// Why no server may use a store with this mark.
fn forbidden(mark: &[u8]) -> Option<String> {
    MoveMark::decode(mark)
        .map_or_else(|| Some("the mark of a move cannot be read".to_owned()), |mark| mark.forbids())
}

/// The call that reads the layout.
fn fetch_call(options: &Options) -> ScriptCall {
    call_with_meta(options, Script::GetLayout)
}

fn call_with_meta(options: &Options, script: Script) -> ScriptCall {
    let (meta, slot) = keys::meta(&options.prefix);
    ScriptCall::new(script, slot, vec![meta], Vec::new())
}

/// What is stored, as the call reads it.
async fn fetch(client: &ScriptClient, call: ScriptCall) -> Result<Stored> {
    Stored::read(Reply::new(client.call_with_retry(call).await?.value)?)
}

async fn fetch_stored(client: &ScriptClient) -> Result<Stored> {
    fetch(client, fetch_call(&client.context.options)).await
}

/// Stores a layout unless one is stored, and returns the stored one; `None` if a process misses its store here.
async fn initialise(client: &ScriptClient, shards: u16) -> Result<Option<StoredLayout>> {
    let seed: HostSeed = rand::random();
    let call = call_with_meta(&client.context.options, Script::InitLayout);
    let call = call.arg(FORMAT).arg(shards.to_string()).bytes_arg(seed.to_vec()).deadline();
    Ok(fetch(client, call).await?.layout)
}

/// Stores a layout in the place of the one that was read, unless another process was faster, and returns the stored one.
async fn replace(
    client: &ScriptClient,
    stored: &Stored,
    shards: u16,
    seed: HostSeed,
) -> Result<StoredLayout> {
    let read = stored.layout.as_ref().and_then(|layout| layout.seed);
    let call = call_with_meta(&client.context.options, Script::AcceptLayout);
    let call = call.arg(FORMAT).arg(shards.to_string()).bytes_arg(seed.to_vec());
    let call = call.bytes_arg(read.map(Vec::from).unwrap_or_default()).deadline();
    fetch(client, call).await?.layout.ok_or_else(|| unexpected("a layout"))
}

/// Marks all shards, and notes in the layout that they are marked.
async fn complete(client: &ScriptClient, layout: &StoredLayout, shards: u16) -> Connected<()> {
    let options = &client.context.options;
    let failed = |error| from_store_error(options, error);
    let seed = layout.seed.ok_or_else(|| failed(unexpected("a seed of 16 bytes")))?;
    let mark = mark(&seed, shards);
    store_identity::mark_all(client, &keys_of(client, shards), &mark).await.map_err(failed)?;
    let call = call_with_meta(options, Script::CompleteLayout).bytes_arg(seed.to_vec()).arg(mark).deadline();
    let done = client.call_with_retry(call).await.map_err(failed)?.value.as_i64();
    match done.ok_or_else(|| failed(unexpected("whether it was done")))? {
        0 => {
            let why = "another process has just stored another layout".to_owned();
            Err(ConnectError::Unreachable { at: options.address(), why })
        }
        _ => Ok(()),
    }
}

/// Notes in Redis that this process misses its store there.
async fn miss(client: &ScriptClient) {
    let call = call_with_meta(&client.context.options, Script::MissStore);
    let call = call.arg(client.context.layout.mark()).deadline().without_retry();
    if let Err(error) = client.call_with_retry(call).await {
        tracing::debug!(%error, "the loss of the store could not be noted");
    }
}

fn keys_of(client: &ScriptClient, shards: u16) -> Keys {
    Keys::new(&client.context.options.prefix, shards)
}

fn text(value: Value) -> Result<String> {
    value.into_string().ok_or_else(|| unexpected("a text"))
}

fn lost(options: &Options) -> ConnectError {
    ConnectError::Replaced { at: options.address() }
}

fn from_store_error(options: &Options, error: Error) -> ConnectError {
    ConnectError::from_store_error(&options.address(), error)
}
