//! What `pkt-gen -h` prints: the options, and what differs from netmap's `pkt-gen`.

/// Options, forms and differences.
pub const USAGE: &str = "\
Usage: linerate pkt-gen -i PORT [-f FUNCTION] [options]
       pkt-gen ... (the same, when the program is called by that name)

netmap's pkt-gen for every kind of port: the same options, the same report lines.

What and where
  -i PORT        interface (eth1, netmap:eth1, eth1@2 for its queue 2) or any port of Linerate: packet:IF xdp:IF
                 xdplive:IF tap:NAME pcap:IF file:FILE null pipe:NAME. `linerate ports` lists those usable here.
                 Where netmap's module is loaded, eth1 and netmap:NAME are netmap's ports.
  -f FUNCTION    rx (default), tx, ping, pong, txseq, rxseq
  -n COUNT       stop after COUNT packets over all threads; 0 (default) = never
  -W             rx, rxseq: stop after 1 s of silence once packets have come
  -w SECONDS     wait for the link before starting: 2; 0 for null, pipe:, file:
  -T MS          time between reports: 1000

Packets
  -l BYTES       length without FCS, 16..65535: 60. A second -l: random sizes from the second up to below the first
  -4 -6          IPv4 (default) or IPv6
  -s -d RANGE    source, destination: ADDR[:PORT][-ADDR[:PORT]], with -6 [GROUP@][ADDR]:PORT where GROUP 0..7 is the
                 16-bit word that varies (7). Source port turns fastest, then source, destination port, destination.
  -S -D MAC      source (the interface's; that of a vale port is made of its name), destination (broadcast)
  -z -Z          random source, destination address and port in every packet
  -P FILE        send the packets of a pcap or pcapng file, again and again, until -n are sent
  -r             send whatever the buffers contain
  -F N -M BYTES  N fragments (slots) a packet, of at most BYTES each
  -H BYTES       virtio header: 0

Speed
  -R RATE        packets per second over all threads; 0 (default) = as fast as the port takes them
  -b BURST       packets of one port call, 1..4096: 128; 1 for ping and pong
  -p THREADS     threads, each with a queue or socket of its own: 1
  -a CPU         pin thread I to CPU (CPU + I) modulo the number of CPUs that -c allows
  -c CPUS        CPUs to use, 0 = all

Output
  -X             hex dump of every packet
  -v             more diagnostics
  -N             plain numbers without K, M, G
  -A             mean and standard deviation of the last 15 reports
  -B             bit rates with 24 bytes of framing and FCS for each packet
  -o BITS        16 sequence number and timestamp in the last 16 bytes, 64 = -X, 256 = -r, 512 = -z, 1024 = -Z,
                 2048 = -A; 1, 2, 4, 8, 4096 and 32 (-I) are accepted and have no effect
  -C SIZES       accepted with a warning; ring sizes are options of ports: packet:eth1,ring=8192

Ctrl-C stops and prints totals. Exit status: 0 done, 1 the port failed during the run (with totals), 2 not started.

Differences from netmap's pkt-gen
  * A wrong, unknown or missing argument is an error. So are letters that have no meaning for the function.
  * -R is the rate of all threads together, not of each; sending starts at once, not on the next whole second.
  * -n is exact over all threads; txseq and rxseq obey it.
  * -z and -Z differ in every packet sent, ranges too; IPv4 and UDP checksums are right in every packet.
  * -b is 128 unless told otherwise, not 512, because that is faster here.
  * Random sizes change with every packet, and their bytes are counted as sent.
  * -P sends the whole file, not its first packet. The libpcap port that -P chose before 2015 is -i pcap:IF.
  * Frames are compared with MTU + 14, so -l 1514 fits an MTU of 1500.
  * -6 sends 62 bytes unless told otherwise (the headers take 62) between 2001:2::1 and 2001:2:0:1::1.
  * -a 3 alone pins to CPU 3; more CPUs in -c than there are is a warning.
  * ping and pong speak IPv6. Round trips count from the scheduled time of the ping, means are over replies, percentiles
    are added, missing and duplicate replies are counted; `ping` goes on sending while replies are missing.
  * rxseq prints totals of lost, duplicated and reordered packets.
  * min_space is always 99999: ports do not tell it. -A counts reports of 0 pps, too.
  * -F with txseq is an error; -I, -C and the copy bits of -o do nothing; -H takes 0 only.
  * On pipe: (inside one process) tx, txseq and ping bring rx, rxseq and pong along on a second thread.
  * -i vale0:a is port a of the software switch vale0 (linerate switch), which is started if need be and ends after use;
    the kernel's switch is netmap:vale0:a.
  * Host rings, monitors, netmap pipes and the kernel's switch (netmap:vale0:a) need netmap's kernel module.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_of_the_grammar_is_described() {
        let options = USAGE.split("Differences").next().unwrap_or_default();
        for letter in super::super::parse::GRAMMAR.chars().filter(|letter| *letter != ':' && *letter != 'h') {
            assert!(options.contains(&format!("-{letter}")), "-{letter}");
        }
        assert!(USAGE.lines().all(|line| line.len() <= 120));
    }
}
