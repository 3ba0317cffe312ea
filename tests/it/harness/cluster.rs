//! Redis Clusters for the tests: three primaries and a replica of each, on the loopback. One is shared
//! by all tests that only use it; a test that breaks things starts its own.

use std::sync::OnceLock;

use linger::store::redis::Node;

use super::{
    redis::{Launch, RedisServer},
    resp::{Reply, Resp, until},
};

/// Slots of every Cluster.
pub const SLOTS: u16 = 16_384;
const PRIMARIES: usize = 3;

/// A Cluster that ends with the process that started it.
pub struct Cluster {
    /// The first three began as primaries, each of the others as the replica of the one three before.
    pub servers: Vec<RedisServer>,
}

impl Cluster {
    /// Starts one whose servers give each other up after `node_timeout_ms`.
    pub fn start(node_timeout_ms: u32) -> Self {
        Self::start_with(node_timeout_ms, &[])
    }

    /// The same, with these arguments for every server.
    pub fn start_with(node_timeout_ms: u32, arguments: &[&str]) -> Self {
        Self::launch(node_timeout_ms, arguments, |_, launch| launch)
    }

    /// The same, with each server started where `place` has it, by its number.
    pub fn launch(node_timeout_ms: u32, arguments: &[&str], place: impl Fn(usize, Launch) -> Launch) -> Self {
        let timeout = node_timeout_ms.to_string();
        let mut all = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout];
        // Otherwise a replica that was cut off from its primary for a while would not follow it.
        all.extend(["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]);
        // Nor would a primary stay one that has given its last slot away.
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
            // Its primary's name reaches a server a moment after its address.
            until(|| self.node(n).send(&["CLUSTER", "REPLICATE", &primary]).expect("answers") == ok());
        }
        self.wait_until_well();
    }

    /// Waits until every server finds the Cluster whole and every replica has caught up.
    pub fn wait_until_well(&self) {
        self.wait_until("the Cluster is well", |node| {
            let replicas = self.servers.len() - PRIMARIES;
            info(node).contains("cluster_state:ok") && in_step(node) && roles(node) == (PRIMARIES, replicas)
        });
    }

    /// Waits until `holds` of every server.
    fn wait_until(&self, what: &str, holds: impl Fn(&mut Resp) -> bool) {
        for n in 0..self.servers.len() {
            let mut node = self.node(n);
            let waited = until(|| holds(&mut node));
            assert!(waited, "{what}: not so at {n}: {}", node.call(&["CLUSTER", "NODES"]).text());
        }
    }

    /// A connection to a server by its number.
    pub fn node(&self, n: usize) -> Resp {
        Resp::connect(self.servers[n].address()).expect("the server is there")
    }

    /// A server's name in the Cluster.
    pub fn id(&self, n: usize) -> String {
        self.node(n).call(&["CLUSTER", "MYID"]).text()
    }

    /// Which servers are primaries that hold slots, by what server `asked` knows.
    pub fn primaries(&self, asked: usize) -> Vec<usize> {
        let ranges = self.node(asked).call(&["CLUSTER", "SLOTS"]).list();
        let mut found: Vec<usize> = ranges.into_iter().map(|range| self.holder(range).2).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Who holds `slot`, by what server `asked` knows.
    pub fn holder_of(&self, slot: u16, asked: usize) -> usize {
        let ranges = self.node(asked).call(&["CLUSTER", "SLOTS"]).list();
        let mut ranges = ranges.into_iter().map(|range| self.holder(range));
        let slot = i64::from(slot);
        ranges.find(|(from, to, _)| (*from..=*to).contains(&slot)).expect("every slot has a holder").2
    }

    /// First and last slot of a range, and the number of the server that holds it.
    fn holder(&self, range: Reply) -> (i64, i64, usize) {
        let range = range.list();
        let port = range[2].clone().list()[1].int();
        let held = |server: &RedisServer| i64::from(server.port) == port;
        (range[0].int(), range[1].int(), self.servers.iter().position(held).expect("one of ours"))
    }

    /// How many listen to `channel` at each server.
    pub fn subscribers(&self, channel: &str) -> Vec<i64> {
        let at = |n| self.node(n).call(&["PUBSUB", "NUMSUB", channel]).list()[1].int();
        (0..self.servers.len()).map(at).collect()
    }

    /// Starts a server that joins as a primary without slots; its number.
    pub fn grow(&mut self) -> usize {
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

    /// `host:port` of every server.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.address().to_string()).collect()
    }

    /// The URL of every server.
    pub fn nodes(&self) -> Vec<Node> {
        self.servers.iter().map(|server| server.address().into()).collect()
    }

    /// Section `[redis]` of a server's settings, under this prefix.
    pub fn settings(&self, prefix: &str) -> String {
        let nodes = self.addresses();
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

/// How many primaries and replicas a server knows, failed ones left out.
fn roles(node: &mut Resp) -> (usize, usize) {
    let nodes = node.call(&["CLUSTER", "NODES"]).text();
    let count = |role: &str| {
        let of = |line: &&str| {
            let mut flags = line.split(' ').nth(2).unwrap_or_default().split(',');
            !line.contains("fail") && !line.contains("handshake") && flags.any(|flag| flag == role)
        };
        nodes.lines().filter(of).count()
    };
    (count("master"), count("slave"))
}

/// Whether a server is a primary, or a replica that has caught up.
fn in_step(node: &mut Resp) -> bool {
    let info = node.call(&["INFO", "replication"]).text();
    info.contains("role:master") || info.contains("master_link_status:up")
}

/// The Cluster that all tests share: for those that leave it as it is.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    // On a busy machine no server must take another for gone.
    CLUSTER.get_or_init(|| Cluster::start(15_000))
}
