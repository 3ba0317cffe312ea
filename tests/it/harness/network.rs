//! A network for one test: hosts in network namespaces around a router that can isolate a host from the others.
//! It needs root. The namespaces end with this process, and the machine's own network is not changed.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr},
    os::fd::AsFd,
    process::{Child, Command, Stdio},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The router, which also runs the test's clients, and the hosts.
pub struct Network {
    router: Namespace,
    hosts: Vec<Namespace>,
}

/// Which packets of a connection are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DroppedPackets {
    Both,
    /// Those to the host that opened the connection. Its requests still arrive.
    Answers,
}

/// A network namespace. A shell that reads from this process keeps it open, and ends with this process.
struct Namespace(Child);

impl Network {
    /// Creates a network with this number of hosts.
    ///
    /// # Errors
    /// The reason why this machine allows no network namespaces.
    pub fn new(hosts: usize) -> Result<Self, String> {
        let router = Namespace::new()?;
        router.run("echo 1 >/proc/sys/net/ipv4/ip_forward")?;
        let hosts: Vec<Namespace> = (0..hosts).map(|_| Namespace::new()).collect::<Result<_, _>>()?;
        for (n, host) in hosts.iter().enumerate() {
            let (router_side, host_side, pid) = (router_address(n), Self::address(n), host.0.id());
            router.run(&format!("ip link add h{n} type veth peer name eth0 netns {pid}"))?;
            router.run(&format!("ip addr add {router_side}/24 dev h{n} && ip link set h{n} up"))?;
            host.run(&format!("ip addr add {host_side}/24 dev eth0 && ip link set eth0 up"))?;
            host.run(&format!("ip route add default via {router_side}"))?;
        }
        Ok(Self { router, hosts })
    }

    /// The address of a host.
    pub fn address(host: usize) -> IpAddr {
        Ipv4Addr::new(10, 99, u8::try_from(host).expect("there are few hosts"), 2).into()
    }

    /// The words that have to precede a command so that it runs on a host.
    pub fn command_prefix(&self, host: usize) -> Vec<String> {
        self.hosts[host].command_prefix()
    }

    /// Moves this thread, and the processes that it starts from now on, to the router. From there every host can be
    /// reached, also an isolated one.
    pub fn enter(&self) {
        self.router.enter();
    }

    /// Moves this thread, and the processes that it starts from now on, to a host.
    pub fn enter_host(&self, host: usize) {
        self.hosts[host].enter();
    }

    /// Runs `test` on this host, on a thread of its own.
    pub fn run_on(self, host: usize, test: impl AsyncFnOnce(&Self) + Send + 'static) {
        let thread = std::thread::spawn(move || {
            self.enter_host(host);
            // One thread, because only this thread is in that network.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(test(&self));
        });
        thread.join().expect("the test passes");
    }

    /// Drops packets of the TCP connections that a host has from these ports. Packets of its other connections, and of new
    /// ones, pass.
    pub fn drop_connections(&self, host: usize, ports: &[u16], packets: DroppedPackets) {
        let address = Self::address(host);
        let (requests, answers) =
            (format!("from {address} ipproto tcp sport"), format!("to {address} ipproto tcp dport"));
        let ends = match packets {
            DroppedPackets::Both => vec![requests, answers],
            DroppedPackets::Answers => vec![answers],
        };
        for port in ports {
            for end in &ends {
                let rule = format!("ip rule add {end} {port} priority 10 blackhole");
                self.router.run(&rule).expect("rules can be changed");
            }
        }
    }

    /// Silently drops every packet between this host and the others from now on.
    pub fn isolate(&self, host: usize) {
        self.change_isolation("add", host);
    }

    /// Lets the packets between this host and the others pass again.
    pub fn reconnect(&self, host: usize) {
        self.change_isolation("del", host);
    }

    fn change_isolation(&self, verb: &str, host: usize) {
        // Packets to the router itself do not pass these rules. The packets to the host are dropped before those from
        // it: otherwise one replica could receive and acknowledge a change that another replica never receives, and
        // Sentinel could promote the other one.
        let rest = (0..self.hosts.len()).filter(|other| *other != host);
        let to = rest.map(|other| {
            format!("ip rule {verb} iif h{other} to {} priority 10 blackhole", Self::address(host))
        });
        let from = format!("ip rule {verb} iif h{host} priority 10 blackhole");
        for command in to.chain([from]) {
            self.router.run(&command).expect("rules can be changed");
        }
    }
}

fn router_address(host: usize) -> IpAddr {
    Ipv4Addr::new(10, 99, u8::try_from(host).expect("there are few hosts"), 1).into()
}

impl Namespace {
    fn new() -> Result<Self, String> {
        let mut keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo up && read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let read = BufReader::new(keeper.stdout.take().expect("piped")).read_line(&mut line);
        if read.is_ok() && line == "up\n" {
            return Ok(Self(keeper));
        }
        let output = keeper.wait_with_output().map_err(|error| error.to_string())?;
        Err(format!("no network namespaces: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    fn enter(&self) {
        let link = File::open(format!("/proc/{}/ns/net", self.0.id())).expect("the namespace's shell runs");
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("this process is root");
    }

    fn command_prefix(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.0.id())]
    }

    fn run(&self, script: &str) -> Result<(), String> {
        let words = self.command_prefix();
        let output = Command::new(&words[0]).arg(&words[1]).args(["sh", "-c", script]).output();
        let output = output.map_err(|error| format!("nsenter: {error}"))?;
        let message = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(()).ok_or_else(|| format!("{script}: {}", message.trim()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
