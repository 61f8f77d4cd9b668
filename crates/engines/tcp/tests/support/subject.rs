//! The stack as the subject of scenarios.

use core::net::SocketAddr;

use linerate_mem::PoolConfig;
use linerate_tcp::machine::Machine;
use linerate_tcp::{ConnectOptions, Keepalive, ListenOptions};
use linerate_tcpscript::{Call, Endpoints, Event, Scenario, Subject};
use linerate_wire::MacAddress;

use super::program::Program;
use super::{settings, values};

/// MAC address of the stack.
pub const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// Time at which scenarios begin, so that nothing is tested at time 0 alone.
const START_NS: u64 = 1_000_000_000_000;
/// Time in which a stack that was left alone gives everything back: TIME-WAIT, and every other time-out, is over.
const REST_NS: u64 = 3_600_000_000_000;

/// A stack with the program of scenarios.
pub struct ScriptSubject {
    machine: Option<Machine<Program>>,
}

impl ScriptSubject {
    /// A stack with the settings of `scenario`.
    pub fn new(scenario: &Scenario) -> Result<ScriptSubject, String> {
        let config = settings::config(scenario)?;
        let machine = Machine::new(
            config,
            PoolConfig { frames: settings::FRAMES, ..PoolConfig::default() },
            START_NS,
            Program::default(),
        )
        .map_err(|error| error.to_string())?;
        Ok(ScriptSubject { machine: Some(machine) })
    }

    fn machine(&mut self) -> &mut Machine<Program> {
        self.machine.as_mut().expect("the subject has not ended")
    }
}

fn remote(endpoints: &Endpoints) -> SocketAddr {
    SocketAddr::new(endpoints.remote, endpoints.remote_port)
}

fn option<'a>(options: &'a [(String, String)], name: &str) -> Option<&'a str> {
    options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

impl Subject for ScriptSubject {
    fn time_ns(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.now_ns)
    }

    fn next_frame(&mut self, until_ns: u64) -> Option<Vec<u8>> {
        self.machine().next_frame(until_ns)
    }

    fn deliver(&mut self, frames: &[Vec<u8>]) {
        self.machine().deliver(frames.iter().map(Vec::as_slice));
    }

    fn call(&mut self, endpoints: &Endpoints, call: &Call) -> Result<(), String> {
        let remote = remote(endpoints);
        let endpoints = *endpoints;
        self.machine().with(|program, io| {
            let no_connection = || "there is no connection".to_string();
            match call {
                Call::Listen(options) => {
                    let mut listen = ListenOptions::default();
                    if let Some(backlog) = option(options, "backlog") {
                        listen.backlog = backlog.parse().map_err(|_| "not a number: backlog")?;
                    }
                    let port = option(options, "port").map_or(Ok(endpoints.local_port), str::parse);
                    let port = port.map_err(|_| "not a port")?;
                    let address = option(options, "address").map_or(Ok(endpoints.local), str::parse);
                    let address = SocketAddr::new(address.map_err(|_| "not an address")?, port);
                    io.listen(address, listen).map(drop).map_err(|error| error.to_string())
                }
                Call::Connect(options) => {
                    let to = option(options, "remote").map_or(Ok(endpoints.remote), str::parse);
                    let to = SocketAddr::new(to.map_err(|_| "not an address")?, endpoints.remote_port);
                    let mut connect = ConnectOptions::new(to);
                    connect.local_port = endpoints.local_port;
                    let local = option(options, "local").map(str::parse).transpose();
                    connect.local = local.map_err(|_| "not an address")?;
                    let conn = io.connect(connect).map_err(|error| error.to_string())?;
                    program.began(conn, to);
                    let own = ["remote", "local", "local_port"];
                    let mut others = options.iter().filter(|(name, _)| !own.contains(&name.as_str()));
                    others.try_for_each(|(name, value)| set(io, conn, name, value))
                }
                Call::Send(_)
                | Call::SendBytes(_)
                | Call::SendUrgent(_)
                | Call::Close
                | Call::Abort
                | Call::Set(..) => {
                    let conn = program.known(remote).conn.ok_or_else(no_connection)?;
                    let known = program.known(remote);
                    match call {
                        Call::Send(count) => {
                            let start = known.sent_total;
                            known.unsent.extend((start..start + *count as u64).map(linerate_tcpscript::stream_byte));
                            known.sent_total += *count as u64;
                        }
                        Call::SendBytes(bytes) => {
                            known.unsent.extend(bytes);
                            known.sent_total += bytes.len() as u64;
                        }
                        Call::SendUrgent(count) => {
                            let start = known.sent_total;
                            let bytes: Vec<u8> =
                                (start..start + *count as u64).map(linerate_tcpscript::stream_byte).collect();
                            known.sent_total += *count as u64;
                            let sent = io.send_urgent(conn, &bytes);
                            return if sent == *count { Ok(()) } else { Err(format!("only {sent} bytes were taken")) };
                        }
                        Call::Close => known.closes = true,
                        Call::Abort => io.abort(conn),
                        Call::Set(name, value) => return set(io, conn, name, value),
                        _ => {}
                    }
                    if *call != Call::Abort {
                        program.push(conn, io);
                    }
                    Ok(())
                }
                Call::Take(count) => {
                    program.takes = *count;
                    let known = program.known(remote);
                    known.takes = *count;
                    if let Some(conn) = known.conn {
                        io.resume(conn);
                    }
                    Ok(())
                }
                Call::Refused(..) => Err("calls that must fail are the runner's".into()),
            }
        })
    }

    fn event(&mut self, endpoints: &Endpoints) -> Option<Event> {
        let remote = remote(endpoints);
        self.machine().with(|program, _| program.known(remote).events.pop_front())
    }

    fn value(&mut self, endpoints: &Endpoints, name: &str) -> Result<String, String> {
        let remote = remote(endpoints);
        self.machine().with(|program, io| {
            if name == "connections" {
                return Ok(io.connections().to_string());
            }
            if let Some(value) = values::of_stack(&io.counters(), name) {
                return Ok(value);
            }
            let conn = program.known(remote).conn.ok_or("there is no connection")?;
            let info = io.info(conn).ok_or("the connection has ended")?;
            values::of_connection(&info, name).ok_or_else(|| format!("there is no value {name}"))
        })
    }

    fn finish(&mut self) -> Result<(), String> {
        let mut machine = self.machine.take().ok_or("the subject has ended already")?;
        machine.with(|program, io| {
            let conns: Vec<_> = program.known.values().filter_map(|known| known.conn).collect();
            for conn in conns {
                io.abort(conn);
            }
        });
        let until_ns = machine.now_ns + REST_NS;
        while machine.next_frame(until_ns).is_some() {}
        let (connections, waits, memory, stale) =
            machine.with(|program, io| (io.connections(), io.time_waits(), io.memory_bytes(), program.stale_calls));
        if waits != 0 || memory != (0, 0) {
            return Err(format!("{waits} TIME-WAIT records and {memory:?} bytes of buffers remain"));
        }
        if connections != 0 {
            return Err(format!("{connections} connections remain after all were aborted"));
        }
        if stale != 0 {
            return Err(format!("the program was called {stale} times for connections that had ended"));
        }
        machine.end()
    }
}

fn set(io: &mut linerate_tcp::Io<'_>, conn: linerate_tcp::Conn, name: &str, value: &str) -> Result<(), String> {
    match name {
        "nodelay" => io.set_nodelay(conn, value == "on"),
        "dscp" => assert!(io.set_dscp(conn, value.parse().map_err(|_| "not a code point")?)),
        "hop_limit" => assert!(io.set_hop_limit(conn, value.parse().map_err(|_| "not a hop limit")?)),
        "user_timeout" => {
            let ns = linerate_units::duration_ns(value).map_err(|error| error.to_string())?;
            assert!(io.set_user_timeout(conn, Some((ns / 1_000_000) as u32)));
        }
        "keepalive" if value == "off" => io.set_keepalive(conn, None),
        "keepalive" => {
            let parts: Vec<&str> = value.split(',').collect();
            let [idle, interval, probes] = parts[..] else { return Err("write IDLE,INTERVAL,PROBES".into()) };
            let ms = |text: &str| linerate_units::duration_ns(text).map(|ns| (ns / 1_000_000) as u32);
            let keepalive = Keepalive {
                idle_ms: ms(idle).map_err(|error| error.to_string())?,
                interval_ms: ms(interval).map_err(|error| error.to_string())?,
                probes: probes.parse().map_err(|_| "not a number of probes")?,
            };
            io.set_keepalive(conn, Some(keepalive));
        }
        _ => return Err(format!("unknown option: {name}")),
    }
    Ok(())
}
