//! A network of three machines on this one: a network namespace for each, joined by a bridge. It needs root.
//!
//! Packets between the machines are dropped, rejected and slowed down by rules inside the namespaces. Everything is
//! removed when the value is dropped.

use std::{net::Ipv4Addr, process::Command};

use crate::Failure;

/// The interface of a machine inside its namespace.
const INTERFACE: &str = "eth0";
const TABLE: &str = "faults";

/// See the module.
pub(crate) struct Network {
    /// The prefix of the names of its parts.
    name: String,
    /// The first two bytes after 10.
    subnet: [u8; 2],
    machines: usize,
}

impl Network {
    pub(crate) fn create(machines: usize) -> Result<Network, Failure> {
        let id = std::process::id();
        let [.., high, low] = id.to_be_bytes();
        let network = Network { name: format!("cv{id}"), subnet: [128 | high, low], machines };
        let bridge = network.bridge();
        run("ip", &["link", "add", "name", &bridge, "type", "bridge"])?;
        run("ip", &["addr", "add", &format!("{}/24", network.address(254)), "dev", &bridge])?;
        run("ip", &["link", "set", &bridge, "up"])?;
        for machine in 0..machines {
            network.add(machine)?;
        }
        Ok(network)
    }

    fn add(&self, machine: usize) -> Result<(), Failure> {
        let (namespace, outer) = (self.namespace(machine), format!("{}p{machine}", self.name));
        let inner = format!("{}i{machine}", self.name);
        run("ip", &["netns", "add", &namespace])?;
        run("ip", &["link", "add", &inner, "type", "veth", "peer", "name", &outer])?;
        run("ip", &["link", "set", &inner, "netns", &namespace, "name", INTERFACE])?;
        run("ip", &["link", "set", &outer, "master", &self.bridge(), "up"])?;
        let address = format!("{}/24", self.machine(machine));
        run("ip", &["-n", &namespace, "addr", "add", &address, "dev", INTERFACE])?;
        for interface in ["lo", INTERFACE] {
            run("ip", &["-n", &namespace, "link", "set", interface, "up"])?;
        }
        self.rule(machine, &["add", "table", "inet", TABLE])?;
        for chain in ["input", "output"] {
            let hook = format!("{{ type filter hook {chain} priority 0 ; }}");
            self.rule(machine, &["add", "chain", "inet", TABLE, chain, &hook])?;
        }
        Ok(())
    }

    /// The command that runs a program on a machine; the program is still to be added.
    pub(crate) fn command_on(&self, machine: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(machine)]);
        command
    }

    /// The address of a machine.
    pub(crate) fn machine(&self, machine: usize) -> Ipv4Addr {
        self.address(machine as u8 + 1)
    }

    /// What one machine sends does not reach another one.
    pub(crate) fn cut(&self, from: usize, to: usize) -> Result<(), Failure> {
        let from = self.machine(from).to_string();
        self.rule(to, &["add", "rule", "inet", TABLE, "input", "ip", "saddr", &from, "drop"])
    }

    /// That many percent of the packets from and to a machine are lost.
    pub(crate) fn lose(&self, machine: usize, percent: u64) -> Result<(), Failure> {
        for chain in ["input", "output"] {
            let (percent, rule) = (percent.to_string(), ["add", "rule", "inet", TABLE, chain]);
            let chance = ["numgen", "random", "mod", "100", "<", &percent, "drop"];
            self.rule(machine, &[&rule[..], &chance[..]].concat())?;
        }
        Ok(())
    }

    /// One in so many packets to a machine resets its connection.
    pub(crate) fn reset(&self, machine: usize, one_in: u64) -> Result<(), Failure> {
        let (one_in, rule) = (one_in.to_string(), ["add", "rule", "inet", TABLE, "input"]);
        let chance = ["meta", "l4proto", "tcp", "numgen", "random", "mod", &one_in, "<", "1"];
        let action = ["reject", "with", "tcp", "reset"];
        self.rule(machine, &[&rule[..], &chance[..], &action[..]].concat())
    }

    /// A machine sends that many kilobits a second; what has to wait for longer than half a second is lost.
    pub(crate) fn slow_down(&self, machine: usize, kilobits: u64) -> Result<(), Failure> {
        let (namespace, rate) = (self.namespace(machine), format!("{kilobits}kbit"));
        let device = ["-n", &namespace, "qdisc", "add", "dev", INTERFACE, "root"];
        let bucket = ["tbf", "rate", &rate, "burst", "16kb", "latency", "500ms"];
        run("tc", &[&device[..], &bucket[..]].concat())
    }

    /// Ends everything that happens to packets.
    pub(crate) fn heal(&self) -> Result<(), Failure> {
        for machine in 0..self.machines {
            self.rule(machine, &["flush", "table", "inet", TABLE])?;
            let namespace = self.namespace(machine);
            let shown = Command::new("tc").args(["-n", &namespace, "qdisc", "show"]).output()?;
            if String::from_utf8_lossy(&shown.stdout).contains("tbf") {
                run("tc", &["-n", &namespace, "qdisc", "del", "dev", INTERFACE, "root"])?;
            }
        }
        Ok(())
    }

    fn rule(&self, machine: usize, words: &[&str]) -> Result<(), Failure> {
        let output = self.command_on(machine).arg("nft").args(words).output()?;
        succeeded("nft", words, &output)
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        let [second, third] = self.subnet;
        Ipv4Addr::new(10, second, third, last)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn namespace(&self, machine: usize) -> String {
        format!("{}n{machine}", self.name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // What was not created cannot be removed.
        for machine in 0..self.machines {
            drop(run("ip", &["netns", "del", &self.namespace(machine)]));
        }
        drop(run("ip", &["link", "del", &self.bridge()]));
    }
}

/// Runs a program that needs root.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    succeeded(program, arguments, &output)
}

fn succeeded(
    program: &str,
    arguments: &[&str],
    output: &std::process::Output,
) -> Result<(), Failure> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{program} {} failed: {said}", arguments.join(" ")).into())
}
