//! Redis Clusters for the tests: three primaries with one replica each, on the loopback. The tests that change nothing
//! in it share one Cluster; a test that disturbs a Cluster starts its own.

use std::sync::OnceLock;

use linger::store::redis::Node;

use super::{
    redis::{Launch, RedisServer},
    resp::{Reply, Resp, until},
};

/// The number of slots of every Cluster.
pub const SLOTS: u16 = 16_384;
const PRIMARIES: usize = 3;

/// A Cluster that ends with the process that started it.
pub struct Cluster {
    /// At the start, the first three are primaries, and each of the others is the replica of the server three before it.
    pub servers: Vec<RedisServer>,
}

impl Cluster {
    /// Starts a Cluster whose servers consider each other failed after `node_timeout_ms`.
    pub fn start(node_timeout_ms: u32) -> Self {
        Self::start_with(node_timeout_ms, &[])
    }

    /// Like [`start`](Self::start), with these arguments for every server.
    pub fn start_with(node_timeout_ms: u32, arguments: &[&str]) -> Self {
        Self::launch(node_timeout_ms, arguments, |_, launch| launch)
    }

    /// Like [`start_with`](Self::start_with), with `place` choosing where the server with a given number runs.
    pub fn launch(node_timeout_ms: u32, arguments: &[&str], place: impl Fn(usize, Launch) -> Launch) -> Self {
        let timeout = node_timeout_ms.to_string();
        let mut all = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout];
        // Without this, a replica that was cut off from its primary for a while would not replace it.
        all.extend(["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]);
        // Without this, a primary without slots would become a replica.
        all.extend(["--save", "", "--cluster-allow-replica-migration", "no"]);
        all.extend(arguments);
        let launch = |n| RedisServer::launch(place(n, Launch::new(&all)));
        let servers = (0..2 * PRIMARIES).map(launch).collect();
        let cluster = Self { servers };
        cluster.join();
        cluster
    }

    fn join(&self) {
        let mut first = self.node(0);
        for n in 0..self.servers.len() {
            let mut node = self.node(n);
            node.call(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
            if n < PRIMARIES {
                let bound = |n: usize| usize::from(SLOTS) * n / PRIMARIES;
                let (from, to) = (bound(n).to_string(), (bound(n + 1) - 1).to_string());
                node.call(&["CLUSTER", "ADDSLOTSRANGE", &from, &to]);
            }
            if n > 0 {
                let address = self.servers[n].address();
                first.call(&["CLUSTER", "MEET", &address.ip().to_string(), &address.port().to_string()]);
            }
        }
        let known = format!("cluster_known_nodes:{}", self.servers.len());
        self.wait_until("all servers know each other", |node| info(node).contains(&known));
        for n in PRIMARIES..self.servers.len() {
            let primary = self.id(n - PRIMARIES);
            // A server learns its primary's name a moment after its address.
            until(|| self.node(n).send(&["CLUSTER", "REPLICATE", &primary]).expect("answers") == ok());
        }
        self.wait_until_healthy();
    }

    /// Waits until every server reports a healthy Cluster and every replica has caught up.
    pub fn wait_until_healthy(&self) {
        self.wait_until("the Cluster is healthy", |node| {
            let replicas = self.servers.len() - PRIMARIES;
            info(node).contains("cluster_state:ok")
                && has_caught_up(node)
                && roles(node) == (PRIMARIES, replicas)
        });
    }

    /// Waits until `condition` is true for every server.
    fn wait_until(&self, what: &str, condition: impl Fn(&mut Resp) -> bool) {
        for n in 0..self.servers.len() {
            let mut node = self.node(n);
            let waited = until(|| condition(&mut node));
            assert!(waited, "{what}: not true at server {n}: {}", node.call(&["CLUSTER", "NODES"]).text());
        }
    }

    /// Sets after how long without an answer the servers that run consider each other failed, in milliseconds.
    pub fn set_node_timeout(&self, ms: u32) {
        for server in &self.servers {
            if let Ok(mut node) = server.connect() {
                node.call(&["CONFIG", "SET", "cluster-node-timeout", &ms.to_string()]);
            }
        }
    }

    /// A connection to a server by its number.
    pub fn node(&self, n: usize) -> Resp {
        self.servers[n].connect().expect("the server listens")
    }

    /// A server's id in the Cluster.
    pub fn id(&self, n: usize) -> String {
        self.node(n).call(&["CLUSTER", "MYID"]).text()
    }

    /// The primaries that own slots, as server `asked` reports them.
    pub fn primaries(&self, asked: usize) -> Vec<usize> {
        let ranges = self.node(asked).call(&["CLUSTER", "SLOTS"]).list();
        let mut found: Vec<usize> = ranges.into_iter().map(|range| self.owner(range).2).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The owner of `slot`, as server `asked` reports it.
    pub fn owner_of(&self, slot: u16, asked: usize) -> usize {
        let ranges = self.node(asked).call(&["CLUSTER", "SLOTS"]).list();
        let mut ranges = ranges.into_iter().map(|range| self.owner(range));
        let slot = i64::from(slot);
        ranges.find(|(from, to, _)| (*from..=*to).contains(&slot)).expect("every slot has an owner").2
    }

    /// The first and last slot of a range, and the number of the server that owns it.
    fn owner(&self, range: Reply) -> (i64, i64, usize) {
        let range = range.list();
        let port = range[2].clone().list()[1].int();
        let is_owner = |server: &RedisServer| i64::from(server.port) == port;
        (
            range[0].int(),
            range[1].int(),
            self.servers.iter().position(is_owner).expect("a server of this Cluster"),
        )
    }

    /// Begins to move a slot to another server: moves all of its keys. Calls `pause` before the first one and after each.
    pub fn move_keys(&self, slot: u16, to: usize, mut pause: impl FnMut()) {
        let from = self.owner_of(slot, to);
        let (mut source, number) = (self.node(from), slot.to_string());
        let port = self.servers[to].port.to_string();
        self.node(to).call(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &self.id(from)]);
        source.call(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &self.id(to)]);
        pause();
        while let Some(key) = source.call(&["CLUSTER", "GETKEYSINSLOT", &number, "1"]).list().pop() {
            source.call(&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", &key.text()]);
            pause();
        }
    }

    /// The number of subscribers to `channel` at each server.
    pub fn subscribers(&self, channel: &str) -> Vec<i64> {
        let at = |n| self.node(n).call(&["PUBSUB", "NUMSUB", channel]).list()[1].int();
        (0..self.servers.len()).map(at).collect()
    }

    /// Starts a server that joins as a primary without slots. Returns its number.
    pub fn add_server(&mut self) -> usize {
        let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "15000"];
        let alone = ["--save", "", "--cluster-allow-replica-migration", "no"];
        let server = RedisServer::start_with(&[cluster, alone].concat());
        self.node(0).call(&["CLUSTER", "MEET", "127.0.0.1", &server.port.to_string()]);
        self.servers.push(server);
        let known = format!("cluster_known_nodes:{}", self.servers.len());
        self.wait_until("the new server is known", |node| {
            let info = info(node);
            info.contains(&known) && info.contains("cluster_state:ok")
        });
        self.servers.len() - 1
    }

    /// The address of every server, as the engine's options contain it.
    pub fn nodes(&self) -> Vec<Node> {
        self.servers.iter().map(|server| server.address().into()).collect()
    }

    /// Section `[redis]` of a server's settings, under this prefix.
    pub fn settings(&self, prefix: &str) -> String {
        let nodes: Vec<String> = self.servers.iter().map(RedisServer::node).collect();
        format!(
            "[store]\nengine = \"redis\"\n[redis]\nmode = \"cluster\"\nnodes = {nodes:?}\nprefix = \"{prefix}\"\n"
        )
    }
}

fn ok() -> Reply {
    Reply::Text("OK".to_owned())
}

fn info(node: &mut Resp) -> String {
    node.call(&["CLUSTER", "INFO"]).text()
}

/// The number of primaries and of replicas that a server knows, without failed ones.
fn roles(node: &mut Resp) -> (usize, usize) {
    let nodes = node.call(&["CLUSTER", "NODES"]).text();
    let count = |role: &str| {
        let has_role = |line: &&str| {
            let mut flags = line.split(' ').nth(2).unwrap_or_default().split(',');
            !line.contains("fail") && !line.contains("handshake") && flags.any(|flag| flag == role)
        };
        nodes.lines().filter(has_role).count()
    };
    (count("master"), count("slave"))
}

/// Whether a server is a primary, or a replica that has caught up.
fn has_caught_up(node: &mut Resp) -> bool {
    let info = node.call(&["INFO", "replication"]).text();
    info.contains("role:master") || info.contains("master_link_status:up")
}

/// The Cluster that tests share. They must not change it.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    // Long enough that no server considers another failed on a busy machine.
    CLUSTER.get_or_init(|| Cluster::start(15_000))
}
