//! Every interleaving of a short exchange, by the loom model checker: `RUSTFLAGS="--cfg loom" cargo test -p linerate-ring --test loom`.
#![cfg(loom)]

use linerate_ring::ring_from;

#[test]
fn no_word_is_lost_torn_or_doubled() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring_from(2, u32::MAX);
        let sender = loom::thread::spawn(move || {
            let mut next = 1u64;
            for _ in 0..3 {
                if producer.push(&[next]) == 1 {
                    next += 1;
                }
            }
            next
        });
        let mut seen = Vec::new();
        for _ in 0..2 {
            let mut out = [0; 2];
            let count = consumer.pop(&mut out);
            seen.extend_from_slice(&out[..count]);
        }
        let next = sender.join().unwrap();
        let mut out = [0; 2];
        loop {
            match consumer.pop(&mut out) {
                0 => break,
                count => seen.extend_from_slice(&out[..count]),
            }
        }
        assert_eq!(seen, (1..next).collect::<Vec<_>>());
    });
}
