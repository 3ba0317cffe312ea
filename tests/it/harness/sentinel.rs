//! Redis behind Sentinel for the tests: a primary, two replicas and three sentinels, on the loopback or where a test
//! places them.

use super::{
    redis::{Launch, RedisServer},
    resp::{Resp, until},
};

/// The name of the primary that the sentinels use.
pub const SERVICE: &str = "main";
/// The number of servers, and of sentinels.
pub const COUNT: usize = 3;

/// A primary, its replicas and the sentinels that monitor them. They end with this process.
pub struct Sentinels {
    /// At the start, the first server is the primary.
    pub servers: Vec<RedisServer>,
    pub sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts all of them, with these arguments for every server.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_at(&[(); COUNT].map(|()| Launch::new(&[])), arguments)
    }

    /// Like [`start`](Self::start), with one server and one sentinel at each of these places.
    pub fn start_at(places: &[Launch; COUNT], arguments: &[&str]) -> Self {
        let mut servers: Vec<RedisServer> = Vec::new();
        for place in places {
            let mut all = vec!["--save", "", "--repl-diskless-sync-delay", "0", "--repl-timeout", "5"];
            // `min-replicas-max-lag` is measured by this; replicas acknowledge once a second.
            all.extend(["--repl-ping-replica-period", "1"]);
            all.extend(arguments);
            let primary = servers.first().map(RedisServer::address);
            let follow = primary.map(|primary| format!("{} {}", primary.ip(), primary.port()));
            all.extend(follow.iter().flat_map(|follow| ["--replicaof", follow.as_str()]));
            servers.push(RedisServer::launch(launch_at(place, &all, None)));
        }
        let primary = servers[0].address();
        // Longer than a machine stands still, so that no primary is replaced that a test has not taken away.
        let file = format!(
            "sentinel monitor {SERVICE} {} {} 2\nsentinel down-after-milliseconds {SERVICE} 3000\n\
             sentinel failover-timeout {SERVICE} 3000\nsentinel parallel-syncs {SERVICE} 2\n",
            primary.ip(),
            primary.port()
        );
        let sentinel = |place| RedisServer::launch(launch_at(place, &["--sentinel"], Some(file.clone())));
        let sentinels = places.iter().map(sentinel).collect();
        let all = Self { servers, sentinels };
        all.wait_until_healthy();
        all
    }

    /// Waits until every sentinel knows the others and the replicas, and the replicas have caught up.
    pub fn wait_until_healthy(&self) {
        for sentinel in &self.sentinels {
            let mut connection = connect(sentinel);
            let knows_all = |master: &[String]| {
                let field =
                    |name: &str| master.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str());
                field("num-slaves") == Some("2")
                    && field("num-other-sentinels") == Some("2")
                    && field("flags") == Some("master")
            };
            let healthy = until(|| knows_all(&master(&mut connection)));
            assert!(healthy, "a sentinel knows only {:?}", master(&mut connection));
        }
        let connected = || {
            let info = connect(&self.servers[self.primary()]).call(&["INFO", "replication"]).text();
            info.contains("role:master") && info.matches("state=online").count() == COUNT - 1
        };
        assert!(until(connected), "the replicas follow the primary");
    }

    /// Sets after how long without an answer the sentinels consider the primary failed, in milliseconds.
    pub fn set_down_after(&self, ms: u32) {
        for sentinel in &self.sentinels {
            let words = ["SENTINEL", "SET", SERVICE, "down-after-milliseconds", &ms.to_string()];
            connect(sentinel).call(&words);
        }
    }

    /// The primary, according to the majority of the sentinels that answer.
    pub fn primary(&self) -> usize {
        let mut votes = [0; COUNT];
        for sentinel in &self.sentinels {
            let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
            let Ok(answer) = sentinel.connect().and_then(|mut connection| connection.send(&command)) else {
                continue;
            };
            let address: Vec<String> = answer.list().into_iter().map(|part| part.text()).collect();
            let address = address.join(":");
            let named = self.servers.iter().position(|server| server.address().to_string() == address);
            votes[named.expect("a server of this test")] += 1;
        }
        (0..COUNT).max_by_key(|n| votes[*n]).expect("there are servers")
    }

    /// Section `[redis]` of a server's settings, under this prefix.
    pub fn settings(&self, prefix: &str) -> String {
        let nodes: Vec<String> = self.sentinels.iter().map(RedisServer::node).collect();
        format!(
            "[store]\nengine = \"redis\"\n[redis]\nmode = \"sentinel\"\nnodes = {nodes:?}\n\
             sentinel_master = \"{SERVICE}\"\nprefix = \"{prefix}\"\n"
        )
    }
}

fn launch_at(place: &Launch, arguments: &[&str], file: Option<String>) -> Launch {
    Launch { file, arguments: Launch::new(arguments).arguments, ..place.clone() }
}

/// A connection to a server or sentinel.
pub fn connect(server: &RedisServer) -> Resp {
    server.connect().expect("the server listens")
}

fn master(sentinel: &mut Resp) -> Vec<String> {
    let fields = sentinel.call(&["SENTINEL", "MASTER", SERVICE]).list();
    fields.into_iter().map(|field| field.text()).collect()
}
