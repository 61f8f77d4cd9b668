//! Texts that were tampered with: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/bodies/pkt_gen.rs"]
mod pkt_gen;

const SEEDS: [&str; 8] = [
    "10.0.0.1:1000-10.0.0.9:2000",
    "192.168.1.201-192.168.1.249:12345",
    "3@[2001:db8:0:2::1]:9-[2001:db8:0:9::1]:0x50",
    "netmap:ix0-3",
    "xdp:eth1@3,ring=8192,native",
    "-p 2 -i ix0 -f tx -n 950000000 -l 64 -s 192.168.1.1:12345 -d 192.168.1.201-192.168.1.249 -D 00:25:90:64:3b:3f -w 5",
    "-XAl100 -NBvv -ieth1 -ftx -R1000 -zZ -b 16 -o 2048 -C 1,2,3,4 -H 0 -T 100",
    "-i pipe:a -f ping -6 -s 7@[::1] -W -r -F 3 -M 10 -P f.pcap -I -c 0 -a 1",
];

#[test]
fn no_text_breaks_a_grammar() {
    let seeds: Vec<Vec<u8>> = SEEDS.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    let mut texts = 0;
    mutate::each(&seeds, 20_000, |data| {
        pkt_gen::run(data);
        texts += 1;
    });
    assert!(texts > 20_000);
}
