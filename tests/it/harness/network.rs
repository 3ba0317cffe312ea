//! A network of a test's own: hosts in network namespaces around a router, which can cut a host off
//! from the others. Needs root. Everything lives in namespaces that end with this process; nothing of
//! the machine's own network is touched.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr},
    os::fd::AsFd,
    process::{Child, Command, Stdio},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The router, where the test's clients are, and the hosts.
pub struct Network {
    router: Namespace,
    hosts: Vec<Namespace>,
}

/// A network namespace, kept by a shell that reads from us and ends when this process does.
struct Namespace(Child);

impl Network {
    /// Makes a network of so many hosts.
    ///
    /// # Errors
    /// Why it cannot be made here.
    pub fn new(hosts: usize) -> Result<Self, String> {
        let router = Namespace::new()?;
        router.run("echo 1 >/proc/sys/net/ipv4/ip_forward")?;
        let hosts: Vec<Namespace> = (0..hosts).map(|_| Namespace::new()).collect::<Result<_, _>>()?;
        for (n, host) in hosts.iter().enumerate() {
            let (here, there, pid) = (router_address(n), Self::address(n), host.0.id());
            router.run(&format!("ip link add h{n} type veth peer name eth0 netns {pid}"))?;
            router.run(&format!("ip addr add {here}/24 dev h{n} && ip link set h{n} up"))?;
            host.run(&format!("ip addr add {there}/24 dev eth0 && ip link set eth0 up"))?;
            host.run(&format!("ip route add default via {here}"))?;
        }
        Ok(Self { router, hosts })
    }

    /// A host's address.
    pub fn address(host: usize) -> IpAddr {
        Ipv4Addr::new(10, 99, u8::try_from(host).expect("few hosts"), 2).into()
    }

    /// What stands before a program so that it runs on a host.
    pub fn on(&self, host: usize) -> Vec<String> {
        self.hosts[host].enter()
    }

    /// Moves this thread, and what it starts from now on, to the router: from there every host can be
    /// reached, also one that is cut off.
    pub fn enter(&self) {
        self.router.move_in();
    }

    /// Moves this thread, and what it starts from now on, to a host.
    pub fn enter_host(&self, host: usize) {
        self.hosts[host].move_in();
    }

    /// Runs `test` on this host, on a thread of its own.
    pub fn run_on(self, host: usize, test: impl AsyncFnOnce(&Self) + Send + 'static) {
        let thread = std::thread::spawn(move || {
            self.enter_host(host);
            // One thread: only this one is in that network.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(test(&self));
        });
        thread.join().expect("the test passes");
    }

    /// Drops every packet of the TCP connections that a host has from these ports, in both directions. Its
    /// other connections, and new ones, pass.
    pub fn drop_connections(&self, host: usize, ports: &[u16]) {
        let address = Self::address(host);
        for port in ports {
            for end in
                [format!("from {address} ipproto tcp sport"), format!("to {address} ipproto tcp dport")]
            {
                let rule = format!("ip rule add {end} {port} priority 10 blackhole");
                self.router.run(&rule).expect("rules can be changed");
            }
        }
    }

    /// Drops everything between this host and the others from now on, without a word.
    pub fn cut(&self, host: usize) {
        self.between("add", host);
    }

    /// Lets it pass again.
    pub fn heal(&self, host: usize) {
        self.between("del", host);
    }

    fn between(&self, verb: &str, host: usize) {
        // What is meant for the router itself never comes to these rules. Its answers are cut off before
        // its questions: the other way round one replica could have, and acknowledge, a change that
        // another never gets, and Sentinel may choose that other.
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
    Ipv4Addr::new(10, 99, u8::try_from(host).expect("few hosts"), 1).into()
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
        let said = keeper.wait_with_output().map_err(|error| error.to_string())?;
        Err(format!("no network namespaces: {}", String::from_utf8_lossy(&said.stderr).trim()))
    }

    fn move_in(&self) {
        let link = File::open(format!("/proc/{}/ns/net", self.0.id())).expect("it runs");
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network)).expect("we are root");
    }

    fn enter(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.0.id())]
    }

    fn run(&self, script: &str) -> Result<(), String> {
        let words = self.enter();
        let output = Command::new(&words[0]).arg(&words[1]).args(["sh", "-c", script]).output();
        let output = output.map_err(|error| format!("nsenter: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(()).ok_or_else(|| format!("{script}: {}", said.trim()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
