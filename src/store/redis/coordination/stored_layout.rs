//! The layout that the servers store: agrees with other processes on it at start, and keeps it stored.

use fred::types::Value;

use crate::store::{
    Error, MoveMark, Result,
    redis::{
        connection::{call::ScriptCall, connect_error::ConnectError, retry::ScriptClient},
        keys,
        layout::{FORMAT, HostSeed, accept, difference, initial_shards},
        options::Options,
        reply::{Reply, unexpected},
        scripts::Script,
    },
};

/// Returns the number of shards that the jobs under the prefix are spread over. The very first start decides it:
/// the configured number, or else a default for these servers. At every later start the stored number counts. A store that
/// takes part in a move is refused, unless it is opened to be moved.
pub async fn agree(client: &ScriptClient, to_move: bool) -> std::result::Result<u16, ConnectError> {
    let options = &client.context.options;
    let stored = match fetch(client, fetch_call(options)).await {
        // Without a write, so that a start needs no memory.
        Ok(Some(stored)) if stored.seed.is_some() => Ok(stored),
        Ok(Some(_) | None) => {
            initialise(client, initialise_call(options, first_shards(client), rand::random())).await
        }
        Err(error) => Err(error),
    };
    let StoredLayout { format, shards, seed, forbidden } =
        stored.map_err(|error| from_store_error(options, error))?;
    if let Some(why) = forbidden.filter(|_| !to_move) {
        return Err(ConnectError::Forbidden { at: options.address(), why });
    }
    seed.into_iter().for_each(|seed| client.context.layout.set_host_seed(seed));
    accept(&format, &shards, options.shards).map_err(|why| layout_error(options, why))
}

/// Like [`agree`], without writing anything; `None` if nothing is stored.
pub async fn read(client: &ScriptClient) -> std::result::Result<Option<u16>, ConnectError> {
    let options = &client.context.options;
    let stored =
        fetch(client, fetch_call(options)).await.map_err(|error| from_store_error(options, error))?;
    let Some(StoredLayout { format, shards, seed, .. }) = stored else { return Ok(None) };
    seed.into_iter().for_each(|seed| client.context.layout.set_host_seed(seed));
    accept(&format, &shards, options.shards).map(Some).map_err(|why| layout_error(options, why))
}

/// The error where a store was expected.
pub fn nothing_stored(options: &Options) -> ConnectError {
    let why = format!("nothing is stored under the prefix {:?}", options.prefix);
    ConnectError::Forbidden { at: options.address(), why }
}

/// Stores the layout again if the servers lost all data, so that a process that starts then does not choose another
/// one than the running processes use. While another layout is stored, all other calls are refused.
pub async fn keep_stored(client: &ScriptClient, shards: u16) {
    let (options, layout) = (&client.context.options, &client.context.layout);
    let stored = match fetch(client, fetch_call(options).with_short_retry()).await {
        Ok(Some(stored)) if stored.seed.is_some() => Ok(stored),
        Ok(Some(_) | None) => {
            let call = initialise_call(options, shards, layout.host_seed());
            initialise(client, call.without_retry()).await
        }
        Err(error) => Err(error),
    };
    let mismatch = match stored {
        Ok(StoredLayout { forbidden: Some(why), .. }) => Some(why),
        Ok(StoredLayout { format, shards: number, seed, .. }) => {
            seed.into_iter().for_each(|seed| layout.set_host_seed(seed));
            difference(&format, &number, shards)
        }
        Err(Error::Damaged(why)) => Some(why),
        // The sweep reports that a server cannot be reached.
        Err(
            Error::Unavailable(_)
            | Error::Refused { .. }
            | Error::Full(_)
            | Error::NotDurable(_)
            | Error::Stopped(_),
        ) => return,
    };
    layout.set_mismatch(mismatch);
}

/// The number of shards to choose if nothing is stored.
pub fn first_shards(client: &ScriptClient) -> u16 {
    initial_shards(client.context.options.shards, client.router.has_single_primary())
}

/// The call that reads the layout.
fn fetch_call(options: &Options) -> ScriptCall {
    let (meta, slot) = keys::meta(&options.prefix);
    ScriptCall::new(Script::GetLayout, slot, vec![meta], Vec::new())
}

/// What the servers store.
struct StoredLayout {
    format: String,
    shards: String,
    /// `None` when it is missing or of another length.
    seed: Option<HostSeed>,
    /// Why no server may use the store, while it takes part in a move.
    forbidden: Option<String>,
}

impl StoredLayout {
    /// Reads a reply; `None` when nothing is stored.
    fn read(mut reply: Reply) -> Result<Option<Self>> {
        match (reply.value()?, reply.value()?, reply.value()?, reply.value()?) {
            (Value::Null, _, _, _) | (_, Value::Null, _, _) => Ok(None),
            (format, shards, seed, mark) => {
                let seed = seed.into_bytes().and_then(|bytes| HostSeed::try_from(&bytes[..]).ok());
                let forbidden = mark.into_bytes().and_then(|mark| forbidden(&mark));
                Ok(Some(Self { format: text(format)?, shards: text(shards)?, seed, forbidden }))
            }
        }
    }
}

/// The layout, if one is stored.
async fn fetch(client: &ScriptClient, call: ScriptCall) -> Result<Option<StoredLayout>> {
    StoredLayout::read(Reply::new(client.call_with_retry(call).await?.value)?)
}

/// Why no server may use a store with this mark.
fn forbidden(mark: &[u8]) -> Option<String> {
    MoveMark::decode(mark)
        .map_or_else(|| Some("the mark of a move cannot be read".to_owned()), |mark| mark.forbids())
}

fn text(value: Value) -> Result<String> {
    value.into_string().ok_or_else(|| unexpected("a text"))
}

/// The call that stores what is not stored yet.
fn initialise_call(options: &Options, shards: u16, seed: HostSeed) -> ScriptCall {
    let (meta, slot) = keys::meta(&options.prefix);
    let call = ScriptCall::new(Script::InitLayout, slot, vec![meta], Vec::new());
    call.arg(FORMAT).arg(shards.to_string()).bytes_arg(seed.to_vec()).deadline()
}

/// Makes that call; returns what is stored now.
async fn initialise(client: &ScriptClient, call: ScriptCall) -> Result<StoredLayout> {
    let reply = Reply::new(client.call_with_retry(call).await?.value)?;
    StoredLayout::read(reply)?.ok_or_else(|| unexpected("a layout"))
}

fn from_store_error(options: &Options, error: Error) -> ConnectError {
    ConnectError::from_store_error(&options.address(), error)
}

fn layout_error(options: &Options, why: String) -> ConnectError {
    ConnectError::Layout { at: options.address(), why }
}
