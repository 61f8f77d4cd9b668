//! What happens when something is missing or goes away: clear errors, kept totals, nothing lost.

mod common;

use common::*;
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, PortError};
use linerate_sys::veth;

fn refusal(spec: &str, pool: &Pool) -> String {
    match open(spec, pool) {
        Ok(_) => panic!("{spec} could be opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_say_what_is_wrong_and_what_to_do() {
    on_a_pair(1, |_| {
        let pool = small_pool();
        let cases = [
            ("xdp:absent", "no interface", "ip link"),
            ("xdp:far@7", "no queue 7", "it has 1"),
            ("xdp:far,zerocopy", "no AF_XDP in this mode", "zerocopy"),
            ("xdp:far,color=red", "unknown option color", "native"),
            ("xdp:far,ring=100", "power of two", ""),
            ("xdp:far,native,generic", "only one", ""),
            ("xdp:far,budget=1", "budget takes a number", "32"),
        ];
        for (spec, cause, hint) in cases {
            let text = refusal(spec, &pool);
            assert!(text.contains(cause) && text.contains(hint), "{text}");
        }
        let odd = Pool::new(PoolConfig { frames: 256, frame_size: 1024 }).unwrap();
        assert!(refusal("xdp:far", &odd).contains("2048 or 4096"));
        let tiny = Pool::new(PoolConfig { frames: 16, ..PoolConfig::default() }).unwrap();
        assert!(refusal("xdp:far", &tiny).contains("larger pool"));
        open("xdp:far,tx_only", &tiny).unwrap();

        let first = open("xdp:far", &pool).unwrap();
        assert!(refusal("xdp:far", &pool).contains("AF_XDP socket already"));
        drop(first);
        // The kernel takes the queue down a little later; opening again waits for that.
        open("xdp:far", &pool).unwrap();
        let program = linerate_bpf::programs::drop_count::DropCount::load(false).unwrap();
        let ifindex = device("far").index().unwrap();
        let link = linerate_bpf::XdpLink::attach(program.program(), ifindex, linerate_bpf::AttachMode::Native).unwrap();
        assert!(refusal("xdp:far", &pool).contains("another XDP program"));
        drop(link);
        set_up("far", false);
        assert!(refusal("xdp:far", &pool).contains("ip link set far up"));
    });
}

#[test]
fn without_capabilities_the_error_names_them() {
    on_a_pair(1, |_| {
        let pool = small_pool();
        drop_capabilities().unwrap();
        let text = refusal("xdp:far", &pool);
        assert!(text.contains("CAP_NET_RAW") && text.contains("setcap"), "{text}");
    });
}

#[test]
fn an_interface_that_goes_down_is_an_error_until_it_is_up_again() {
    on_a_pair(1, |_| {
        let mut pool = small_pool();
        let mut near = open("xdp:near", &pool).unwrap();
        let mut far = open("xdp:far", &pool).unwrap();
        let (mut batch, mut received) = (Batch::new(&pool, 8), Batch::new(&pool, 8));
        add_packets(&mut pool, &mut batch, 0, 2, |_| 60);
        near.transmit(&mut batch).unwrap();
        receive_until(&mut far, &mut received, 2).unwrap();
        set_up("near", false);
        add_packets(&mut pool, &mut batch, 2, 3, |_| 60);
        let error = near.transmit(&mut batch).unwrap_err();
        assert!(matches!(&error, PortError::Down { interface, .. } if interface == "near"), "{error}");
        assert!(matches!(near.wait(Interest::Receive, u64::MAX).unwrap_err(), PortError::Down { .. }));
        let stats = near.stats().unwrap();
        let taken = 5 - batch.len() as u64;
        assert_eq!((stats.tx_packets, stats.tx_dropped()), (2, taken - 2), "{stats:?}");
        // A receiver that spins learns of it too.
        let error = (0..1_000_000).find_map(|_| near.receive(&mut received).err()).unwrap();
        assert!(matches!(error, PortError::Down { .. }), "{error}");
        set_up("near", true);
        flush(&mut near);
        while near.transmit(&mut batch).unwrap() > 0 {}
        flush(&mut near);
        let stats = near.stats().unwrap();
        assert_eq!(stats.tx_packets + stats.tx_dropped(), 5, "{stats:?}");
        drop((near, far, batch, received));
        assert!(is_whole(&mut pool));
    });
}

#[test]
fn an_interface_that_is_deleted_is_gone_and_the_totals_stay() {
    on_a_pair(1, |namespace| {
        let mut pool = small_pool();
        let mut near = open("xdp:near", &pool).unwrap();
        let mut far = open("xdp:far", &pool).unwrap();
        let (mut batch, mut received) = (Batch::new(&pool, 8), Batch::new(&pool, 8));
        add_packets(&mut pool, &mut batch, 0, 5, |_| 60);
        near.transmit(&mut batch).unwrap();
        flush(&mut near);
        veth::delete(namespace, "near").unwrap();
        // What had arrived can still be fetched.
        assert_eq!(far.receive(&mut received).unwrap(), 5);
        add_packets(&mut pool, &mut batch, 5, 1, |_| 60);
        let error = near.transmit(&mut batch).unwrap_err();
        assert!(matches!(error, PortError::Gone { .. }), "{error}");
        assert!(matches!(near.transmit(&mut batch).unwrap_err(), PortError::Gone { .. }));
        assert!(matches!(near.flush().unwrap_err(), PortError::Gone { .. }));
        assert!(matches!(far.wait(Interest::Receive, u64::MAX).unwrap_err(), PortError::Gone { .. }));
        let (sent, got) = (near.stats().unwrap(), far.stats().unwrap());
        assert_eq!((sent.tx_packets, sent.tx_dropped()), (5, 1 - batch.len() as u64), "{sent:?}");
        assert_eq!((got.rx_packets, got.rx_dropped()), (5, 0), "{got:?}");
        drop((near, far, batch, received));
        assert!(is_whole(&mut pool));
    });
}
