//! A switch without a controller: entries of a file and of the control socket, what it shows, what it saves.

use super::common;

use common::{Station, ask, config, show, snapshot, start_in, stop, wait_until};
use linerate_control::{Command, SettingValue};
use linerate_ofswitch::request::{Change, Request, What};

fn flows(action: Change, flows: &[&str]) -> Request {
    Request::Flow { action, flows: flows.iter().map(|flow| flow.to_string()).collect() }
}

#[test]
fn entries_of_a_file_forward_and_every_packet_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config("file", 3);
    let file = folder.path().join("start.flows");
    std::fs::write(
        &file,
        "# both ways\nin_port=1,actions=output:2,3\n\nflow table=0,in_port=2,actions=output:1 # back\n",
    )
    .unwrap();
    config.flows = Some(file);
    let running = start_in(folder.path(), &config);
    let [mut a, mut b, mut c] = [1, 2, 3].map(|number| Station::join(&running, "file", number));
    a.send_all(7, 100);
    assert_eq!((b.expect(100), c.expect(100)), (vec![7; 100], vec![7; 100]));
    b.send_all(8, 10);
    a.expect(10);
    c.send_all(9, 5);
    wait_until("the last are dropped", || snapshot(&running).totals.dropped == 5);
    let seen = snapshot(&running);
    let totals = &seen.totals;
    assert_eq!((totals.received, totals.copies, totals.sent, totals.waiting), (115, 100, 210, 0));
    assert_eq!(totals.drops, [("table-miss".to_string(), 5)].into());
    let port = |number: &str| seen.ports.iter().find(|port| port.name == number).unwrap().counters.clone();
    assert_eq!((port("1").rx_packets, port("1").tx_packets, port("2").tx_packets), (100, 10, 100));
    let entries = show(&running, What::Flow);
    let counts: Vec<u64> =
        entries["items"].as_array().unwrap().iter().map(|flow| flow["packets"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 110, "{entries}");
    let table = &show(&running, What::Table)[0];
    assert_eq!((&table["entries"], &table["lookups"], &table["matches"]), (&2.into(), &115.into(), &110.into()));
    let latency = show(&running, What::Latency);
    assert_eq!(latency.as_array().unwrap().iter().map(|row| row["packets"].as_u64().unwrap()).sum::<u64>(), 210);
    drop((a, b, c));
    let last = stop(running);
    assert_eq!((last.totals.sent, last.totals.waiting, last.last), (210, 0, true));
    assert_eq!(std::fs::read_dir(folder.path().join("linerate")).unwrap().count(), 0, "no socket stays");
}

#[test]
fn the_control_socket_changes_entries_and_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("ctl", 2));
    ask(&running, &flows(Change::Add, &["priority=5,actions=output:2", "table=1,priority=1,actions=drop"])).unwrap();
    ask(&running, &flows(Change::ModifyStrict, &["priority=5,actions=output:1"])).unwrap();
    let lines = show(&running, What::State);
    assert!(lines["items"][0].as_str().unwrap().contains("actions=output:1"), "{lines}");
    for (request, word) in [
        (flows(Change::Add, &["priority=1,actions=output:2", "priority=x,actions=drop"]), "1, are in force"),
        (flows(Change::Add, &["tcp_dst=80,actions=drop"]), "tcp"),
        (flows(Change::Add, &["actions=group:9"]), "add the group first"),
        (Request::Group { action: Change::Add, group: "group_id=1,type=round,bucket=output:1".into() }, "type"),
        (
            Request::Meter { action: Change::Modify, meter: "meter=7,kbps,bands=type=drop,rate=1".into() },
            "add the meter first",
        ),
        (Request::Trace { packet: "in_port=77,tcp".into(), in_port: None }, "no port 77"),
        (Request::Restore { lines: vec!["flow actions=output:2".into(), "flow nonsense".into()] }, "line 2"),
    ] {
        let error = ask(&running, &request).unwrap_err().to_string();
        assert!(error.contains(word), "{request:?}: {error}");
    }
    ask(&running, &flows(Change::Delete, &[""])).unwrap();
    assert_eq!(show(&running, What::Flow)["items"], serde_json::json!([]));
    stop(running);
}

#[test]
fn what_was_saved_makes_the_same_switch_again() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("save", 2));
    let change = |request: &Request| ask(&running, request).unwrap();
    change(&Request::Meter { action: Change::Add, meter: "meter=1,kbps,stats,bands=type=drop,rate=1000".into() });
    change(&Request::Group {
        action: Change::Add,
        group: "group_id=7,type=select,bucket=weight:2,actions=output:1,bucket=output:2".into(),
    });
    change(&Request::Group { action: Change::Add, group: "group_id=3,type=indirect,bucket=group:7".into() });
    change(&flows(
        Change::Add,
        &[
            "cookie=0x5,idle_timeout=60,priority=3,tcp,nw_src=10.0.0.0/8,tcp_dst=80,actions=meter:1,group:3",
            "send_flow_rem,table=2,dl_vlan=7,actions=pop_vlan,output:2",
            "priority=0,actions=goto_table:2",
        ],
    ));
    let before = show(&running, What::State)["items"].clone();
    assert_eq!(before.as_array().unwrap().len(), 6, "{before}");
    stop(running);

    let running = start_in(folder.path(), &config("save", 2));
    let lines: Vec<String> = serde_json::from_value(before.clone()).unwrap();
    let restore = || ask(&running, &Request::Restore { lines: lines.clone() }).unwrap();
    assert_eq!(restore(), serde_json::json!({ "meters": 1, "groups": 2, "flows": 3 }));
    assert_eq!(show(&running, What::State)["items"], before);
    // What has changed since is put back, what is as it was stays.
    let changed = "group_id=7,type=all,bucket=actions=output:1";
    ask(&running, &Request::Group { action: Change::Modify, group: changed.into() }).unwrap();
    ask(&running, &Request::Meter { action: Change::Modify, meter: "meter=1,pktps,bands=type=drop,rate=9".into() })
        .unwrap();
    assert_ne!(show(&running, What::State)["items"], before);
    assert_eq!(restore(), serde_json::json!({ "meters": 1, "groups": 2, "flows": 3 }));
    assert_eq!(show(&running, What::State)["items"], before);
    stop(running);
}

#[test]
fn a_trace_says_through_which_entries_a_packet_goes() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("trace", 2));
    ask(
        &running,
        &flows(
            Change::Add,
            &["priority=9,tcp,tcp_dst=80,actions=goto_table:1", "table=1,ip,cookie=0x77,actions=dec_ttl,output:2"],
        ),
    )
    .unwrap();
    let trace = |packet: &str| ask(&running, &Request::Trace { packet: packet.into(), in_port: None }).unwrap();
    let walked = trace("in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tcp_dst=80");
    assert_eq!(walked["verdict"], "leaves by 2", "{walked}");
    let steps = walked["steps"].to_string();
    assert!(
        steps.contains("table 0: priority=9") && steps.contains("cookie=0x77") && steps.contains("dec_ttl"),
        "{steps}"
    );
    assert_eq!(trace("in_port=2,udp")["verdict"], "dropped (table-miss)");
    let digits: String = common::marked(1).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(trace(&format!("hex:{digits}"))["verdict"], "dropped (table-miss)");
    assert_eq!(snapshot(&running).totals.received, 0, "nothing is counted");
    stop(running);
}

#[test]
fn long_lists_come_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("parts", 1));
    let all: Vec<String> =
        (0..10_000).map(|number| format!("table=3,priority={number},in_port=1,actions=drop")).collect();
    for part in all.chunks(1000) {
        ask(&running, &Request::Flow { action: Change::Add, flows: part.to_vec() }).unwrap();
    }
    let (mut count, mut after) = (0, None);
    loop {
        let part = ask(&running, &Request::Show { what: What::Flow, after }).unwrap();
        count += part["items"].as_array().unwrap().len();
        after = part["next"].as_u64();
        if after.is_none() {
            break;
        }
    }
    assert_eq!(count, 10_000);
    let stale = ask(&running, &Request::Show { what: What::Flow, after: Some(99) }).unwrap_err();
    assert!(stale.to_string().contains("ask again"), "{stale}");
    stop(running);
}

#[test]
fn ports_come_and_go_by_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("ports", 1));
    let add = |name: &str, settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|(key, value)| (key.to_string(), SettingValue(value.to_string()))).collect();
        ask(&running, &Command::AddPort { name: Some(name.into()), spec: format!("pipe:ports-{name}"), settings })
    };
    assert!(add("x", &[]).unwrap_err().cause.contains("not the number of a port"));
    assert!(add("1", &[]).unwrap_err().cause.contains("in use"));
    assert!(add("7", &[("colour", "red")]).unwrap_err().cause.contains("colour"));
    add("7", &[("speed", "1Gbit/s"), ("tunnel-id", "5")]).unwrap();
    ask(&running, &flows(Change::Add, &["tun_id=5,actions=output:1"])).unwrap();
    let (mut a, mut b) = (Station::join(&running, "ports", 1), Station::join(&running, "ports", 7));
    b.send_all(1, 3);
    a.expect(3);
    let ports = show(&running, What::Port);
    assert_eq!((&ports[1]["name"], &ports[1]["speed_kbps"]), (&"7".into(), &1_000_000.into()), "{ports}");
    ask(&running, &Command::RemovePort { port: "7".into() }).unwrap();
    wait_until("the port is gone", || show(&running, What::Port).as_array().unwrap().len() == 1);
    add("7", &[]).unwrap();
    drop((a, b));
    stop(running);
}

/// Each port is another worker's, so that every packet is handed over.
#[test]
fn several_workers_forward_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config("workers", 3);
    let core = *linerate_sys::affinity::allowed_cores().first().unwrap();
    config.cores = vec![core, core];
    let running = start_in(folder.path(), &config);
    ask(
        &running,
        &flows(Change::Add, &["in_port=1,actions=output:2,3", "in_port=2,actions=output:1", "in_port=3,actions=all"]),
    )
    .unwrap();
    let [mut a, mut b, mut c] = [1, 2, 3].map(|number| Station::join(&running, "workers", number));
    for mark in 0..20 {
        a.send_all(mark, 64);
        assert_eq!((b.expect(64), c.expect(64)), (vec![mark; 64], vec![mark; 64]));
        b.send_all(mark, 64);
        a.expect(64);
        c.send_all(mark, 10);
        assert_eq!((a.expect(10), b.expect(10)), (vec![mark; 10], vec![mark; 10]));
    }
    assert_eq!(snapshot(&running).workers.len(), 2);
    ask(&running, &Command::RemovePort { port: "2".into() }).unwrap();
    wait_until("the port is gone", || show(&running, What::Port).as_array().unwrap().len() == 2);
    let again =
        Command::AddPort { name: Some("2".into()), spec: "pipe:workers-2b".into(), settings: Default::default() };
    ask(&running, &again).unwrap();
    drop(b);
    let mut b = Station::at(&running, "pipe:workers-2b");
    a.send_all(7, 64);
    assert_eq!((b.expect(64), c.expect(64)), (vec![7; 64], vec![7; 64]));
    drop((a, b, c));
    let totals = stop(running).totals;
    assert_eq!(totals.sent, 20 * (128 + 64 + 20) + 128, "{totals:?}");
}
